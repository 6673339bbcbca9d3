//! Export of image models: files become safetensors files and the same files again.

use std::{fs, path::Path};

use gguf_checkpoint::Folder;
use gguf_container::{Array, Endian, File, Metadata, Plan, Value};
use gguf_conversion::{
    Conversion, DiffusionInput, DiffusionOptions, RunOptions, Watch,
    export::{ExportError, ImagePlan, plan_image, write_image},
};
use gguf_models::FAMILIES;
use gguf_types::{DType, Problem as _, Shape};
use serde_json::json;

use super::diffusion::{Row, convert, goldens, row, rows, with_values};

fn write_checkpoint(path: &Path, rows: &[Row], config: &str) {
    let tensors = with_values(rows);
    let tensors = tensors.iter().map(|((name, dtype, shape), data)| (&name[..], &dtype[..], shape, data));
    let metadata = json!({"config": config, "format": "pt"});
    fs::write(path, gguf_testkit::safetensors_with(Some(&metadata), tensors)).unwrap();
}

fn export(from: &Path, dtype: DType, to: &Path, force: bool) -> Result<ImagePlan, ExportError> {
    let file = File::open(from).unwrap();
    let plan = plan_image(&FAMILIES, &file, dtype)?;
    write_image(&file, from, &plan, to, force, &RunOptions::default(), Watch::default())?;
    assert_eq!(fs::metadata(to).unwrap().len(), plan.n_bytes);
    Ok(plan)
}

/// Every architecture in each float type, with tensors that are reshaped, empty, numbers, and of five dimensions.
#[test]
fn exported_files_convert_to_the_same_bytes() {
    let place = tempfile::tempdir().unwrap();
    let [from, gguf, back, again] =
        ["model.safetensors", "a.gguf", "back.safetensors", "b.gguf"].map(|name| place.path().join(name));
    let (mut n_reshaped, mut n_files) = (0, 0);
    for (name, golden) in goldens() {
        for (source, recipe, dtype) in
            [("BF16", "bf16", DType::BF16), ("F16", "f16", DType::F16), ("F32", "f16", DType::F32)]
        {
            let rows = rows(&golden).into_iter().map(|(name, _, shape)| (name, source.to_owned(), shape));
            let mut rows: Vec<Row> = rows.collect();
            // The mark of a variant, with the prefix of the others.
            let (parent, _) = rows[0].0.rsplit_once('.').unwrap();
            rows.push(row(&format!("{parent}.__empty__"), source, &[0]));
            write_checkpoint(&from, &rows, r#"{"a": "é"}"#);
            convert(&from, recipe, &gguf).unwrap();
            export(&gguf, dtype, &back, true).unwrap();
            convert(&back, recipe, &again).unwrap();
            assert!(fs::read(&gguf).unwrap() == fs::read(&again).unwrap(), "{name} {source}: other bytes");
            n_files += 1;
            let written = fs::read(&back).unwrap();
            assert_eq!(
                gguf_testkit::safetensors_header(&written).0["__metadata__"],
                json!({"general.architecture": golden["arch"], "config": r#"{"a": "é"}"#, "format": "pt"})
            );
            let file = File::open(&gguf).unwrap();
            let stated = file.metadata().iter().filter(|(key, _)| key.starts_with("comfy.gguf.orig_shape."));
            n_reshaped += stated.count();
            drop(file);
            fs::remove_file(&gguf).unwrap();
            fs::remove_file(&again).unwrap();
            // Without rounding on the way, tensors are those of the checkpoint.
            if source != "F32" {
                let (before, after) = (fs::read(&from).unwrap(), written);
                let before = gguf_testkit::read_safetensors(&before);
                for (tensor, found) in gguf_testkit::read_safetensors(&after) {
                    let is_it = |name: &str| name == tensor || name.ends_with(&format!(".{tensor}"));
                    let expected = before.iter().find(|(name, _)| is_it(name)).unwrap().1;
                    // Small ones of five dimensions are F32 in every file.
                    let stays = found.0 == "F32" && found.1.len() == 5 && found.1 == expected.1;
                    assert!(found == *expected || stays, "{name} {source}: {tensor}");
                }
            }
        }
    }
    assert_eq!(n_files, 3 * 29);
    assert!(n_reshaped > 3, "{n_reshaped}");
}

const FLUX: &str = "double_blocks.0.img_attn.proj.weight";

/// Small tensors that a checkpoint has in f32 stay F32, so that no value is lost.
#[test]
fn small_f32_tensors_keep_their_values() {
    let place = tempfile::tempdir().unwrap();
    let [from, gguf, back, again] =
        ["model.safetensors", "a.gguf", "back.safetensors", "b.gguf"].map(|name| place.path().join(name));
    let rows = [row(FLUX, "BF16", &[64, 64]), row("a.scale", "F32", &[64]), row("b.scale", "BF16", &[3, 5])];
    write_checkpoint(&from, &rows, "{}");
    convert(&from, "bf16", &gguf).unwrap();
    let plan = export(&gguf, DType::BF16, &back, false).unwrap();
    assert_eq!(plan.notes, ["1 tensor written as F32, as in the file: `a.scale`"]);
    let [before, after] = [&from, &back].map(|path| gguf_testkit::read_safetensors(&fs::read(path).unwrap()));
    assert_eq!(before, after);
    convert(&back, "bf16", &again).unwrap();
    assert!(fs::read(&gguf).unwrap() == fs::read(&again).unwrap());
    export(&gguf, DType::F16, &back, true).unwrap();
    let types = gguf_testkit::read_safetensors(&fs::read(&back).unwrap());
    assert_eq!([FLUX, "a.scale", "b.scale"].map(|name| types[name].0.as_str()), ["F16", "F32", "F32"]);
}

/// Blocks of reshaped tensors are decoded to the values and shapes of the checkpoint.
#[test]
fn quantized_files_are_decoded() {
    let place = tempfile::tempdir().unwrap();
    let [from, gguf, back] =
        ["model.safetensors", "a.gguf", "back.safetensors"].map(|name| place.path().join(name));
    let (_, golden) = goldens().into_iter().find(|(name, _)| name.starts_with("sdxl")).unwrap();
    let rows = rows(&golden).into_iter().map(|(name, _, shape)| (name, "F32".to_owned(), shape));
    write_checkpoint(&from, &rows.collect::<Vec<Row>>(), "{}");
    convert(&from, "q8_0", &gguf).unwrap();
    let file = File::open(&gguf).unwrap();
    assert!(file.tensors().iter().any(|tensor| tensor.dtype == DType::Q8_0));
    export(&gguf, DType::F32, &back, false).unwrap();
    let [before, after] = [&from, &back].map(|path| gguf_testkit::read_safetensors(&fs::read(path).unwrap()));
    for (tensor, (dtype, shape, data)) in after {
        let (_, expected) = before.iter().find(|(name, _)| name.ends_with(&tensor)).unwrap();
        assert_eq!((dtype.as_str(), &shape), ("F32", &expected.1), "{tensor}");
        let values = |bytes: &[u8]| -> Vec<f32> {
            bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
        };
        for (a, b) in values(&data).iter().zip(values(&expected.2)) {
            assert!((a - b).abs() < 0.05, "{tensor}: {a} {b}");
        }
    }
}

#[test]
fn files_that_cannot_be_exported_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let [gguf, to] = ["a.gguf", "out.safetensors"].map(|name| place.path().join(name));
    let key = format!("comfy.gguf.orig_shape.{FLUX}");
    let write = |shape: Option<Array>, name: &str| {
        let mut metadata = Metadata::new();
        metadata.set("general.architecture", "flux");
        metadata.set("more", 1u32);
        if let Some(shape) = shape {
            metadata.set(key.as_str(), Value::Array(shape));
        }
        let tensors = [FLUX, name].map(|name| (name.to_owned(), Shape::new(&[4, 2]).unwrap(), DType::F32));
        let plan = Plan::new(&metadata, tensors.into(), Endian::Little, 32).unwrap();
        fs::write(&gguf, plan.to_bytes(&[vec![0; 32], vec![0; 32]]).unwrap()).unwrap();
    };
    let error = |dtype, to: &Path| export(&gguf, dtype, to, false).unwrap_err().to_string();
    for shape in [
        Array::I32(vec![2, 5]),
        Array::I32(vec![-2, -4]),
        Array::I32(vec![1, 1, 1, 1, 2, 4]),
        Array::I64(vec![2, 4]),
    ] {
        write(Some(shape), "b");
        assert!(
            error(DType::BF16, &to).starts_with(&format!(
                "metadata key `{key}`: expected the shape of a tensor with 8 elements, found an array of"
            )),
            "{}",
            error(DType::BF16, &to)
        );
    }
    write(None, "__metadata__");
    assert_eq!(error(DType::BF16, &to), "1 tensor that a checkpoint cannot hold: `__metadata__`");
    write(Some(Array::I32(vec![2, 2, 2])), "b");
    assert_eq!(error(DType::Q8_0, &to), "weights cannot be exported as q8_0; expected f32, f16 or bf16");
    assert!(error(DType::BF16, &gguf).contains("is also the input"), "{}", error(DType::BF16, &gguf));
    let plan = export(&gguf, DType::BF16, &to, false).unwrap();
    assert_eq!(plan.notes, ["not written, because safetensors metadata has only texts: `more`"]);
    assert!(error(DType::BF16, &to).contains("exists"), "{}", error(DType::BF16, &to));
    assert_eq!(gguf_testkit::read_safetensors(&fs::read(&to).unwrap())[FLUX].1, [2, 2, 2]);
}

/// For stable-diffusion.cpp and diffusers, which do not know the key with the shape.
#[test]
fn tensors_of_unets_keep_their_shapes_on_request() {
    let place = tempfile::tempdir().unwrap();
    let [from, to] = ["model.safetensors", "out.gguf"].map(|name| place.path().join(name));
    let linear = "input_blocks.4.1.transformer_blocks.0.attn1.to_k.weight";
    let rows = [
        row("label_emb.0.0.weight", "F16", &[320, 320]),
        row("input_blocks.1.0.in_layers.2.weight", "F16", &[32, 16, 3, 3]),
        row(linear, "F16", &[320, 320]),
    ];
    write_checkpoint(&from, &rows, "{}");
    let options = DiffusionOptions { no_reshape: true, ..DiffusionOptions::default() };
    let open = || DiffusionInput::open_with_adapters(FAMILIES, &Folder::at(&from), &[], options).unwrap();
    let conversion = Conversion::new(open()).recipe("q8_0").unwrap();
    conversion.plan().unwrap().check().unwrap().write(&to, &RunOptions::default()).unwrap();
    let file = File::open(&to).unwrap();
    let shape = |name: &str| file.tensor(name).unwrap().shape.dims().to_vec();
    assert_eq!(shape("input_blocks.1.0.in_layers.2.weight"), [3, 3, 16, 32]);
    assert_eq!(shape(linear), [320, 320]);
    assert_eq!(file.tensor(linear).unwrap().dtype, DType::Q8_0);
    assert_eq!(file.tensor("input_blocks.1.0.in_layers.2.weight").unwrap().dtype, DType::F16);
    let keys: Vec<_> = file.metadata().iter().map(|(key, _)| key.as_str()).collect();
    assert!(keys.iter().all(|key| !key.starts_with("comfy.")), "{keys:?}");
}

/// The loader has no quantized convolutions, and takes the model's options from `config`.
#[test]
fn latent_upscalers_are_not_quantized() {
    let place = tempfile::tempdir().unwrap();
    let [from, to] = ["model.safetensors", "out.gguf"].map(|name| place.path().join(name));
    let rows = [
        row("initial_conv.weight", "BF16", &[64, 8, 3, 3, 3]),
        row("initial_norm.weight", "BF16", &[64]),
        row("res_blocks.0.conv1.weight", "BF16", &[64, 64, 3, 3, 3]),
        row("upsampler.0.weight", "BF16", &[256, 64, 1, 256]),
        row("post_upsample_res_blocks.0.conv2.bias", "BF16", &[64]),
        row("final_conv.weight", "BF16", &[8, 64, 3, 3, 3]),
    ];
    write_checkpoint(&from, &rows, r#"{"dims": 3}"#);
    convert(&from, "q4_k_m", &to).unwrap();
    let file = File::open(&to).unwrap();
    let text = |key: &str| file.metadata().get(key).and_then(Value::as_str).unwrap();
    assert_eq!((text("general.architecture"), text("config")), ("ltxv_upscaler", r#"{"dims": 3}"#));
    let types: Vec<DType> = file.tensors().iter().map(|tensor| tensor.dtype).collect();
    assert_eq!(types, [DType::F32, DType::F32, DType::F32, DType::BF16, DType::F32, DType::F32]);
}

/// By general rules: matrices in numbered blocks are quantized.
#[test]
fn parts_of_models_are_converted_by_a_name() {
    let place = tempfile::tempdir().unwrap();
    let [from, to] = ["model.safetensors", "out.gguf"].map(|name| place.path().join(name));
    for (name, kind) in [
        ("controlnet_blocks.0.weight", "a ControlNet"),
        ("vace_blocks.0.after_proj.weight", "a VACE module of Wan"),
        ("video_embeddings_connector.transformer_1d_blocks.0.attn1.to_k.weight", "the connectors of LTX-2"),
    ] {
        let rows = [row(name, "BF16", &[64, 256]), row("x_embedder.weight", "BF16", &[64, 256])];
        write_checkpoint(&from, &rows, "{}");
        let error = convert(&from, "q8_0", &to).unwrap_err();
        assert!(error.to_string().contains(&format!("look like {kind} (2 tensors)")), "{error}");
        let hint = error.hint().unwrap().to_string();
        assert!(hint.contains("name its architecture with `"), "{hint}");
        let options = DiffusionOptions { arch_as: Some("part"), ..DiffusionOptions::default() };
        let input = DiffusionInput::open_with_adapters(FAMILIES, &Folder::at(&from), &[], options).unwrap();
        let conversion = Conversion::new(input).recipe("q8_0").unwrap();
        conversion.plan().unwrap().check().unwrap().write(&to, &RunOptions::default()).unwrap();
        let file = File::open(&to).unwrap();
        let types: Vec<DType> = file.tensors().iter().map(|tensor| tensor.dtype).collect();
        assert_eq!(types, [DType::Q8_0, DType::BF16], "{name}");
        assert_eq!(file.metadata().get("general.architecture").and_then(Value::as_str), Some("part"));
        drop(file);
        fs::remove_file(&to).unwrap();
    }
}
