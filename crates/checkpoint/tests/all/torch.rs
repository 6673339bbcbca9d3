//! Files of `torch.save` in `golden/torch/`: every tensor compared with torch's values, and files that are
//! refused.

mod bad;

use gguf_types::Problem as _;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use gguf_checkpoint::{Checkpoint, Error, Tensor};
use gguf_testkit::{Pickler, zip};
use tempfile::TempDir;

const FILE: &str = "pytorch_model.bin";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/torch").join(name)
}

fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.json"), "{}").unwrap();
    for (name, bytes) in files {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

fn open(bytes: &[u8]) -> Result<Checkpoint, Error> {
    gguf_checkpoint::open(folder(&[(FILE, bytes)]).path())
}

fn names(folder: &str, ending: &str) -> Vec<String> {
    let entries = fs::read_dir(golden(folder)).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> =
        entries.filter_map(|name| Some(name.to_str().unwrap().strip_suffix(ending)?.to_owned())).collect();
    names.sort();
    assert!(!names.is_empty());
    names
}

fn form(name: &str) -> Checkpoint {
    open(&fs::read(golden(&format!("forms/{name}.bin"))).unwrap())
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn values(checkpoint: &Checkpoint, tensor: &Tensor) -> Vec<f32> {
    if tensor.row_elems() == 0 {
        return Vec::new();
    }
    let mut values = vec![f32::NAN; (tensor.n_rows() * tensor.row_elems()) as usize];
    checkpoint.read_rows(tensor, tensor.row_elems(), 0..tensor.n_rows(), &mut values).unwrap();
    values
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn every_form_matches_torch() {
    let mut n_tensors = 0;
    for name in names("forms", ".bin") {
        let checkpoint = form(&name);
        let mut listing = String::new();
        for tensor in &checkpoint.tensors {
            n_tensors += 1;
            let bytes: Vec<u8> = values(&checkpoint, tensor).iter().flat_map(|v| v.to_le_bytes()).collect();
            let shape: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
            let (shape, digest) = (shape.join(","), gguf_testkit::sha256(&bytes));
            listing += &format!("{} {} [{shape}] {digest}\n", tensor.name, tensor.dtype);
        }
        let expected = fs::read_to_string(golden(&format!("forms/{name}.txt"))).unwrap();
        assert_eq!(listing, expected, "{name}");
        assert_eq!(checkpoint.format, "torch pickles");
    }
    assert!(n_tensors > 100, "{n_tensors}");
}

/// Checks that partial reads, also with other row lengths, agree with the complete tensor. Returns the number
/// of tensors that are not plain bytes of a file, and how many are best read in panels.
fn check_parts(name: &str, checkpoint: &Checkpoint) -> (usize, usize) {
    let (mut n_stored, mut n_panels) = (0, 0);
    for tensor in &checkpoint.tensors {
        let whole = values(checkpoint, tensor);
        let (n_rows, width) = (tensor.n_rows(), tensor.row_elems());
        if whole.is_empty() {
            continue;
        }
        n_stored += usize::from(tensor.stored.is_some());
        n_panels += usize::from(checkpoint.panel_rows(tensor, width) > 1);
        for (rows, columns) in [
            (0..n_rows, 0..width),
            (n_rows / 2..n_rows, width / 3..width),
            (n_rows / 3..n_rows / 3 + 1, width / 2..width / 2 + 1),
            (0..n_rows.min(2), width - 1..width),
            (n_rows / 3..n_rows, width / 4..width / 4 + width.div_ceil(2)),
        ] {
            let mut part = vec![f32::NAN; ((rows.end - rows.start) * (columns.end - columns.start)) as usize];
            checkpoint.read_columns(tensor, rows.clone(), columns.clone(), &mut part).unwrap();
            let expected: Vec<f32> = rows
                .flat_map(|row| columns.clone().map(move |column| (row * width + column) as usize))
                .map(|at| whole[at])
                .collect();
            assert_eq!(bits(&part), bits(&expected), "{name} {}", tensor.name);
        }
        let mut flat = vec![f32::NAN; whole.len() - 1];
        checkpoint.read_rows(tensor, 1, 1..whole.len() as u64, &mut flat).unwrap();
        assert_eq!(bits(&flat), bits(&whole[1..]), "{name} {}", tensor.name);
        // Advice does not change values, and spans are inside the files.
        checkpoint.advise_rows(tensor, width, 0..n_rows, gguf_container::Advice::DoneWith);
        assert_eq!(bits(&values(checkpoint, tensor)), bits(&whole));
        assert!(checkpoint.stored_bytes(tensor) > 0);
        assert!(checkpoint.stored_bytes(tensor) <= checkpoint.parts.iter().map(|part| part.n_bytes()).sum());
    }
    (n_stored, n_panels)
}

#[test]
fn strided_parts_match_the_whole() {
    let counts = ["views", "views-legacy"].map(|name| check_parts(name, &form(name)));
    assert!(counts.iter().all(|(n_strided, n_panels)| *n_strided > 12 && *n_panels > 3), "{counts:?}");
}

#[test]
fn merged_shard_parts_match_the_whole() {
    for (name, n_parts) in [("meta-2", 2), ("meta-4", 4), ("meta-8", 8)] {
        let checkpoint = gguf_checkpoint::open(&golden(name)).unwrap();
        assert_eq!(checkpoint.parts.len(), n_parts);
        assert_eq!(checkpoint.format, "torch pickles in Meta's layout");
        // All matrices of a layer, the embedding and the output.
        assert_eq!(check_parts(name, &checkpoint).0, 9, "{name}");
        // A matrix in n files has two bytes per element.
        let output = checkpoint.tensor("output.weight").unwrap();
        assert_eq!(checkpoint.stored_bytes(output), 2 * output.n_rows() * output.row_elems());
    }
    let order: Vec<String> =
        gguf_checkpoint::open(&golden("meta-1")).unwrap().tensors.iter().map(|t| t.name.clone()).collect();
    assert_eq!(order[..3], ["output.weight", "tok_embeddings.weight", "layers.0.attention_norm.weight"]);
    assert!(order.contains(&"rope.freqs".to_owned()), "who drops it says so");
}

/// Opens a folder with the shards of a golden, modified by `change`.
fn shards(name: &str, change: impl Fn(&Path)) -> Result<Checkpoint, Error> {
    let dir = tempfile::tempdir().unwrap();
    gguf_testkit::copy_folder(&golden(name), dir.path());
    change(dir.path());
    gguf_checkpoint::open(dir.path())
}

#[test]
fn unrelated_shards_are_refused() {
    let refused = |name: &str, expected: &str, change: &dyn Fn(&Path)| {
        let error = shards(name, change).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    assert!(shards("meta-2", |_| {}).is_ok());
    let shard = |at: usize| format!("consolidated.{at:02}.pth");
    refused(
        "meta-4",
        "missing weight file `consolidated.02.pth`: there are 3 files `consolidated.*.pth`",
        &|dir| {
            fs::remove_file(dir.join(shard(2))).unwrap();
        },
    );
    refused("meta-1", "missing file `params.json`", &|dir| fs::remove_file(dir.join("params.json")).unwrap());
    let frequencies = "layers.0.attention.inner_attention.rope.freqs";
    refused("meta-2", &format!("tensor `{frequencies}`: `consolidated.01.pth` lacks it"), &|dir| {
        drop(fs::copy(golden("meta-4").join(shard(0)), dir.join(shard(1))));
    });
    // Vectors must be equal in all shards.
    refused("meta-2", "its values are not the same in all of them", &|dir| {
        let mut bytes = fs::read(dir.join(shard(1))).unwrap();
        let checkpoint = gguf_checkpoint::open(&golden("meta-2")).unwrap();
        let norm = checkpoint.tensor("norm.weight").unwrap();
        // At one position in both shards: only values differ.
        bytes[norm.begin as usize] ^= 1;
        fs::write(dir.join(shard(1)), bytes).unwrap();
    });
}

/// A shard with a norm and one matrix.
fn shard_of(name: &str, shape: &[i64]) -> Vec<u8> {
    let (norm, matrix) = (("FloatStorage", "0", 4), ("FloatStorage", "1", 12));
    let pickle = Pickler::new().raw(b"}(").text("norm.weight").tensor(norm, 0, &[4], &[1]);
    let pickle = pickle.text(name).tensor(matrix, 0, shape, &[shape[1], 1]).raw(b"u").stop();
    zip(&[("archive/data.pkl", &pickle), ("archive/data/0", &[0; 16]), ("archive/data/1", &[0; 48])])
}

#[test]
fn unmergeable_shards_are_refused() {
    let error = |shards: [Vec<u8>; 2]| {
        let [first, second] = &shards;
        let files =
            [("params.json", &b"{}"[..]), ("consolidated.00.pth", first), ("consolidated.01.pth", second)];
        gguf_checkpoint::open(folder(&files).path())
            .map(|checkpoint| checkpoint.tensors.len())
            .map_err(|error| error.to_string())
    };
    let (wq, embedding) = ("layers.0.attention.wq.weight", "tok_embeddings.weight");
    let files = "`consolidated.00.pth` to `consolidated.01.pth`: tensor";
    assert_eq!(error([shard_of(wq, &[3, 4]), shard_of(wq, &[3, 4])]), Ok(2));
    assert_eq!(error([shard_of(embedding, &[3, 4]), shard_of(embedding, &[3, 4])]), Ok(2));
    assert_eq!(error([shard_of(embedding, &[6, 2]), shard_of(embedding, &[6, 2])]), Ok(2));
    for (shards, problem) in [
        (
            [shard_of(wq, &[3, 4]), shard_of(wq, &[2, 4])],
            "`layers.0.attention.wq.weight`: shape [3, 4] of F32 in the first, [2, 4] of F32 in another",
        ),
        (
            [shard_of(embedding, &[4, 3]), shard_of(embedding, &[4, 3])],
            "`tok_embeddings.weight`: 2 parts of 3 columns do not make the width of `norm.weight`",
        ),
        (
            [shard_of("x.weight", &[4, 3]), shard_of("x.weight", &[4, 3])],
            "`x.weight`: nothing defines how it is split",
        ),
    ] {
        assert_eq!(error(shards), Err(format!("{files} {problem}")));
    }
}

/// Experts of a layer in one matrix; the router gives their number.
#[test]
fn unsplittable_expert_stacks_are_refused() {
    let open = |name: &str, shape: &[i64]| {
        let shard = shard_of(name, shape);
        let files = [("params.json", &b"{}"[..]), ("consolidated.00.pt", &shard)];
        gguf_checkpoint::open(folder(&files).path()).map_err(|error| error.to_string())
    };
    let stack = "layers.0.block_sparse_moe.w2";
    let problem = open(stack, &[3, 4]).unwrap_err();
    assert!(
        problem.contains(&format!("tensor `{stack}`: its 3 rows do not match the 0 experts")),
        "{problem}"
    );
    let plain = open("layers.0.block_sparse_moe.gate.weight", &[3, 4]).unwrap();
    assert!(plain.tensor("layers.0.feed_forward.gate.weight").is_some());
    // Two shards, one without unique tensors.
    let both = golden("mixtral-stacked");
    let names =
        |checkpoint: Checkpoint| checkpoint.tensors.iter().map(|t| t.name.clone()).collect::<Vec<_>>();
    let whole = names(gguf_checkpoint::open(&both).unwrap());
    assert_eq!(whole.iter().filter(|name| name.contains(".experts.")).count(), 9, "{whole:?}");
    let error = shards("mixtral-stacked", |dir| fs::remove_file(dir.join("consolidated.00.pt")).unwrap());
    assert!(error.unwrap_err().to_string().contains("missing weight file `consolidated.00.pt`"));
}

#[test]
fn zip_and_legacy_forms_are_equal() {
    for name in ["views", "module", "parameters", "types"] {
        let (zip, legacy) = (form(name), form(&format!("{name}-legacy")));
        for tensor in &legacy.tensors {
            let twin = zip.tensor(&tensor.name).unwrap();
            assert_eq!((tensor.dtype, &tensor.shape), (twin.dtype, &twin.shape), "{name} {}", tensor.name);
        }
    }
    // Contiguous tensors are plain bytes of the file; tied ones are the same bytes.
    let views = form("views");
    let [whole, again] = ["whole", "again"].map(|name| views.tensor(name).unwrap());
    assert!(whole.stored.is_none() && whole.span() == again.span());
    assert!(views.tensor("rows").unwrap().stored.is_none());
    assert!(views.tensor("columns").unwrap().stored.is_some());
}

#[test]
fn ignored_content_is_noted() {
    let note = |name: &str| form(name).notes.join("; ");
    assert_eq!(
        note("under-state_dict"),
        "`pytorch_model.bin`: tensors are read from key `state_dict`; ignored: `epoch`, `optimizer`"
    );
    assert_eq!(
        note("scalars-beside"),
        "`pytorch_model.bin`: values that are not tensors are ignored: `step`, `name`, `lr`, `none`, `flag` and 1 more"
    );
    assert_eq!(
        note("tensor-and-model"),
        "`pytorch_model.bin`: values that are not tensors are ignored: `model`"
    );
    assert_eq!(note("types"), "");
}

#[test]
fn refused_files_state_the_reason() {
    let expected: &[(&str, &str)] = &[
        ("big-endian", "entry `archive/byteorder`: expected byte order `little`, found `big`"),
        ("counter", "byte 172 of the pickle imports `collections.Counter`, which is not allowed"),
        ("counter-legacy", "byte 186 of the pickle imports `collections.Counter`, which is not allowed"),
        ("deflated", "entry `archive/data.pkl` is compressed or encrypted, expected a stored entry"),
        ("deflated-data", "entry `archive/data/0` is compressed or encrypted, expected a stored entry"),
        ("list", "expected a dictionary of tensors, found another value"),
        ("negated", "tensor `w`: it has flags that change its values"),
        ("nested-tensors", "tensor `more`: not a tensor, a number or a string"),
        (
            "no-tensors",
            "expected a dictionary of tensors, found neither tensors nor a known key with tensors",
        ),
        ("other-zip", "missing entry `*/data.pkl`"),
        ("plain-pickle", "was not written by torch.save: found a pickle without torch's magic number"),
        ("protocol-4", "byte 0 of the pickle: expected protocol 2, found 4"),
        (
            "sparse",
            "byte 13 of the pickle imports `torch._utils._rebuild_sparse_tensor`, which is not allowed",
        ),
        ("storage-missing", "missing entry `archive/data/0`"),
        ("storage-short", "tensor `w`: storage `0` of 16 F32 has 60 bytes"),
        ("tar", "was not written by torch.save: found a tar archive, the form of torch before 0.1.10"),
        ("torchscript", "TorchScript archive (entry `archive/code/__torch__/torch/nn/modules/linear.py`)"),
        (
            "whole-module",
            "byte 2 of the pickle imports `torch.nn.modules.linear.Linear`, which is not allowed",
        ),
    ];
    let mut found = String::new();
    for name in names("refused", ".bin") {
        let error = open(&fs::read(golden(&format!("refused/{name}.bin"))).unwrap()).expect_err(&name);
        let row = expected.iter().find(|(row, _)| *row == name);
        if !row.is_some_and(|(_, message)| error.to_string().contains(message)) {
            found += &format!("{name}: {error}\n");
        }
    }
    assert_eq!(found, "");
    let listed: BTreeSet<&str> = expected.iter().map(|(name, _)| *name).collect();
    assert_eq!(listed.len(), names("refused", ".bin").len());
    let error = open(&fs::read(golden("refused/whole-module.bin")).unwrap()).unwrap_err();
    assert!(error.hint().unwrap().to_string().contains("state_dict()"));
}
