//! FP8: recognition, scales in another file, and invalid parts, refused before any number is computed.

use std::{collections::BTreeSet, fs, path::Path};

use gguf_checkpoint::{Checkpoint, Dtype, Error};
use serde_json::{Value as Json, json};

/// Name, type and shape of a tensor of zeros.
type Zeros<'a> = (&'a str, Dtype, &'a [u64]);

/// Opens a checkpoint of zeros with this quantization config in config.json.
fn open(quantization: Json, tensors: &[Zeros<'_>]) -> Result<Checkpoint, Error> {
    open_with(&[("config.json", json!({"quantization_config": quantization}))], tensors)
}

fn open_with(files: &[(&str, Json)], tensors: &[Zeros<'_>]) -> Result<Checkpoint, Error> {
    let bytes = gguf_testkit::safetensors(tensors.iter().map(|&(name, dtype, shape)| {
        let n_bytes = dtype.n_bytes(shape.iter().product()).unwrap();
        (name, dtype.name(), shape, vec![0; n_bytes as usize])
    }));
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), "{}").unwrap();
    for (name, json) in files {
        fs::write(folder.path().join(name), json.to_string()).unwrap();
    }
    fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
    gguf_checkpoint::open(folder.path())
}

fn fine_grained() -> Json {
    json!({"quant_method": "fp8", "weight_block_size": [128, 128]})
}

/// One matrix in each layout, with its other parts; no config names the method.
#[test]
fn fp8_is_recognized_without_config() {
    const F8: Dtype = Dtype::F8_E4M3;
    let grid: &[u64] = &[2, 3];
    for (method, codes, scales, shape, value) in [
        ("FP8", "a.weight", "a.weight_scale_inv", grid, "a.weight"),
        ("FP8", "a.weight", "a.weight_scale", &[200, 1], "a.weight"),
        ("FP8", "a.weight", "a.qscale_weight", &[], "a.weight"),
        ("quanto", "a.weight._data", "a.weight._scale", &[200, 1], "a.weight"),
        ("torchao", "a._weight_qdata", "a._weight_scale", &[200, 1], "a.weight"),
    ] {
        let tensors = [(codes, F8, &[200, 300][..]), (scales, Dtype::F32, shape)];
        let checkpoint = open(Json::Null, &tensors).unwrap_or_else(|error| panic!("{codes}: {error}"));
        assert_eq!(checkpoint.method, Some(method), "{codes} {scales}");
        assert_eq!(checkpoint.tensor(value).map(|tensor| tensor.shape.clone()), Some(vec![200, 300]));
    }
    // With a config that names no method: ModelOpt's separate file.
    let tensors = [CODES, ("a.weight_scale", Dtype::F32, &[][..])];
    let checkpoint =
        open_with(&[("hf_quant_config.json", json!({"quantization": {"quant_algo": "FP8"}}))], &tensors);
    assert_eq!(checkpoint.unwrap().method, Some("ModelOpt"));
}

#[test]
fn modelopt_bytes_are_fp8_codes() {
    let bytes = [("a.weight", Dtype::U8, &[200, 300][..]), ("a.weight_scale", Dtype::F32, &[])];
    let config = |algorithm: &str| json!({"quant_method": "modelopt", "quant_algo": algorithm});
    assert!(open(config("FP8"), &bytes).unwrap().tensors[0].is_fp8());
    let mixed = json!({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
                       "quantized_layers": {"a": {"quant_algo": "FP8"}}});
    assert!(open(mixed, &bytes).unwrap().tensors[0].is_fp8());
    let other = json!({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
                       "quantized_layers": {"b": {"quant_algo": "FP8"}}});
    assert!(open(other, &bytes).is_err());
}

const CODES: Zeros<'_> = ("a.weight", Dtype::F8_E4M3, &[200, 300]);

/// Opens codes (200, 300) with these scales.
fn with_scales(dtype: Dtype, shape: &[u64]) -> Result<Checkpoint, Error> {
    open(fine_grained(), &[CODES, ("a.weight_scale_inv", dtype, shape)])
}

fn bits_of(checkpoint: &Checkpoint, name: &str) -> Vec<u32> {
    let tensor = checkpoint.tensor(name).unwrap();
    let mut values = vec![f32::NAN; (tensor.n_rows() * tensor.row_elems()) as usize];
    checkpoint.read_rows(tensor, tensor.row_elems(), 0..tensor.n_rows(), &mut values).unwrap();
    values.iter().map(|value| value.to_bits()).collect()
}

/// Shards are cut by size: a matrix and its scales may be in different shards.
#[test]
fn scales_in_another_file_are_found() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/dialects/fp8-blocks");
    let tensors = gguf_testkit::read_safetensors(&fs::read(golden.join("model.safetensors")).unwrap());
    let folder = tempfile::tempdir().unwrap();
    fs::copy(golden.join("config.json"), folder.path().join("config.json")).unwrap();
    for (file, has_scales) in [("model-00001-of-00002", true), ("model-00002-of-00002", false)] {
        let selected = tensors.iter().filter(|(name, _)| name.contains("scale") == has_scales);
        let selected = selected.map(|(name, (dtype, shape, bytes))| (&name[..], &dtype[..], shape, bytes));
        let path = folder.path().join(file).with_extension("safetensors");
        fs::write(path, gguf_testkit::safetensors(selected)).unwrap();
    }
    let (whole, sharded) =
        (gguf_checkpoint::open(&golden).unwrap(), gguf_checkpoint::open(folder.path()).unwrap());
    let decoded: Vec<&str> =
        whole.tensors.iter().filter(|tensor| tensor.is_fp8()).map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(decoded.len(), 4);
    for name in decoded {
        assert_eq!(bits_of(&sharded, name), bits_of(&whole, name), "{name}");
        let parts: BTreeSet<usize> = sharded
            .tensor(name)
            .unwrap()
            .stored
            .as_ref()
            .unwrap()
            .spans(0..1)
            .iter()
            .map(|s| s.part)
            .collect();
        assert_eq!(parts, BTreeSet::from([0, 1]), "{name}");
    }
}

#[test]
fn matching_scale_grids_are_read() {
    for (shape, dtype) in [
        (&[2, 3][..], Dtype::F32),
        (&[2, 3], Dtype::BF16),
        (&[2, 3], Dtype::F8_E8M0),
        (&[2, 3], Dtype::U8),
        (&[4, 4], Dtype::F32),
        (&[200, 1], Dtype::F32),
        (&[1, 300], Dtype::F32),
        (&[200], Dtype::F16),
        (&[1], Dtype::F32),
        (&[1, 1], Dtype::F32),
        (&[], Dtype::F32),
        (&[2, 1, 3, 1], Dtype::F32),
    ] {
        let checkpoint = with_scales(dtype, shape).unwrap_or_else(|error| panic!("{shape:?}: {error}"));
        let tensor = checkpoint.tensor("a.weight").unwrap();
        assert_eq!((tensor.dtype, &tensor.shape[..]), (Dtype::F32, &[200, 300][..]));
        assert!(tensor.is_fp8());
        assert_eq!(checkpoint.tensors.len(), 1);
        let mut values = vec![f32::NAN; 200 * 300];
        checkpoint.read_rows(tensor, 300, 0..200, &mut values).unwrap();
        assert!(values.iter().all(|value| *value == 0.0), "{shape:?}");
    }
}

#[test]
fn mismatched_scale_grids_are_refused() {
    for shape in [
        &[1, 3][..],
        &[2, 2],
        &[2],
        &[300],
        &[3],
        &[2, 3, 1],
        &[1, 2, 3],
        &[300, 1],
        &[1, 200],
        &[0, 3],
        &[2, 3, 1, 1],
    ] {
        let error = with_scales(Dtype::F32, shape).expect_err("the grid does not fit");
        assert_eq!(
            error.to_string(),
            format!(
                "tensor `a.weight_scale_inv`: expected one scale for each tensor, row, column or \
                 block of 128 x 128 for `a.weight` of shape [200, 300], found shape {shape:?}"
            )
        );
    }
    // Blocks of half the size would also divide 200 rows evenly; the config decides.
    let halves = json!({"quant_method": "fp8", "weight_block_size": [64, 128]});
    let tensors = [CODES, ("a.weight_scale_inv", Dtype::F32, &[2, 3][..])];
    assert!(matches!(open(halves, &tensors), Err(Error::PartShape { .. })));
    // Without a config only common blocks are recognized.
    let tensors = [CODES, ("a.weight_scale", Dtype::F32, &[4, 4][..])];
    assert!(matches!(open(json!({"quant_method": "fp8"}), &tensors), Err(Error::PartShape { .. })));
}

#[test]
fn invalid_scale_types_are_refused() {
    for dtype in [Dtype::I32, Dtype::F64, Dtype::F8_E4M3, Dtype::I8, Dtype::BOOL] {
        let error = with_scales(dtype, &[2, 3]).expect_err("no type of scales");
        let expected = format!(
            "tensor `a.weight_scale_inv`: expected scales of F32, F16, BF16, F8_E8M0 or U8, found {dtype}"
        );
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn unpaired_parts_are_refused() {
    let scale = ("a.weight_scale_inv", Dtype::F32, &[2, 3][..]);
    let error = open(fine_grained(), &[CODES]).expect_err("no scales");
    assert_eq!(error.to_string(), "tensor `a.weight`: F8_E4M3 codes without scales");
    // Only the codes of one matrix have scales.
    let error =
        open(fine_grained(), &[CODES, scale, ("b.weight", Dtype::F8_E5M2, &[4, 4])]).expect_err("no scales");
    assert_eq!(error.to_string(), "tensor `b.weight`: F8_E5M2 codes without scales");
    let error = open(fine_grained(), &[("b.weight", Dtype::BF16, &[4, 4]), scale]).expect_err("no codes");
    let alone = "tensor `a.weight_scale_inv`: part of quantized weights whose codes are missing or have the wrong type";
    assert_eq!(error.to_string(), alone);
    // Plain weights with scales: it is ambiguous whether to multiply.
    let error = open(fine_grained(), &[("a.weight", Dtype::BF16, &[200, 300]), scale]).expect_err("no codes");
    assert_eq!(error.to_string(), alone);
    // Two kinds of scales for one matrix.
    let two = [CODES, scale, ("a.weight_scale", Dtype::F32, &[1][..])];
    assert!(
        matches!(open(fine_grained(), &two), Err(Error::ScalesWithoutCodes { tensor }) if tensor == "a.weight_scale")
    );
    let zeros = [CODES, scale, ("a.weight_zero_point", Dtype::F32, &[1][..])];
    assert!(matches!(open(fine_grained(), &zeros), Err(Error::ScalesWithoutCodes { .. })));
}

#[test]
fn invalid_config_blocks_are_refused() {
    for size in [json!([0, 128]), json!([128]), json!(128), json!([128, -1]), json!("128"), json!([1, 2, 3])]
    {
        let quantization = json!({"quant_method": "fp8", "weight_block_size": size});
        let error =
            open(quantization, &[CODES, ("a.weight_scale_inv", Dtype::F32, &[2, 3])]).expect_err("no block");
        assert_eq!(
            error.to_string(),
            format!(
                "`config.json`: expected rows and columns of a block, above 0, at `weight_block_size`, found {size}"
            )
        );
    }
    // The largest JSON integers: one block for all.
    let huge = json!({"quant_method": "fp8", "weight_block_size": [u64::MAX, u64::MAX]});
    let checkpoint = open(huge, &[CODES, ("a.weight_scale_inv", Dtype::F32, &[1, 1])]).unwrap();
    let mut row = [f32::NAN; 300];
    checkpoint.read_rows(&checkpoint.tensors[0], 300, 199..200, &mut row).unwrap();
    assert_eq!(row, [0.0; 300]);
}

#[test]
fn codes_of_any_shape_are_read() {
    // Scalars, vectors and empty tensors.
    for shape in [&[][..], &[7], &[0, 300], &[200, 0], &[0, 0, 0]] {
        let codes = ("a.weight", Dtype::F8_E4M3, shape);
        let checkpoint = open(fine_grained(), &[codes, ("a.weight_scale_inv", Dtype::F32, &[])]).unwrap();
        let tensor = checkpoint.tensor("a.weight").unwrap();
        let mut values = vec![f32::NAN; (tensor.n_rows() * tensor.row_elems()) as usize];
        checkpoint.read_columns(tensor, 0..tensor.n_rows(), 0..tensor.row_elems(), &mut values).unwrap();
        assert!(values.iter().all(|value| *value == 0.0));
        assert!(checkpoint.stored_bytes(tensor) <= 4 + values.len() as u64);
    }
    let error =
        open(fine_grained(), &[("a.weight", Dtype::F8_E4M3, &[7]), ("a.weight_scale_inv", Dtype::F32, &[7])]);
    assert!(matches!(error, Err(Error::PartShape { .. })));
    // Scales without a number.
    let error = open(fine_grained(), &[CODES, ("a.weight_scale_inv", Dtype::F32, &[0])]);
    assert!(matches!(error, Err(Error::PartShape { .. })));
}
