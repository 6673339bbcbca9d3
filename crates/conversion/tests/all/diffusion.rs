//! Checkpoints of diffusion models: files equal those of ComfyUI-GGUF's converter, and bad input is refused.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use gguf_checkpoint::Folder;
use gguf_container::File;
use gguf_conversion::{Conversion, DiffusionInput, Error, RunOptions};
use gguf_models::FAMILIES;
use gguf_types::{DType, Problem as _};
use serde_json::{Map, Value as Json, json};

use super::comfyui_file::as_the_converter_writes;

pub type Row = (String, String, Vec<u64>);

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/diffusion")
}

pub fn goldens() -> Vec<(String, Json)> {
    let mut paths: Vec<_> = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
    paths.sort();
    let golden = |path: &PathBuf| {
        (path.file_stem().unwrap().to_str().unwrap().to_owned(), gguf_testkit::read_json(path))
    };
    paths.iter().map(golden).collect()
}

pub fn rows(golden: &Json) -> Vec<Row> {
    serde_json::from_value(golden["tensors"].clone()).unwrap()
}

/// Counterpart of `values` in scripts/golden/diffusion.py.
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

/// Bytes of a safetensors file with these tensors and `__metadata__`.
fn safetensors(tensors: &[(Row, Vec<u8>)], metadata: Option<&Json>) -> Vec<u8> {
    let entries = tensors.iter().map(|((name, dtype, shape), data)| (&name[..], &dtype[..], shape, data));
    gguf_testkit::safetensors_with(metadata, entries)
}

pub fn with_values(rows: &[Row]) -> Vec<(Row, Vec<u8>)> {
    let tensor =
        |(seed, row): (usize, &Row)| (row.clone(), values(seed as u64, &row.1, row.2.iter().product()));
    rows.iter().enumerate().map(tensor).collect()
}

pub fn row(name: &str, dtype: &str, shape: &[u64]) -> Row {
    (name.to_owned(), dtype.to_owned(), shape.to_vec())
}

fn write_checkpoint(path: &Path, rows: &[Row]) {
    fs::write(path, safetensors(&with_values(rows), None)).unwrap();
}

fn open(path: &Path) -> Result<DiffusionInput, Error> {
    DiffusionInput::open(FAMILIES, &Folder::at(path))
}

pub fn convert(from: &Path, recipe: &str, to: &Path) -> Result<(), Error> {
    let conversion = Conversion::new(open(from)?).recipe(recipe)?;
    conversion.plan()?.check()?.write(to, &RunOptions::default())?;
    Ok(())
}

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
        convert(&from, recipe, &to).unwrap_or_else(|error| panic!("{name}: {error}"));
        let bytes = as_the_converter_writes(&to, &rows(&golden));
        fs::remove_file(&to).unwrap();
        if gguf_testkit::sha256(&bytes) != golden["whole"] {
            writeln!(wrong, "{name}: other bytes").unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert_eq!(n_files, 29);
}

#[test]
fn pickle_has_the_tensors_of_its_key() {
    let place = tempfile::tempdir().unwrap();
    let golden = gguf_testkit::read_json(folder().join("lumina2-bf16.json"));
    let to = place.path().join("out.gguf");
    convert(&folder().join("lumina2-bf16.ckpt"), "bf16", &to).unwrap();
    assert_eq!(gguf_testkit::sha256(&as_the_converter_writes(&to, &rows(&golden))), golden["whole"]);
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
    // A copy in another type is ignored.
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
        convert(folder, "bf16", &to).unwrap();
        let bytes = as_the_converter_writes(&to, &rows(&golden));
        assert_eq!(gguf_testkit::sha256(&bytes), golden["whole"], "{}", folder.display());
        fs::remove_file(&to).unwrap();
    }
    let shard = sharded.join("diffusion_pytorch_model-00001-of-00002.safetensors");
    let error = open(&shard).unwrap_err();
    assert_eq!(error.to_string(), "`diffusion_pytorch_model-00001-of-00002.safetensors`: shard 1 of 2");
    fs::create_dir(pipeline.join("transformer_2")).unwrap();
    let notes = open(pipeline).unwrap().checkpoint().notes.join("\n");
    assert!(notes.contains("`transformer` is read, and `transformer_2` can be converted"), "{notes}");
}

/// Large tensors get the requested type, small ones are F32.
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

#[test]
fn codes_with_scales_are_decoded() {
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("out.gguf");
    let lines = fs::read_to_string(folder().join("quantized.txt")).unwrap();
    for line in lines.lines() {
        let [name, expected, n_tensors] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let from = folder().join(format!("{name}.safetensors"));
        assert_eq!(digest(&from, "f16", &to).unwrap(), expected, "{name}");
        let input = open(&from).unwrap();
        assert_eq!(input.layout().tensors.len().to_string(), n_tensors, "{name}");
        assert_eq!(input.checkpoint().method, Some("ComfyUI's quantization"), "{name}");
    }
    assert_eq!(lines.lines().count(), 7);
}

/// Error of opening a checkpoint or of writing an f16 file.
fn error_of(tensors: &[(Row, Vec<u8>)]) -> Error {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("model.safetensors"), place.path().join("out.gguf"));
    fs::write(&from, safetensors(tensors, None)).unwrap();
    assert!(gguf_checkpoint::is_diffusion(&from));
    convert(&from, "f16", &to).unwrap_err()
}

fn error(rows: &[Row]) -> String {
    error_of(&with_values(rows)).to_string()
}

const FLUX: &str = "double_blocks.0.img_attn.proj.weight";

#[test]
fn other_kinds_of_files_are_named() {
    for (names, expected) in [
        (
            &["lora_unet_double_blocks_0_img_attn_proj.lora_down.weight", "lora_unet_x.alpha"][..],
            "not a known diffusion model; the names look like a LoRA adapter (2 tensors)",
        ),
        (
            &["transformer.single_transformer_blocks.0.attn.to_q.lora_A.weight"],
            "not a known diffusion model; the names look like a LoRA adapter (1 tensor)",
        ),
        (
            &["control_model.input_blocks.3.0.op.weight", "control_model.input_hint_block.0.weight"],
            "not a known diffusion model; the names look like a ControlNet (2 tensors)",
        ),
        // Names of the model that it controls.
        (
            &[FLUX, "controlnet_blocks.0.weight"],
            "not a known diffusion model; the names look like a ControlNet (2 tensors)",
        ),
        (
            &["label_emb.0.0.weight", "input_hint_block.0.weight"],
            "not a known diffusion model; the names look like a ControlNet (2 tensors)",
        ),
        (
            &["encoder.down.0.block.0.conv1.weight", "decoder.up.0.block.0.conv1.weight"],
            "not a known diffusion model; the names look like a VAE (2 tensors)",
        ),
        (
            &["text_model.encoder.layers.0.mlp.fc1.weight"],
            "not a known diffusion model; the names look like a CLIP text encoder (1 tensor)",
        ),
        (
            &["model.layers.0.self_attn.q_proj.weight", "model.norm.weight"],
            "not a known diffusion model; the names look like a language model (2 tensors)",
        ),
        (
            &["blocks.0.self_attn.norm_q.weight", "text_embedding.2.weight"],
            "not a known diffusion model; nearest: `wan` (2 of 3 names)",
        ),
        (&["a.weight"], "not a known diffusion model (1 tensor)"),
    ] {
        let rows: Vec<Row> = names.iter().map(|name| row(name, "F16", &[4, 4])).collect();
        assert_eq!(error(&rows), expected);
    }
}

#[test]
fn tensors_without_a_place_in_a_file_are_errors() {
    let long = format!("{}.weight", "a".repeat(121));
    assert_eq!(
        error(&[row(FLUX, "F16", &[4, 4]), row(&long, "F16", &[4, 4])]),
        format!("tensor `{long}`: expected a name of at most 127 bytes, found 128")
    );
    assert_eq!(
        error(&[row(FLUX, "F16", &[4, 4]), row("six.weight", "F16", &[1, 1, 1, 1, 2, 2])]),
        "tensor `six.weight`: expected at most 5 dimensions, found 6"
    );
}

#[test]
fn values_beyond_f16_are_errors() {
    let matrix = |value: f32| (0..1100).flat_map(|_| value.to_le_bytes()).collect::<Vec<u8>>();
    let of = |value: f32| error_of(&[(row(FLUX, "F32", &[1, 1100]), matrix(value))]);
    let error = of(70_000.0);
    assert_eq!(
        error.to_string(),
        "tensor `double_blocks.0.img_attn.proj.weight`: row 0, column 0: 70000 is out of range for f16"
    );
    assert_eq!(
        error.hint().unwrap().to_string(),
        "choose a type with a wider range (bf16, f32) for this tensor"
    );
    assert!(matches!(of(f32::NAN), Error::NonFinite { .. }));
    // Integers too.
    let counter = (row("counter", "I64", &[]), 100_000i64.to_le_bytes().to_vec());
    let error = error_of(&[(row(FLUX, "F16", &[4, 4]), vec![0; 32]), counter]);
    assert!(matches!(error, Error::Overflow { .. }), "{error}");
}

#[test]
fn codes_without_known_scales_are_refused() {
    let flux = row(FLUX, "F8_E4M3", &[4, 4]);
    let rotated = "ComfyUI's rotated or grouped weights are not supported; recognized by `convrot` and other keys of tensors `.comfy_quant`";
    let other = "a form of ComfyUI are not supported; recognized by `format` of tensors `.comfy_quant`";
    let mark = |text: &str| {
        let name = FLUX.replace(".weight", ".comfy_quant");
        (row(&name, "U8", &[text.len() as u64]), text.as_bytes().to_vec())
    };
    let scale = (row(&FLUX.replace(".weight", ".weight_scale"), "F32", &[]), 1f32.to_le_bytes().to_vec());
    let codes = |dtype: &str| (row(FLUX, dtype, &[4, 4]), vec![1; 16]);
    for (text, dtype, refused) in [
        (r#"{"format": "convrot_w4a4"}"#, "U8", other),
        (r#"{"format": "int8_tensorwise", "convrot": true}"#, "I8", rotated),
        (r#"{"format": "int8_tensorwise", "convrot": {"group_size": 256}}"#, "I8", rotated),
    ] {
        let found = error_of(&[codes(dtype), scale.clone(), mark(text)]).to_string();
        assert_eq!(found, format!("weights quantized by {refused}"), "{text}");
    }
    let found =
        error_of(&[codes("F8_E4M3"), scale.clone(), mark(r#"{"format": "int8_tensorwise"}"#)]).to_string();
    assert!(found.contains(FLUX) && found.contains("I8") && found.contains("F8_E4M3"), "{found}");
    let second = (row(&FLUX.replace(".weight", ".weight_scale_2"), "F32", &[]), vec![0; 4]);
    assert_eq!(
        error_of(&[codes("U8"), scale.clone(), second]).to_string(),
        "tensor `double_blocks.0.img_attn.proj.weight`: U8 codes without scales"
    );
    assert_eq!(
        error_of(&[codes("U8"), scale.clone(), mark(r#"{"format": "nvfp4"}"#)]).to_string(),
        "tensor `double_blocks.0.img_attn.proj.weight_scale`: expected F8_E4M3, found F32"
    );
    let tiles = |dtype: &str| (row(&FLUX.replace(".weight", ".weight_scale"), dtype, &[4, 1]), vec![1; 4]);
    for (format, of_codes, of_scales) in [("nvfp4", "U8", "F8_E4M3"), ("mxfp8", "F8_E4M3", "U8")] {
        let mark = mark(&format!(r#"{{"format": "{format}"}}"#));
        let error = error_of(&[codes(of_codes), tiles(of_scales), mark]).to_string();
        let expected = "tensor `double_blocks.0.img_attn.proj.weight_scale`: expected one scale for each group, in tiles of 128 \
            rows and 4 groups for";
        assert!(error.starts_with(expected), "{error}");
    }
    let broken = error_of(&[codes("F8_E4M3"), scale.clone(), mark("{")]).to_string();
    assert!(broken.contains("expected a JSON object with the `format` of the weights"), "{broken}");
    let other = row("double_blocks.0.img_mlp.0.weight", "F8_E4M3", &[4, 4]);
    assert_eq!(
        error_of(&[codes("F8_E4M3"), scale.clone(), (other, vec![1; 16])]).to_string(),
        "tensor `double_blocks.0.img_mlp.0.weight`: F8_E4M3 codes without scales"
    );
    let lonely = (row("double_blocks.0.img_mlp.0.scale_weight", "F32", &[]), vec![0; 4]);
    assert_eq!(
        error_of(&[codes("F8_E4M3"), scale, lonely]).to_string(),
        "tensor `double_blocks.0.img_mlp.0.scale_weight`: part of quantized weights whose codes are missing or have \
            the wrong type"
    );
    assert_eq!(
        error(&[row(FLUX, "U8", &[4, 4])]),
        "tensor `double_blocks.0.img_attn.proj.weight`: U8 values of shape [4, 4] look like quantized codes of an \
            unknown format"
    );
    // Without any scale, 8-bit floats are values.
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("model.safetensors"), place.path().join("out.gguf"));
    write_checkpoint(&from, &[flux]);
    convert(&from, "f16", &to).unwrap();
}

/// Only a leading prefix is removed, once: names that contain it elsewhere belong to other models.
#[test]
fn prefixes_are_taken_off_once() {
    let place = tempfile::tempdir().unwrap();
    let from = place.path().join("model.safetensors");
    let named = |name: &str| row(name, "F16", &[4, 4]);
    write_checkpoint(
        &from,
        &[
            named(&format!("model.{FLUX}")),
            named("model.inner.model.weight"),
            named("text_model.y.weight"),
            named("first_stage_model.x"),
            named("first_stage_model.y"),
            row("model_ema.decay", "F32", &[]),
        ],
    );
    let input = open(&from).unwrap();
    let names: Vec<_> = input.layout().tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, [FLUX, "inner.model.weight"]);
    let dropped: Vec<_> = input.layout().dropped.iter().map(|dropped| dropped.name.as_str()).collect();
    assert_eq!(
        dropped,
        ["text_model.y.weight", "first_stage_model.x", "first_stage_model.y", "model_ema.decay"]
    );
    assert_eq!(
        input.layout().notes,
        [
            "1 tensor under names that are not known for `flux`: `inner`",
            "only the diffusion model is converted; not written: 2 tensors (a VAE, `first_stage_model`), 1 tensor (an EMA \
            copy, `model_ema`), 1 tensor (`text_model`); use them from the original file"
        ]
    );
}

#[test]
fn config_of_ltx2_becomes_a_key() {
    let place = tempfile::tempdir().unwrap();
    let from = place.path().join("model.safetensors");
    let named = |name: &str| row(name, "BF16", &[4, 4]);
    let rows = [
        named("model.diffusion_model.adaln_single.emb.timestep_embedder.linear_2.weight"),
        named("model.diffusion_model.transformer_blocks.47.scale_shift_table"),
        named("model.diffusion_model.transformer_blocks.27.scale_shift_table"),
        named("model.diffusion_model.caption_projection.linear_2.weight"),
        named("model.diffusion_model.patchify_proj.weight"),
        named("vae.decoder.conv_in.weight"),
    ];
    let config = r#"{"transformer": {"num_layers": 48}, "vae": {}}"#;
    let metadata = json!({"config": config, "format": "pt"});
    fs::write(&from, safetensors(&with_values(&rows), Some(&metadata))).unwrap();
    let input = open(&from).unwrap();
    let keys: Vec<_> = input.layout().metadata.iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["general.architecture", "general.quantization_version", "general.file_type", "config"]);
    assert_eq!(input.layout().metadata.get("config").unwrap().as_str(), Some(config));
    write_checkpoint(&from, &rows);
    let input = open(&from).unwrap();
    assert_eq!(
        input.layout().warnings[0],
        "the checkpoint has no entry `config` in `__metadata__`; programs that need it will use defaults"
    );
}

#[test]
fn ambiguous_folders_are_errors() {
    let place = tempfile::tempdir().unwrap();
    let named = |name: &str| place.path().join(name);
    write_checkpoint(
        &named("diffusion_pytorch_model-00001-of-00002.safetensors"),
        &[row(FLUX, "F16", &[4, 4])],
    );
    assert_eq!(
        open(place.path()).unwrap_err().to_string(),
        "`diffusion_pytorch_model-00001-of-00002.safetensors`: shard 1 of 2"
    );
    let place = tempfile::tempdir().unwrap();
    let named = |name: &str| place.path().join(name);
    write_checkpoint(&named("a.safetensors"), &[row(FLUX, "F16", &[4, 4])]);
    write_checkpoint(&named("b.safetensors"), &[row(FLUX, "F16", &[4, 4])]);
    assert!(!gguf_checkpoint::is_diffusion(place.path()));
    assert_eq!(
        open(place.path()).unwrap_err().to_string(),
        "expected one file of weights, found `a.safetensors`, `b.safetensors`"
    );
    fs::write(named("model_index.json"), "{}").unwrap();
    assert_eq!(
        open(place.path()).unwrap_err().to_string(),
        "no diffusion model found in the pipeline; looked for transformer, unet"
    );
    let place = tempfile::tempdir().unwrap();
    let named = |name: &str| place.path().join(name);
    write_checkpoint(&named("diffusion_pytorch_model.safetensors"), &[row("a.weight", "F16", &[4, 4])]);
    fs::write(named("config.json"), r#"{"_class_name": "AnotherTransformer3DModel"}"#).unwrap();
    assert_eq!(
        open(place.path()).unwrap_err().to_string(),
        "`AnotherTransformer3DModel`: not a known diffusion model (1 tensor)"
    );
    // The weights of a text model are converted with their folder.
    fs::write(named("config.json"), r#"{"architectures": ["LlamaForCausalLM"]}"#).unwrap();
    assert!(!gguf_checkpoint::is_diffusion(&named("diffusion_pytorch_model.safetensors")));
}

#[test]
fn layout_of_diffusers_becomes_the_original_one() {
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("out.gguf");
    let layouts = folder().with_file_name("diffusion-layouts");
    let (mut wrong, mut n_tensors) = (String::new(), 0);
    for entry in fs::read_dir(&layouts).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "safetensors") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let golden = gguf_testkit::read_json(path.with_extension("json"));
        let expected: Vec<(String, Vec<u64>)> = serde_json::from_value(golden["tensors"].clone()).unwrap();
        if let Err(error) = convert(&path, "f16", &to) {
            writeln!(wrong, "{name}: {error}").unwrap();
            continue;
        }
        let file = File::open(&to).unwrap();
        assert_eq!(file.metadata().get("general.architecture").unwrap().as_str(), golden["arch"].as_str());
        if file.tensors().len() != expected.len() {
            writeln!(wrong, "{name}: {} tensors instead of {}", file.tensors().len(), expected.len())
                .unwrap();
        }
        for (seed, (tensor, shape)) in expected.iter().enumerate() {
            n_tensors += 1;
            let Some(found) = file.tensor(tensor) else {
                writeln!(wrong, "{name}: no {tensor}").unwrap();
                continue;
            };
            let n_elems = shape.iter().product();
            let values = (0..n_elems).map(|i| gguf_testkit::f16(gguf_testkit::normal(seed as u64, i)));
            let halves: Vec<u8> = values.flatten().collect();
            let data = file.data(found).unwrap();
            let same = match found.dtype {
                // Kernels of five dimensions.
                DType::F32 => {
                    let back = |bytes: &[u8; 4]| gguf_testkit::f16(f32::from_le_bytes(*bytes));
                    data.as_chunks::<4>().0.iter().flat_map(back).eq(halves)
                }
                _ => data == halves,
            };
            if !same || !found.shape.dims().iter().rev().eq(shape) {
                writeln!(wrong, "{name}: other values or shape of {tensor}").unwrap();
            }
        }
        let notes = open(&path).unwrap().layout().notes.join(" ");
        assert!(notes.contains("has the layout of diffusers"), "{notes}");
        drop(file);
        fs::remove_file(&to).unwrap();
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(n_tensors > 400, "{n_tensors}");
}

#[test]
fn incomplete_layouts_of_diffusers_are_refused() {
    let path = folder().with_file_name("diffusion-layouts").join("flux.safetensors");
    let tensors = gguf_testkit::read_safetensors(&fs::read(path).unwrap());
    let rows = |left_out: &str, added: Option<&str>| -> Vec<(Row, Vec<u8>)> {
        let kept = tensors.iter().filter(|(name, _)| *name != left_out);
        let kept = kept.map(|(name, (dtype, shape, data))| (row(name, dtype, shape), data.clone()));
        kept.chain(added.map(|name| (row(name, "F16", &[1]), vec![0; 2]))).collect()
    };
    let message = "`flux` (Flux.1, Flux.1 Kontext, Flux.2 and Chroma) in the layout of diffusers, recognized by tensor \
        `transformer_blocks.0.attn.norm_added_k.weight`";
    for (left_out, added) in
        [("transformer_blocks.0.attn.to_k.weight", None), ("", Some("transformer_blocks.0.attn.unknown"))]
    {
        let error = error_of(&rows(left_out, added));
        assert!(error.to_string().starts_with(message), "{error}");
        assert_eq!(
            error.hint().unwrap().to_string(),
            "use the checkpoint in its original layout, as ComfyUI loads it"
        );
    }
}
