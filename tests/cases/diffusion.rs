//! GGUF files of diffusion models: those of ComfyUI-GGUF's converter, of stable-diffusion.cpp (no keys), of calcuis (`pig`), and
//! of ggufy; with five dimensions, trailing ones, numbers, and keys that hold original shapes.

use gguf_container::{Array, Endian, Metadata, Plan, Value};
use gguf_types::{DType, Shape};

use crate::common::{Output, Sandbox, succeed, verify, words};

/// Name, dimensions with the row length first, and type of a tensor.
type Tensor = (&'static str, &'static [u64], DType);

/// The names by which Wan is recognized, its tensor of five dimensions, trailing ones and a number.
const WAN: &[Tensor] = &[
    ("blocks.0.self_attn.norm_q.weight", &[256], DType::F32),
    ("text_embedding.2.weight", &[256, 8], DType::BF16),
    ("head.modulation", &[256, 2, 1], DType::F32),
    ("patch_embedding.weight", &[2, 2, 1, 4, 16], DType::F32),
    ("blocks.0.modulation", &[300, 6, 1], DType::F32),
    ("blocks.0.self_attn.v.weight", &[256, 16], DType::BF16),
    ("blocks.0.ffn.2.weight", &[512, 16], DType::BF16),
    ("blocks.0.ffn.0.weight", &[256, 16], DType::BF16),
    ("scale", &[], DType::F32),
    ("head.head.weight", &[4, 4], DType::F32),
];

/// The name by which SDXL is recognized, and both ends; the first tensor is reshaped to rows of 256.
const SDXL: &[Tensor] = &[
    ("input_blocks.1.0.op.weight", &[256, 18], DType::BF16),
    ("label_emb.0.0.weight", &[4, 4], DType::F32),
    ("input_blocks.0.0.weight", &[3, 3, 4, 4], DType::F32),
    ("out.2.weight", &[3, 3, 4, 4], DType::F32),
    ("input_blocks.1.1.transformer_blocks.0.attn1.to_v.weight", &[256, 8], DType::BF16),
];
const RESHAPED: &str = "comfy.gguf.orig_shape.input_blocks.1.0.op.weight";

/// The keys of ComfyUI-GGUF's converter.
fn keys(architecture: &str) -> Metadata {
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", architecture);
    metadata.set("general.quantization_version", 2u32);
    metadata.set("general.file_type", 32u32);
    metadata
}

fn sdxl_keys() -> Metadata {
    let mut metadata = keys("sdxl");
    metadata.set(RESHAPED, Value::Array(Array::I32(vec![32, 16, 3, 3])));
    metadata
}

fn write(sandbox: &Sandbox, file: &str, metadata: &Metadata, prefix: &str, tensors: &[Tensor]) {
    let tensors = tensors.iter().map(|(name, dims, dtype)| (format!("{prefix}{name}"), dims, dtype));
    let sized = tensors.map(|(name, dims, dtype)| (name, Shape::new(dims).unwrap(), *dtype));
    let sized: Vec<_> = sized.collect();
    let data = sized.iter().zip(0..).map(|((_, shape, dtype), seed)| {
        let values = (0..shape.n_elems()).map(|i| gguf_testkit::normal(seed, i));
        match dtype {
            DType::BF16 => values.flat_map(gguf_testkit::bf16).collect::<Vec<u8>>(),
            _ => values.flat_map(f32::to_le_bytes).collect(),
        }
    });
    let data: Vec<_> = data.collect();
    let plan = Plan::new(metadata, sized, Endian::Little, 32).unwrap();
    sandbox.write(file, plan.to_bytes(&data).unwrap());
}

/// A sandbox with a file of each kind.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    write(&sandbox, "wan.gguf", &keys("wan"), "", WAN);
    write(&sandbox, "pig.gguf", &keys("pig"), "", WAN);
    write(&sandbox, "keyless.gguf", &Metadata::new(), "model.diffusion_model.", WAN);
    write(&sandbox, "sdxl.gguf", &sdxl_keys(), "", SDXL);
    sandbox
}

const FILES: [&str; 4] = ["wan.gguf", "pig.gguf", "keyless.gguf", "sdxl.gguf"];

/// Dimensions of all tensors.
fn dims(sandbox: &Sandbox, file: &str) -> Vec<Vec<u64>> {
    sandbox.file(file).tensors().iter().map(|tensor| tensor.shape.dims().to_vec()).collect()
}

#[test]
fn copies_in_all_forms_restore_the_file() {
    let sandbox = sandbox();
    for file in FILES {
        let original = sandbox.read(file);
        let same = |made: &str| assert!(sandbox.read(made) == original, "{file} {made}");
        succeed(sandbox.quantize(&[file, "copy.gguf", "copy", "--force"]));
        same("copy.gguf");
        succeed(sandbox.inspect(&["split", file, "shard", "--split-max-tensors", "3", "--force"]));
        let n_shards = sandbox.file(file).tensors().len().div_ceil(3);
        let first = format!("shard-00001-of-{n_shards:05}.gguf");
        assert_eq!(dims(&sandbox, file)[..3], dims(&sandbox, &first));
        succeed(sandbox.inspect(&["merge", &first, "merged.gguf", "--force"]));
        same("merged.gguf");
        succeed(sandbox.inspect(&["endian", file, "big.gguf", "--order", "big", "--force"]));
        assert_eq!(dims(&sandbox, file), dims(&sandbox, "big.gguf"));
        succeed(sandbox.inspect(&["endian", "big.gguf", "little.gguf", "--order", "little", "--force"]));
        same("little.gguf");
        succeed(sandbox.inspect(&["set", file, "general.name=x", "-o", "named.gguf", "--force"]));
        succeed(sandbox.inspect(&["unset", "named.gguf", "general.name", "-o", "unnamed.gguf", "--force"]));
        same("unnamed.gguf");
        succeed(sandbox.inspect(&["diff", file, "unnamed.gguf"]));
    }
}

#[test]
fn exported_files_convert_to_the_same_bytes() {
    let sandbox = sandbox();
    for file in ["wan.gguf", "sdxl.gguf"] {
        succeed(sandbox.convert(&["export", file, "out.safetensors", "--force"]))
            .says("as F32, as in the file");
        succeed(sandbox.convert(&words("out.safetensors again.gguf --type bf16 --force")));
        assert!(sandbox.read("again.gguf") == sandbox.read(file), "{file}");
    }
    succeed(sandbox.convert(&words("out.safetensors plain.gguf --type bf16 --no-reshape")));
    assert_eq!(dims(&sandbox, "plain.gguf")[0], [3, 3, 16, 32]);
    let planned = succeed(sandbox.convert(&words("export sdxl.gguf out.safetensors --dry-run")));
    let n_bytes = sandbox.read("out.safetensors").len();
    assert!(planned.stdout.contains(&format!("total: {n_bytes} bytes")), "{}", planned.stdout);
    sandbox.convert(&words("export sdxl.gguf out.safetensors")).ends_and_says(1, "out.safetensors");
    sandbox
        .convert(&words("export sdxl.gguf folder"))
        .ends_and_says(1, "a file name that ends in .safetensors");
    sandbox
        .convert(&words("export sdxl.gguf other.safetensors --split-max-size 1GB"))
        .ends_and_says(2, "--split-max-size cannot be used with an image or video model");
}

#[test]
fn repair_restores_architecture_dimensions_and_parameters() {
    let sandbox = sandbox();
    let broken = WAN.iter().map(|tensor| match tensor.0 {
        "head.modulation" => ("head.modulation", &[256, 2][..], DType::BF16),
        "blocks.0.modulation" => ("blocks.0.modulation", &[300, 6][..], DType::BF16),
        _ => *tensor,
    });
    write(&sandbox, "broken.gguf", &keys("wan_2_1"), "", &broken.collect::<Vec<_>>());
    assert_eq!(verify(&sandbox, &["broken.gguf"]).0, Some(1));
    let ran = succeed(sandbox.quantize(&words("broken.gguf fixed.gguf copy --repair")));
    ran.says("repair: architecture `wan_2_1` is now `wan`");
    ran.says("repair: lost dimensions of 2 tensors are restored");
    ran.says("repair: F32 for 2 tensors");
    assert_eq!(dims(&sandbox, "fixed.gguf"), dims(&sandbox, "wan.gguf"));
    let (fixed, good) = (sandbox.file("fixed.gguf"), sandbox.file("wan.gguf"));
    assert_eq!(fixed.metadata(), good.metadata());
    for (tensor, expected) in fixed.tensors().iter().zip(good.tensors()) {
        assert_eq!(tensor.dtype, expected.dtype, "{}", tensor.name);
        let is_equal = fixed.data(tensor).unwrap() == good.data(expected).unwrap();
        assert_eq!(is_equal, !tensor.name.ends_with("modulation"), "{}", tensor.name);
    }
    let (status, _, report) = verify(&sandbox, &["fixed.gguf"]);
    assert!(status == Some(0) && report.contains("ComfyUI-GGUF loads the file"), "{report}");
    succeed(sandbox.quantize(&words("fixed.gguf again.gguf copy --repair")))
        .says("repair: nothing to repair is known");
    assert!(sandbox.read("again.gguf") == sandbox.read("fixed.gguf"));
    write(&sandbox, "text.gguf", &keys("llama"), "", &WAN[1..2]);
    let ran = sandbox.quantize(&words("text.gguf no.gguf copy --repair"));
    ran.ends_and_says(1, "only files of known image and video models can be repaired");
}

#[test]
fn quantized_files_keep_ranks_keys_and_order() {
    let sandbox = sandbox();
    for file in FILES {
        succeed(sandbox.quantize(&[file, "out.gguf", "q4_k_m", "--force"]));
        let (before, after) = (sandbox.file(file), sandbox.file("out.gguf"));
        assert_eq!(dims(&sandbox, file), dims(&sandbox, "out.gguf"));
        let names = |file: &gguf_container::File| -> Vec<String> {
            file.tensors().iter().map(|tensor| tensor.name.clone()).collect()
        };
        assert_eq!(names(&before), names(&after));
        // A file of stable-diffusion.cpp has no keys.
        let mut expected = before.metadata().clone();
        if !expected.is_empty() {
            expected.set("general.file_type", 15u32);
        }
        assert_eq!(after.metadata(), &expected);
        // No finding but the note about five dimensions.
        let (code, codes, _) = verify(&sandbox, &["out.gguf"]);
        assert_eq!((code, codes.len()), (Some(0), 0), "{file} {codes:?}");
    }
    let file = sandbox.file("out.gguf");
    let dtype = |name: &str| file.tensor(name).unwrap().dtype;
    assert_eq!(dtype("input_blocks.1.0.op.weight"), DType::Q4_K);
    assert_eq!(dtype("input_blocks.1.1.transformer_blocks.0.attn1.to_v.weight"), DType::Q6_K);
    // From one quantized type to another.
    let ran = sandbox.quantize(&words("out.gguf again.gguf q4_0"));
    ran.ends_and_says(1, "already quantized");
    succeed(sandbox.quantize(&words("out.gguf again.gguf q4_0 --allow-requantize")));
    assert_eq!(dims(&sandbox, "out.gguf"), dims(&sandbox, "again.gguf"));
    assert!(sandbox.file("again.gguf").metadata().contains(RESHAPED));
}

#[test]
fn options_choose_types_of_matrices_only() {
    let sandbox = sandbox();
    let types = |file: &str| -> Vec<DType> {
        sandbox.file(file).tensors().iter().map(|tensor| tensor.dtype).collect()
    };
    succeed(sandbox.quantize(&words("wan.gguf out.gguf q4_k_m --pure --tensor-type ffn.2=q8_0")));
    assert_eq!(types("out.gguf")[5..8], [DType::Q4_K, DType::Q8_0, DType::Q4_K]);
    succeed(sandbox.quantize(&words("wan.gguf out.gguf q8_0 --tensor-type .*=q4_0 --force")));
    use DType::{BF16, F32, Q4_0};
    assert_eq!(types("out.gguf"), [F32, BF16, F32, F32, F32, Q4_0, Q4_0, Q4_0, F32, F32]);
    // Types with codebooks that need no importance matrix have separate rules.
    succeed(sandbox.quantize(&words("wan.gguf out.gguf iq4_xs --force")));
    assert_eq!(types("out.gguf")[5..8], [DType::Q5_K, DType::Q5_K, DType::IQ4_XS]);
    let ran = sandbox.quantize(&words("wan.gguf out.gguf iq2_xs --force"));
    ran.ends_and_says(1, "needs an importance matrix");
    ran.says("hint: use a type that needs none");
    succeed(sandbox.quantize(&words("wan.gguf out.gguf iq2_xs --force --missing-imatrix ones")));
    assert_eq!(types("out.gguf")[5..8], [DType::Q2_K, DType::Q2_K, DType::IQ2_XS]);
}

#[test]
fn rows_without_whole_blocks_become_f16_with_a_warning() {
    let sandbox = Sandbox::new();
    let odd: &[Tensor] = &[("blocks.0.odd.weight", &[40, 16], DType::BF16)];
    write(&sandbox, "odd.gguf", &keys("wan"), "", &[WAN, odd].concat());
    let ran = succeed(sandbox.quantize(&words("odd.gguf out.gguf q4_k_m")));
    ran.says("tensor `blocks.0.odd.weight`: a row of 40 elements cannot be stored as q4_K; using f16");
    assert_eq!(sandbox.file("out.gguf").tensor("blocks.0.odd.weight").unwrap().dtype, DType::F16);
}

#[test]
fn wrong_original_shapes_are_found() {
    let sandbox = Sandbox::new();
    for (value, says) in [
        (Value::Array(Array::I32(vec![32, 16, 3, 4])), "but the tensor has 4608 elements"),
        (Value::Array(Array::I32(vec![-32, -16, 3, 3])), "but the tensor has 4608 elements"),
        (Value::Array(Array::I32(vec![i32::MAX; 9])), "but the tensor has 4608 elements"),
        (Value::Array(Array::I64(vec![32, 16, 3, 3])), "expected type arr[i32], found arr[i64]"),
        (Value::U32(4608), "expected type arr[i32], found u32"),
    ] {
        let mut metadata = sdxl_keys();
        metadata.set(RESHAPED, value);
        write(&sandbox, "bad.gguf", &metadata, "", SDXL);
        let (code, codes, report) = verify(&sandbox, &["bad.gguf"]);
        assert_eq!((code, codes.iter().map(String::as_str).collect()), (Some(1), vec!["original_shape"]));
        assert!(report.contains(says), "{report}");
    }
    let mut metadata = sdxl_keys();
    metadata.set("comfy.gguf.orig_shape.gone", Value::Array(Array::I32(vec![1])));
    write(&sandbox, "left.gguf", &metadata, "", SDXL);
    let (code, codes, _) = verify(&sandbox, &["left.gguf"]);
    assert_eq!((code, codes.len()), (Some(0), 1), "a warning");
    // An edit that breaks a shape warns.
    write(&sandbox, "sdxl.gguf", &sdxl_keys(), "", SDXL);
    let key = format!("{RESHAPED}=arr[i32]:[1, 2]");
    succeed(sandbox.inspect(&["set", "sdxl.gguf", &key, "-o", "out.gguf", "--force"])).says("4608 elements");
}

/// A file that states a wrong file type, architecture or rank.
#[test]
fn wrong_statements_are_found() {
    let sandbox = sandbox();
    let found = |file: &str, code: Option<i32>, expected: &[&str]| {
        let (ended, codes, report) = verify(&sandbox, &[file]);
        let codes: Vec<&str> = codes.iter().map(String::as_str).collect();
        assert_eq!((ended, &codes[..]), (code, expected), "{file}: {report}");
    };
    let mut metadata = keys("wan");
    metadata.set("general.file_type", 15u32);
    write(&sandbox, "type.gguf", &metadata, "", WAN);
    found("type.gguf", Some(1), &["file_type"]);
    write(&sandbox, "other.gguf", &keys("flux"), "", WAN);
    found("other.gguf", Some(0), &["architecture"]);
    write(&sandbox, "ggufy.gguf", &keys("wan_video"), "", WAN);
    found("ggufy.gguf", Some(1), &["architecture"]);
    succeed(sandbox.quantize(&words("ggufy.gguf out.gguf q8_0"))).says("unknown architecture `wan_video`");
    // An empty name is not a missing one.
    write(&sandbox, "empty.gguf", &keys(""), "", WAN);
    found("empty.gguf", Some(1), &["architecture"]);
    succeed(sandbox.quantize(&words("empty.gguf out.gguf q8_0 --force"))).says("unknown architecture ``");
    assert_eq!(dims(&sandbox, "empty.gguf"), dims(&sandbox, "out.gguf"));
    write(&sandbox, "pig-of-nothing.gguf", &keys("pig"), "", &WAN[5..]);
    found("pig-of-nothing.gguf", Some(1), &["architecture"]);
    let lost: Vec<Tensor> = WAN
        .iter()
        .map(|(name, dims, dtype)| match dims.len() {
            3 => (*name, &dims[..2], *dtype),
            _ => (*name, *dims, *dtype),
        })
        .collect();
    write(&sandbox, "lost.gguf", &keys("wan"), "", &lost);
    found("lost.gguf", Some(1), &["rank"]);
    let ran = sandbox.inspect(&words("diff wan.gguf lost.gguf"));
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.contains("blocks.0.modulation: f32 [300, 6, 1] -> f32 [300, 6]"), "{}", ran.stdout);
    let without: Vec<Tensor> = WAN.iter().copied().filter(|tensor| tensor.1.len() < 5).collect();
    write(&sandbox, "without.gguf", &keys("wan"), "", &without);
    found("without.gguf", Some(0), &["incomplete", "no_5d_tensor"]);
    // Names of diffusers.
    let diffusers: &[Tensor] = &[
        ("transformer_blocks.0.attn.norm_added_k.weight", &[256], DType::F32),
        ("transformer_blocks.0.attn.to_v.weight", &[256, 8], DType::BF16),
        ("x_embedder.weight", &[256, 8], DType::BF16),
    ];
    write(&sandbox, "diffusers.gguf", &keys("flux"), "", diffusers);
    found("diffusers.gguf", Some(1), &["other_layout"]);
    succeed(sandbox.quantize(&words("diffusers.gguf out.gguf q8_0 --force"))).says("has a name of diffusers");
    assert_eq!(sandbox.file("out.gguf").tensor("x_embedder.weight").unwrap().dtype, DType::BF16);
}

/// Parts of a pipeline next to the diffusion model keep what stable-diffusion.cpp keeps.
#[test]
fn other_parts_of_a_pipeline_are_quantized() {
    let sandbox = Sandbox::new();
    let parts: &[Tensor] = &[
        ("model.diffusion_model.double_blocks.0.img_attn.proj.weight", &[256, 8], DType::BF16),
        ("model.diffusion_model.final_layer.linear.weight", &[256, 8], DType::BF16),
        ("text_encoders.t5xxl.transformer.shared.embedding.weight", &[256, 8], DType::BF16),
        (
            "text_encoders.t5xxl.transformer.encoder.block.0.layer.1.DenseReluDense.wi_0.weight",
            &[256, 8],
            DType::BF16,
        ),
    ];
    write(&sandbox, "all.gguf", &Metadata::new(), "", parts);
    succeed(sandbox.quantize(&words("all.gguf out.gguf q8_0")));
    let file = sandbox.file("out.gguf");
    let types: Vec<DType> = file.tensors().iter().map(|tensor| tensor.dtype).collect();
    assert_eq!(types, [DType::Q8_0, DType::BF16, DType::BF16, DType::Q8_0]);
    // A part alone is of no known model.
    write(&sandbox, "part.gguf", &Metadata::new(), "", &parts[3..]);
    succeed(sandbox.quantize(&words("part.gguf out.gguf q8_0 --force")))
        .says("no known diffusion model has these tensors");
}

#[test]
fn programs_for_text_name_the_kind_of_file() {
    let sandbox = sandbox();
    sandbox.write("text", "a few words");
    let refused = |ran: Output, file: &str| ran.ends_and_says(1, &format!("{file}: expected a "));
    for file in FILES {
        refused(sandbox.eval(&["perplexity", file, "--text", "text"]), file);
        refused(sandbox.eval(&["imatrix", file, "--text", "text", "-o", "out.gguf"]), file);
        refused(sandbox.publish(&[file, "repository", "-t", "q8_0"]), file);
        let ran = succeed(sandbox.inspect(&["fit", file, "--memory", "1GB"]));
        ran.says("weights only");
        assert!(ran.stdout.contains(&format!("fits in 1.00 GB: {file}")), "{}", ran.stdout);
    }
    let ran = succeed(sandbox.inspect(&words("show keyless.gguf")));
    assert!(ran.stdout.contains("Wan 2.1 and 2.2"), "{}", ran.stdout);
}

#[test]
fn six_dimensions_are_refused_and_long_names_kept() {
    let sandbox = Sandbox::new();
    write(&sandbox, "wan.gguf", &keys("wan"), "", WAN);
    let bytes = sandbox.read("wan.gguf");
    let name = b"patch_embedding.weight";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap() + name.len();
    let mut six = bytes[..at].to_vec();
    six.extend([6, 0, 0, 0]);
    six.extend(1u64.to_le_bytes());
    six.extend(&bytes[at + 4..]);
    sandbox.write("six.gguf", six);
    let says = "tensor `patch_embedding.weight`: expected at most 5 dimensions, found 6";
    sandbox.quantize(&words("six.gguf out.gguf q8_0")).ends_and_says(1, says);
    sandbox.inspect(&words("show six.gguf")).ends_and_says(1, says);
    sandbox.inspect(&words("split six.gguf shard --split-max-tensors 2")).ends_and_says(1, says);
    let long = "n".repeat(127);
    write(&sandbox, "long.gguf", &keys("wan"), "", &[WAN, &[(long.leak(), &[256, 4], DType::F32)]].concat());
    succeed(sandbox.quantize(&words("long.gguf out.gguf q8_0")));
    assert_eq!(verify(&sandbox, &["out.gguf"]).0, Some(0));
}
