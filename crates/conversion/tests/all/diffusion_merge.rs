//! Adapters of diffusion models, against diffusers, PEFT and LyCORIS (`golden/diffusion-adapters`).

use std::{
    fs,
    path::{Path, PathBuf},
};

use gguf_checkpoint::{Checkpoint, Folder, open_diffusion_adapter, safetensors_header};
use gguf_container::{Array, Endian, File, Metadata, Model, Plan};
use gguf_conversion::merge::{LoraAdapter, MergeError, ModuleNames, merge_diffusion};
use gguf_conversion::{Conversion, ModelInput, RunOptions};
use gguf_models::FAMILIES;
use gguf_types::{DType, Shape};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/diffusion-adapters")
}

fn open(path: &Path) -> Checkpoint {
    open_diffusion_adapter(&Folder::at(path)).unwrap()
}

fn adapter(path: &Path, scale: f64) -> LoraAdapter {
    LoraAdapter { folder: Folder::at(path), name: path.to_owned(), scale, takes_tokenizer: false }
}

fn names(family: &str) -> ModuleNames<'static> {
    ModuleNames { prefix: "", stages: FAMILIES.diffusion(family).unwrap().stages() }
}

fn values(checkpoint: &Checkpoint, name: &str, row_elems: u64) -> Vec<f32> {
    let tensor = checkpoint.tensor(name).unwrap();
    let n_elems: u64 = tensor.shape.iter().product();
    let mut values = vec![0.0; n_elems as usize];
    checkpoint.read_rows(tensor, row_elems, 0..n_elems / row_elems, &mut values).unwrap();
    values
}

/// Largest difference relative to the largest value: a few roundings of f32.
const TOLERANCE: f32 = 4e-7;

#[test]
fn merged_values_are_those_of_diffusers() {
    let mut n_cases = 0;
    for entry in fs::read_dir(golden()).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(case) = fs::read_to_string(folder.join("case.json")) else { continue };
        let case: serde_json::Value = serde_json::from_str(&case).unwrap();
        let (family, scale) = (case["family"].as_str().unwrap(), case["scale"].as_f64().unwrap());
        let (base, expected) =
            (open(&folder.join("base.safetensors")), open(&folder.join("expected.safetensors")));
        let before = open(&folder.join("base.safetensors"));
        let path = ["adapter", "adapter.safetensors"].map(|name| folder.join(name));
        let adapters = [adapter(path.iter().find(|path| path.exists()).unwrap(), scale)];
        let merged = merge_diffusion(base, &adapters, names(family)).unwrap();
        for tensor in &merged.tensors {
            let name = tensor.name.as_str();
            let n_elems: u64 = tensor.shape.iter().product();
            let wanted = values(&expected, name, n_elems);
            let largest = wanted.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
            let own = values(&before, name, n_elems);
            assert_ne!(own, wanted, "{}: {name} does not change", folder.display());
            // As one row, as the tensor's own rows, and as rows that cross those of the matrix.
            for row_elems in [n_elems, tensor.row_elems(), n_elems / 4].into_iter().filter(|n| *n > 0) {
                if !n_elems.is_multiple_of(row_elems) {
                    continue;
                }
                let found = values(&merged, name, row_elems);
                for (at, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
                    let difference = (found - wanted).abs();
                    assert!(
                        difference <= TOLERANCE * largest,
                        "{}: {name}[{at}]: {found}, expected {wanted}",
                        folder.display()
                    );
                }
            }
        }
        n_cases += 1;
    }
    assert_eq!(n_cases, 16);
}

/// The merge into a GGUF file of the same values, with rows of 256 elements in files of UNets.
#[test]
fn adapters_are_merged_into_gguf_files() {
    for (folder, architecture) in [("flux-lycoris", "flux"), ("unet-lycoris", "sd1"), ("flux-oft", "flux")] {
        let folder = golden().join(folder);
        let expected = open(&folder.join("expected.safetensors"));
        let base = open(&folder.join("base.safetensors"));
        let mut metadata = Metadata::new();
        metadata.set("general.architecture", architecture);
        let (mut tensors, mut data) = (Vec::new(), Vec::new());
        for tensor in &base.tensors {
            let n_elems: u64 = tensor.shape.iter().product();
            let is_reshaped = architecture == "sd1" && n_elems.is_multiple_of(256);
            let shape = if is_reshaped {
                let original: Vec<i32> = tensor.shape.iter().map(|size| *size as i32).collect();
                metadata.set(format!("comfy.gguf.orig_shape.{}", tensor.name), Array::I32(original));
                Shape::new(&[256, n_elems / 256]).unwrap()
            } else {
                tensor.shape().unwrap()
            };
            tensors.push((tensor.name.clone(), shape, DType::F32));
            data.push(values(&base, &tensor.name, n_elems).iter().flat_map(|x| x.to_le_bytes()).collect());
        }
        let temporary = tempfile::tempdir().unwrap();
        let [path, out] = ["base.gguf", "out.gguf"].map(|name| temporary.path().join(name));
        let plan = Plan::new(&metadata, tensors, Endian::Little, 32).unwrap();
        let data: Vec<Vec<u8>> = data;
        fs::write(&path, plan.to_bytes(&data).unwrap()).unwrap();
        let case: serde_json::Value =
            serde_json::from_slice(&fs::read(folder.join("case.json")).unwrap()).unwrap();
        let adapters = [adapter(&folder.join("adapter.safetensors"), case["scale"].as_f64().unwrap())];
        let input = ModelInput::new(FAMILIES, Model::open(&path).unwrap());
        let input = input.with_diffusion_adapters(&adapters).unwrap();
        assert!(input.merge_notes()[0].contains("merged"), "{:?}", input.merge_notes());
        let conversion = Conversion::new(input).recipe("f32").unwrap();
        let planned = conversion.plan().unwrap();
        planned.check().unwrap().write(&out, &RunOptions::default()).unwrap();
        let file = File::open(&out).unwrap();
        assert!(file.metadata().contains("gguf_tools.merged_adapters"));
        for tensor in file.tensors() {
            let n_elems = tensor.shape.n_elems();
            let wanted = values(&expected, &tensor.name, n_elems);
            let largest = wanted.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
            let found =
                file.data(tensor).unwrap().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
            for (found, wanted) in found.zip(wanted) {
                assert!((found - wanted).abs() <= TOLERANCE * largest, "{}: {found}, {wanted}", tensor.name);
            }
        }
    }
}

/// A safetensors file of f32 tensors of zeros.
fn file(folder: &Path, name: &str, tensors: &[(&str, &[u64])]) -> PathBuf {
    let shapes: Vec<(&str, Shape)> =
        tensors.iter().map(|(name, shape)| (*name, Shape::from_row_major(shape).unwrap())).collect();
    let entries = shapes.iter().map(|(name, shape)| (*name, shape, DType::F32));
    let mut bytes = safetensors_header(&[], entries).unwrap();
    let n_elems: u64 = tensors.iter().map(|(_, shape)| shape.iter().product::<u64>()).sum();
    bytes.resize(bytes.len() + n_elems as usize * 4, 0);
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

/// Merges an adapter with these tensors into a tiny Flux checkpoint.
fn merged(tensors: &[(&str, &[u64])]) -> Result<Checkpoint, Box<MergeError>> {
    let folder = tempfile::tempdir().unwrap();
    let base: &[(&str, &[u64])] = &[
        ("double_blocks.0.img_attn.qkv.weight", &[12, 4]),
        ("double_blocks.0.img_attn.qkv.bias", &[12]),
        ("double_blocks.0.img_attn.proj.weight", &[4, 4]),
        ("conv.weight", &[4, 2, 3, 3]),
    ];
    let base = open(&file(folder.path(), "base.safetensors", base));
    let adapters = [adapter(&file(folder.path(), "adapter.safetensors", tensors), 1.0)];
    merge_diffusion(base, &adapters, names("flux")).map_err(|(_, error)| error)
}

fn message(tensors: &[(&str, &[u64])]) -> String {
    merged(tensors).unwrap_err().to_string()
}

#[test]
fn unusable_adapters_are_refused_by_name() {
    let (down, up): (&[u64], &[u64]) = (&[2, 4], &[4, 2]);
    let q = "transformer.transformer_blocks.0.attn.to_q";
    let [a, b] = [format!("{q}.lora_A.weight"), format!("{q}.lora_B.weight")];
    assert!(merged(&[(&a, down), (&b, up)]).is_ok());
    for (tensors, expected) in [
        (
            &[(a.as_str(), down)][..],
            "1 missing tensor: `transformer.transformer_blocks.0.attn.to_q.lora_B.weight`",
        ),
        (
            &[("lora_unet_x.lora_down.weight", down), ("lora_unet_x.lora_up.weight", up)],
            "2 tensors without a match in the base model: `lora_unet_x.lora_down.weight`, `lora_unet_x.lora_up.weight`",
        ),
        (&[("lora_unet_x.a1.weight", down)], "tensor `lora_unet_x.a1.weight`: GLoRA is not supported"),
        (&[("x.weight", down)], "1 tensor not recognized as LoRA halves or whole weights: `x.weight`"),
        (&[("lora_te_x.lora_down.weight", down)], "the adapter changes text encoders only"),
        (
            &[(&a, &[2, 5]), (&b, up)],
            "tensor `transformer.transformer_blocks.0.attn.to_q.lora_A.weight`: expected a pair (rank, 4) and (4, rank), \
             found [2, 5] and [4, 2], found shape [2, 5] (`double_blocks.0.img_attn.qkv.weight` has [12, 4])",
        ),
        (
            &[
                (&a, down),
                (&b, up),
                ("lora_unet_double_blocks_0_img_attn_qkv.lora_down.weight", down),
                ("lora_unet_double_blocks_0_img_attn_qkv.lora_up.weight", &[12, 2]),
            ],
            "tensors `transformer.transformer_blocks.0.attn.to_q.lora_A.weight` and \
             `lora_unet_double_blocks_0_img_attn_qkv.lora_down.weight` both change `double_blocks.0.img_attn.qkv.weight`",
        ),
        (
            &[(&a, down), (&b, up), (&format!("{q}.alpha"), &[2])],
            "tensor `transformer.transformer_blocks.0.attn.to_q.alpha`: expected one finite number, found [2]",
        ),
        (
            &[(&a, down), (&b, up), (&format!("{q}.dora_scale"), &[4, 1])],
            "tensor `transformer.transformer_blocks.0.attn.to_q.dora_scale`: a DoRA for a part of a tensor, for a convolution \
             or with magnitudes of inputs is not supported",
        ),
        (
            &[
                ("lora_unet_conv.lora_down.weight", &[1, 2, 9]),
                ("lora_unet_conv.lora_up.weight", &[4, 1, 1, 1]),
            ],
            "tensor `lora_unet_conv.lora_down.weight`: expected a pair (rank, 18) and (4, rank), found [1, 2, 9] and \
             [4, 1, 1, 1], found shape [1, 2, 9] (`conv.weight` has [4, 2, 3, 3])",
        ),
    ] {
        let found = message(tensors);
        assert_eq!(found, expected);
    }
}

#[test]
fn products_that_do_not_fit_are_refused() {
    let proj = "lora_unet_double_blocks_0_img_attn_proj";
    let conv = "lora_unet_conv";
    let check = |module: &str, tensors: &[(&str, &[u64])], expected: &str| {
        let named: Vec<(String, &[u64])> =
            tensors.iter().map(|(name, shape)| (format!("{module}.{name}"), *shape)).collect();
        let named: Vec<(&str, &[u64])> = named.iter().map(|(name, shape)| (name.as_str(), *shape)).collect();
        match merged(&named) {
            Ok(_) => assert_eq!(expected, "", "{tensors:?}"),
            Err(error) => assert!(
                error.to_string().contains(expected) && !expected.is_empty(),
                "{error}, expected {expected}"
            ),
        }
    };
    let (a, b): (&[u64], &[u64]) = (&[4, 2], &[2, 4]);
    let loha = [("hada_w1_a", a), ("hada_w1_b", b), ("hada_w2_a", a), ("hada_w2_b", b)];
    check(proj, &loha, "");
    check(proj, &loha[..3], "1 missing tensor: `lora_unet_double_blocks_0_img_attn_proj.hada_w2_b`");
    check(proj, &[&loha[..], &[("hada_t2", &[2, 2, 1, 1])]].concat(), ".hada_t1`");
    check(
        proj,
        &[&loha[..], &[("dora_scale", &[4, 1])]].concat(),
        "a LoHa or LoKr with magnitudes (DoRA) is not",
    );
    check(proj, &[&loha[..], &[("lokr_w1", &[2, 2])]].concat(), "1 tensor not recognized");
    check(proj, &[&loha[..], &[("lora_down.weight", b), ("lora_up.weight", a)]].concat(), "both change");
    check(
        proj,
        &[("hada_w1_a", a), ("hada_w1_b", b), ("hada_w2_a", a), ("hada_w2_b", &[2, 5])],
        "(4, 4), found",
    );
    check(
        proj,
        &[("hada_w1_a", a), ("hada_w1_b", b), ("hada_w2_a", &[4]), ("hada_w2_b", b)],
        "(4, 4), found",
    );
    check(
        proj,
        &[("hada_w1_a", a), ("hada_w1_b", b), ("hada_w2_a", &[4, 3]), ("hada_w2_b", &[3, 4])],
        "of one rank",
    );
    check(proj, &[("lokr_w1", &[2, 2]), ("lokr_w2", &[2, 2])], "");
    check(proj, &[("lokr_w1", &[2, 2]), ("lokr_w2", &[3, 2])], "a Kronecker product (4, 4), found");
    check(
        proj,
        &[("lokr_w1", &[2, 2]), ("lokr_w2", &[2, 2]), ("lokr_w2_a", &[2, 1])],
        "1 tensor not recognized",
    );
    check(proj, &[("lokr_w1", &[2, 2]), ("lokr_w2_a", &[2, 1])], ".lokr_w2_b`");
    check(proj, &[("lokr_w2", &[2, 2])], "2 missing tensors");
    check(proj, &[("lokr_w1", &[]), ("lokr_w2", &[4, 4])], "a Kronecker product (4, 4), found");
    check(conv, &[("lokr_w1", &[2, 2]), ("lokr_w2", &[2, 1, 3, 3])], "");
    check(conv, &[("lokr_w1", &[2, 2]), ("lokr_w2", &[2, 1, 9, 1])], "a Kronecker product (4, 18), found");
    check(conv, &[("lokr_w1", &[2, 2, 3]), ("lokr_w2", &[2, 1, 3])], "a Kronecker product (4, 18), found");
    let tucker: &[(&str, &[u64])] = &[("lokr_w1", &[2, 2]), ("lokr_w2_a", &[1, 2]), ("lokr_w2_b", &[1, 1])];
    check(conv, &[tucker, &[("lokr_t2", &[1, 1, 3, 3])]].concat(), "");
    check(conv, &[tucker, &[("lokr_t2", &[1, 1, 9])]].concat(), "a Kronecker product (4, 18), found");
    check(conv, &[tucker, &[("lokr_t2", &[9])]].concat(), "a Kronecker product (4, 18), found");
    let locon: &[(&str, &[u64])] = &[("lora_down.weight", &[2, 2, 1, 1]), ("lora_up.weight", &[4, 2, 1, 1])];
    check(conv, &[locon, &[("lora_mid.weight", &[2, 2, 3, 3])]].concat(), "");
    check(
        conv,
        &[locon, &[("lora_mid.weight", &[2, 1, 3, 3])]].concat(),
        "expected a core (2, 2, kernel), found",
    );
    check(conv, &[locon, &[("lora_mid.weight", &[2, 2, 3, 2])]].concat(), "a pair (rank, 18) and (4, rank)");
    check(conv, &[("lora_mid.weight", &[2, 2, 3, 3])], "1 missing tensor");
    check(proj, &[("oft_blocks", &[2, 2, 2]), ("rescale", &[4, 1])], "");
    check(proj, &[("oft_blocks", &[2, 2, 3])], "square blocks of 4 rows, found");
    check(proj, &[("oft_blocks", &[3, 2, 2])], "square blocks of 4 rows, found");
    check(proj, &[("oft_blocks", &[1, 2, 2, 2])], "BOFT (butterfly factors) is not supported");
    check(proj, &[("oft_blocks", &[2, 2, 2]), ("rescale", &[3, 1])], "expected 4 factors, found");
    check(proj, &[("oft_blocks", &[2, 2, 2]), ("alpha", &[2])], "expected one finite number, found [2]");
    check(
        proj,
        &[("rescale", &[4, 1])],
        "1 missing tensor: `lora_unet_double_blocks_0_img_attn_proj.oft_blocks`",
    );
    check(
        proj,
        &[("oft_R.weight", &[2, 1])],
        "OFT that rotates inputs (PEFT), or an old form of OFT, is not",
    );
}

/// HunyuanVideo saved by ComfyUI: some names of the original layout differ from those of the file by `.` and `_` only.
#[test]
fn all_names_of_hunyuan_modules_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let base: &[(&str, &[u64])] = &[
        ("double_blocks.0.img_attn.qkv.weight", &[12, 4]),
        ("double_blocks.0.img_attn.proj.weight", &[4, 4]),
        ("double_blocks.0.img_mlp.0.weight", &[4, 4]),
        ("txt_in.individual_token_refiner.blocks.0.norm1.weight", &[4]),
    ];
    let base = file(folder.path(), "base.safetensors", base);
    let tensors = open(&base).tensors.to_vec();
    let detected = FAMILIES.detect_diffusion(|name| {
        tensors.iter().find(|tensor| tensor.name == name).map(|tensor| tensor.shape[0])
    });
    let names = ModuleNames { prefix: "", stages: detected.unwrap().row.stages() };
    for (module, n_outputs) in [
        ("lora_unet_double_blocks_0_img_attn_qkv", 12),
        ("lora_unet_double_blocks_0_img_mlp_fc1", 4),
        ("lora_unet_double_blocks_0_img_mlp_0", 4),
        ("transformer.double_blocks.0.img_attn_qkv", 12),
        ("diffusion_model.double_blocks.0.img_attn_proj", 4),
        ("diffusion_model.double_blocks.0.img_attn.qkv", 12),
        ("transformer.transformer_blocks.0.attn.to_k", 4),
    ] {
        let [down, up] = ["lora_A", "lora_B"].map(|half| format!("{module}.{half}.weight"));
        let pair: &[(&str, &[u64])] = &[(&down, &[2, 4]), (&up, &[n_outputs, 2])];
        let adapters = [adapter(&file(folder.path(), "adapter.safetensors", pair), 1.0)];
        let merged = merge_diffusion(open(&base), &adapters, names);
        assert!(merged.is_ok(), "{module}: {merged:?}");
    }
}

#[test]
fn text_encoders_are_reported_and_left_alone() {
    let down: &[u64] = &[2, 4];
    let tensors: &[(&str, &[u64])] = &[
        ("lora_te1_text_model_encoder_layers_0_mlp_fc1.lora_down.weight", down),
        ("lora_unet_double_blocks_0_img_attn_proj.lora_down.weight", down),
        ("lora_unet_double_blocks_0_img_attn_proj.lora_up.weight", &[4, 2]),
    ];
    let merged = merged(tensors).unwrap();
    let notes = merged.notes.join("\n");
    assert!(notes.contains("1 tensor of text encoders not merged"), "{notes}");
    assert!(notes.contains("merged into 1 tensor"), "{notes}");
}
