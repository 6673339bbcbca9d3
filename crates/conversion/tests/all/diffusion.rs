//! Checkpoints of diffusion models: whole files equal those of ComfyUI-GGUF's converter, and bad input is refused.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use gguf_checkpoint::Folder;
use gguf_container::File;
use gguf_conversion::{Conversion, DiffusionInput, Error, RunOptions};
use gguf_models::FAMILIES;
use gguf_types::DType;
use serde_json::{Map, Value as Json, json};

/// A tensor of a checkpoint: name, type and shape.
type Row = (String, String, Vec<u64>);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/diffusion")
}

fn goldens() -> Vec<(String, Json)> {
    let mut paths: Vec<_> = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
    paths.sort();
    let golden = |path: &PathBuf| {
        (path.file_stem().unwrap().to_str().unwrap().to_owned(), gguf_testkit::read_json(path))
    };
    paths.iter().map(golden).collect()
}

fn rows(golden: &Json) -> Vec<Row> {
    serde_json::from_value(golden["tensors"].clone()).unwrap()
}

/// Twin of `values` in scripts/golden/diffusion.py.
fn values(seed: u64, dtype: &str, n: u64) -> Vec<u8> {
    let normal = (0..n).map(|i| gguf_testkit::normal(seed, i));
    let raw = || gguf_testkit::bytes(seed, n as usize);
    let below =
        |limit: u8| raw().into_iter().map(move |byte| if byte & 0x7f > limit { 0 } else { byte }).collect();
    match dtype {
        "F32" => normal.flat_map(f32::to_le_bytes).collect(),
        "F64" => normal.flat_map(|value| f64::from(value).to_le_bytes()).collect(),
        "F16" => normal.flat_map(gguf_testkit::f16).collect(),
        "BF16" => normal.flat_map(gguf_testkit::bf16).collect(),
        "I64" => raw().into_iter().flat_map(|byte| i64::from(byte).to_le_bytes()).collect(),
        "F8_E4M3" => below(0x7e),
        "F8_E5M2" => below(0x7b),
        "BOOL" => raw().into_iter().map(|byte| byte & 1).collect(),
        "I8" | "U8" => raw(),
        other => panic!("{other}"),
    }
}

/// Bytes of a safetensors file with these tensors, and `__metadata__`.
fn safetensors(tensors: &[(Row, Vec<u8>)], metadata: Option<&Json>) -> Vec<u8> {
    let entries = tensors.iter().map(|((name, dtype, shape), data)| (&name[..], &dtype[..], shape, data));
    gguf_testkit::safetensors_with(metadata, entries)
}

fn with_values(rows: &[Row]) -> Vec<(Row, Vec<u8>)> {
    let tensor =
        |(seed, row): (usize, &Row)| (row.clone(), values(seed as u64, &row.1, row.2.iter().product()));
    rows.iter().enumerate().map(tensor).collect()
}

fn row(name: &str, dtype: &str, shape: &[u64]) -> Row {
    (name.to_owned(), dtype.to_owned(), shape.to_vec())
}

fn write_checkpoint(path: &Path, rows: &[Row]) {
    fs::write(path, safetensors(&with_values(rows), None)).unwrap();
}

fn open(path: &Path) -> Result<DiffusionInput, Error> {
    DiffusionInput::open(FAMILIES, &Folder::at(path))
}

fn convert(from: &Path, recipe: &str, to: &Path) -> Result<(), Error> {
    let conversion = Conversion::new(open(from)?).recipe(recipe)?;
    conversion.plan()?.check()?.write(to, &RunOptions::default())?;
    Ok(())
}

/// Digest of the file that a checkpoint becomes.
fn digest(from: &Path, recipe: &str, to: &Path) -> Result<String, Error> {
    convert(from, recipe, to)?;
    let bytes = fs::read(to).unwrap();
    fs::remove_file(to).unwrap();
    Ok(gguf_testkit::sha256(&bytes))
}

#[test]
fn files_match_comfyui_gguf() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("model.safetensors"), place.path().join("out.gguf"));
    let (mut wrong, mut n_files) = (String::new(), 0);
    for (name, golden) in goldens() {
        write_checkpoint(&from, &rows(&golden));
        let recipe = golden["type"].as_str().unwrap();
        let input = open(&from).unwrap();
        assert_eq!(input.usual(), DType::from_name(recipe).unwrap(), "{name}");
        assert_eq!(input.layout().architecture, golden["arch"], "{name}");
        n_files += 1;
        match digest(&from, recipe, &to) {
            Err(error) => writeln!(wrong, "{name}: {error}").unwrap(),
            Ok(digest) if digest != golden["whole"] => writeln!(wrong, "{name}: other bytes").unwrap(),
            Ok(_) => {}
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert_eq!(n_files, 29);
}

#[test]
fn pickle_has_the_tensors_of_its_key() {
    let place = tempfile::tempdir().unwrap();
    let golden = gguf_testkit::read_json(folder().join("lumina2-bf16.json"));
    let digest = digest(&folder().join("lumina2-bf16.ckpt"), "bf16", &place.path().join("out.gguf")).unwrap();
    assert_eq!(digest, golden["whole"]);
    let input = open(&folder().join("lumina2-bf16.ckpt")).unwrap();
    assert!(
        input
            .checkpoint()
            .notes
            .iter()
            .any(|note| note.contains("tensors are read from key `model`; ignored: `ema`, `step`")),
        "{:?}",
        input.checkpoint().notes
    );
}

/// Shards and folders give the file of the single file, if they have its order.
#[test]
fn folders_and_shards_give_the_same_file() {
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("out.gguf");
    let golden = gguf_testkit::read_json(folder().join("wan-bf16.json"));
    let tensors = with_values(&rows(&golden));
    let folders = ["one", "single", "sharded", "pipeline"].map(|name| place.path().join(name));
    let [one, single, sharded, pipeline] = &folders;
    folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
    fs::write(one.join("wan.safetensors"), safetensors(&tensors, None)).unwrap();
    fs::write(single.join("diffusion_pytorch_model.safetensors"), safetensors(&tensors, None)).unwrap();
    fs::write(single.join("config.json"), r#"{"_class_name": "WanModel"}"#).unwrap();
    let model = pipeline.join("transformer");
    fs::create_dir(&model).unwrap();
    fs::write(pipeline.join("model_index.json"), "{}").unwrap();
    fs::write(model.join("diffusion_pytorch_model.safetensors"), safetensors(&tensors, None)).unwrap();
    // A copy in another type is left alone.
    fs::write(model.join("diffusion_pytorch_model.fp16.safetensors"), "").unwrap();
    let mut index = Map::new();
    for (number, tensors) in tensors.chunks(tensors.len().div_ceil(2)).enumerate() {
        let file = format!("diffusion_pytorch_model-0000{}-of-00002.safetensors", number + 1);
        fs::write(sharded.join(&file), safetensors(tensors, None)).unwrap();
        index.extend(tensors.iter().map(|(row, _)| (row.0.clone(), file.clone().into())));
    }
    let index = json!({"metadata": {}, "weight_map": index}).to_string();
    fs::write(sharded.join("diffusion_pytorch_model.safetensors.index.json"), index).unwrap();
    for folder in &folders {
        assert!(gguf_checkpoint::is_diffusion(folder), "{}", folder.display());
        assert_eq!(digest(folder, "bf16", &to).unwrap(), golden["whole"], "{}", folder.display());
    }
    let shard = sharded.join("diffusion_pytorch_model-00001-of-00002.safetensors");
    let error = open(&shard).unwrap_err();
    assert_eq!(error.to_string(), "`diffusion_pytorch_model-00001-of-00002.safetensors`: shard 1 of 2");
    fs::create_dir(pipeline.join("transformer_2")).unwrap();
    let notes = open(pipeline).unwrap().checkpoint().notes.join("\n");
    assert!(notes.contains("`transformer` is read, and `transformer_2` can be converted"), "{notes}");
}

/// A type other than that of the checkpoint: large tensors have it, small ones are F32.
#[test]
fn other_float_types_apply_to_large_tensors() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("model.safetensors"), place.path().join("out.gguf"));
    let golden = gguf_testkit::read_json(folder().join("wan-bf16.json"));
    write_checkpoint(&from, &rows(&golden));
    for (recipe, large) in [("f16", DType::F16), ("f32", DType::F32)] {
        convert(&from, recipe, &to).unwrap();
        let file = File::open(&to).unwrap();
        let id = if recipe == "f16" { 1 } else { 0 };
        assert_eq!(file.metadata().get("general.file_type").unwrap().as_u64(), Some(id));
        let dtype = |name: &str| file.tensor(name).unwrap().dtype;
        assert_eq!(dtype("blocks.7.two.weight"), large);
        assert_eq!(dtype("blocks.7.other.weight"), large);
        for small in
            ["blocks.7.other.norm", "blocks.7.small.weight", "head.modulation", "patch_embedding.weight"]
        {
            assert_eq!(dtype(small), DType::F32, "{small}");
        }
        drop(file);
        fs::remove_file(&to).unwrap();
    }
}

/// Tensors that a quantized file keeps have the types of the float file, and ranks stay.
#[test]
fn quantized_files_keep_sensitive_tensors_and_ranks() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("model.safetensors"), place.path().join("out.gguf"));
    let rows = [
        row("blocks.0.self_attn.norm_q.weight", "BF16", &[64]),
        row("text_embedding.2.weight", "BF16", &[256, 256]),
        row("head.modulation", "BF16", &[1, 2, 256]),
        row("blocks.0.modulation", "BF16", &[1, 6, 256]),
        row("blocks.0.self_attn.v.weight", "BF16", &[8, 256]),
        row("blocks.0.self_attn.q.weight", "BF16", &[8, 256]),
        row("patch_embedding.weight", "BF16", &[48, 16, 1, 2, 2]),
    ];
    write_checkpoint(&from, &rows);
    convert(&from, "q4_k_m", &to).unwrap();
    let file = File::open(&to).unwrap();
    let found: Vec<_> =
        file.tensors().iter().map(|tensor| (tensor.dtype, tensor.shape.dims().to_vec())).collect();
    let expected = [
        (DType::F32, vec![64]),
        (DType::BF16, vec![256, 256]),
        (DType::F32, vec![256, 2, 1]),
        (DType::F32, vec![256, 6, 1]),
        (DType::Q6_K, vec![256, 8]),
        (DType::Q4_K, vec![256, 8]),
        (DType::F32, vec![2, 2, 1, 16, 48]),
    ];
    assert_eq!(found, expected);
    let keys: Vec<_> = file.metadata().iter().map(|(key, _)| key.to_owned()).collect();
    assert_eq!(keys, ["general.architecture", "general.quantization_version", "general.file_type"]);
}
