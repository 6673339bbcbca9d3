//! Checkpoints of image and video models whose files ComfyUI refused, or loaded as another variant, although nothing was reported.
//!
//! Names and behavior: `comfy/model_detection.py` of ComfyUI, `loader.py` and `ops.py` of city96/ComfyUI-GGUF@795e451 with
//! gguf-py 0.19, which ran these files.

use gguf_container::{Endian, Metadata, Plan};
use gguf_types::{DType, Shape};
use serde_json::{Value as Json, json};

use crate::common::{Output, Sandbox, succeed, verify, words};

/// Name and shape of a tensor, row length last.
type Tensor = (&'static str, &'static [u64]);

const WAN: &[Tensor] = &[
    ("patch_embedding.weight", &[64, 16, 1, 2, 2]),
    ("text_embedding.2.weight", &[64, 64]),
    ("head.head.weight", &[64, 64]),
    ("head.modulation", &[1, 2, 64]),
    ("blocks.0.self_attn.norm_q.weight", &[64]),
    ("blocks.0.self_attn.q.weight", &[64, 256]),
];
const LUMINA: &[Tensor] = &[
    ("x_embedder.weight", &[64, 64]),
    ("cap_embedder.1.weight", &[64, 64]),
    ("context_refiner.0.attention.qkv.weight", &[64, 64]),
    ("final_layer.linear.weight", &[64, 64]),
    ("layers.0.attention.qkv.weight", &[64, 256]),
];
const SD3: &[Tensor] = &[
    ("x_embedder.proj.weight", &[64, 16, 2, 2]),
    ("context_embedder.weight", &[64, 64]),
    ("final_layer.linear.weight", &[64, 64]),
    ("joint_blocks.0.x_block.attn.qkv.weight", &[64, 256]),
];
const AURA: &[Tensor] = &[
    ("init_x_linear.weight", &[64, 64]),
    ("cond_seq_linear.weight", &[64, 64]),
    ("final_linear.weight", &[64, 64]),
    ("double_layers.0.modX.1.weight", &[64, 256]),
    ("double_layers.1.modX.1.weight", &[64, 256]),
    ("double_layers.2.modX.1.weight", &[64, 256]),
    ("double_layers.3.modX.1.weight", &[64, 256]),
];
const QWEN: &[Tensor] = &[
    ("img_in.weight", &[64, 64]),
    ("txt_in.weight", &[64, 64]),
    ("proj_out.weight", &[64, 64]),
    ("time_text_embed.timestep_embedder.linear_2.weight", &[64, 64]),
    ("transformer_blocks.0.attn.norm_added_q.weight", &[64]),
    ("transformer_blocks.0.img_mlp.net.0.proj.weight", &[64, 256]),
];
const RADIANCE: &[Tensor] = &[
    ("img_in_patch.weight", &[64, 3, 16, 16]),
    ("txt_in.weight", &[64, 64]),
    ("nerf_final_layer_conv.norm.scale", &[64]),
    ("double_blocks.0.img_attn.proj.weight", &[64, 256]),
];
const HUNYUAN: &[Tensor] = &[
    ("img_in.proj.weight", &[64, 32, 1, 1]),
    ("txt_in.individual_token_refiner.blocks.0.norm1.weight", &[64]),
    ("final_layer.linear.weight", &[64, 64]),
    ("double_blocks.0.img_attn.proj.weight", &[64, 256]),
];

/// Writes a checkpoint with pseudo-random weights.
fn write(
    sandbox: &Sandbox,
    file: &str,
    dtype: &str,
    metadata: Option<&Json>,
    tensors: &[(String, Vec<u64>)],
) {
    let data = tensors.iter().zip(1..).map(|((_, shape), seed)| {
        let values = (0..shape.iter().product()).map(|at| gguf_testkit::normal(seed, at));
        match dtype {
            "BF16" => values.flat_map(gguf_testkit::bf16).collect::<Vec<u8>>(),
            _ => values.flat_map(gguf_testkit::f16).collect(),
        }
    });
    let data: Vec<Vec<u8>> = data.collect();
    let tensors = tensors.iter().zip(&data).map(|((name, shape), data)| (&name[..], dtype, shape, data));
    sandbox.write(file, gguf_testkit::safetensors_with(metadata, tensors));
}

fn owned(tensors: &[&[Tensor]]) -> Vec<(String, Vec<u64>)> {
    tensors.concat().into_iter().map(|(name, shape)| (name.to_owned(), shape.to_vec())).collect()
}

/// Converts `model.safetensors` to `out.gguf`.
fn convert(sandbox: &Sandbox, options: &str) -> Output {
    sandbox.convert(&[words("model.safetensors out.gguf --force"), words(options)].concat())
}

fn dtype(sandbox: &Sandbox, name: &str) -> DType {
    sandbox.file("out.gguf").tensor(name).unwrap_or_else(|| panic!("no tensor {name}")).dtype
}

fn loads(sandbox: &Sandbox) {
    let (code, codes, report) = verify(sandbox, &["out.gguf"]);
    assert_eq!((code, codes.len()), (Some(0), 0), "{report}");
    assert!(report.contains("ComfyUI-GGUF loads the file"), "{report}");
}

/// Bare parameters and kernels of one and three dimensions: F32 from bf16, F16 from f16, in every architecture.
#[test]
fn undecoded_parameters_are_floats() {
    let sandbox = Sandbox::new();
    for (base, bare) in [
        (LUMINA, ("x_pad_token", &[1, 3840][..])),
        (WAN, ("img_emb.emb_pos", &[1, 514, 64])),
        (WAN, ("casual_audio_encoder.encoder.conv1_local.conv.weight", &[64, 64, 3])),
        (WAN, ("motion_encoder.enc.fc.0.weight", &[64, 256])),
        (WAN, ("motion_encoder.enc.net_app.convs.1.conv1.0.weight", &[64, 32, 3, 3])),
        (SD3, ("pos_embed", &[1, 64, 64])),
        (AURA, ("register_tokens", &[1, 8, 256])),
        (QWEN, ("transformer_blocks.0.learned", &[64, 256])),
        (RADIANCE, ("nerf_blocks.0.table", &[64, 256])),
        (HUNYUAN, ("vision_in.tokens", &[64, 256])),
    ] {
        for (source, expected) in [("BF16", DType::F32), ("F16", DType::F16)] {
            write(&sandbox, "model.safetensors", source, None, &owned(&[base, &[bare]]));
            for file_type in ["auto", "q8_0"] {
                succeed(convert(&sandbox, &format!("-t {file_type} -q")));
                assert_eq!(dtype(&sandbox, bare.0), expected, "{} {file_type}", bare.0);
                loads(&sandbox);
            }
        }
    }
}

#[test]
fn verify_finds_types_that_comfyui_does_not_decode() {
    let sandbox = Sandbox::new();
    write(&sandbox, "model.safetensors", "BF16", None, &owned(&[WAN]));
    for file_type in ["q1_0", "q2_0"] {
        convert(&sandbox, &format!("-t {file_type}"))
            .says("warning: ComfyUI-GGUF does not load the file: types that gguf-py 0.19 does not decode");
        let (code, codes, _) = verify(&sandbox, &["out.gguf"]);
        assert_eq!((code, codes.contains("type")), (Some(1), true), "{file_type}");
    }
    // Files of other converters: parameters in BF16, and the padding token of Z-Image without its dimension.
    let write = |name: &str, dims: &[u64], dtype| {
        let mut metadata = Metadata::new();
        metadata.set("general.architecture", "lumina2");
        let tensors =
            LUMINA.iter().map(|(name, shape)| (*name, shape.iter().rev().copied().collect(), DType::F32));
        let tensors: Vec<(&str, Vec<u64>, DType)> = tensors.chain([(name, dims.to_vec(), dtype)]).collect();
        let sized =
            tensors.iter().map(|(name, dims, dtype)| ((*name).to_owned(), Shape::new(dims).unwrap(), *dtype));
        let sized: Vec<_> = sized.collect();
        let data: Vec<Vec<u8>> = sized
            .iter()
            .map(|(_, shape, dtype)| {
                vec![1; (shape.n_elems() / dtype.block_elems() * dtype.block_bytes()) as usize]
            })
            .collect();
        let plan = Plan::new(&metadata, sized, Endian::Little, 32).unwrap();
        sandbox.write("out.gguf", plan.to_bytes(&data).unwrap());
        let (code, codes, report) = verify(&sandbox, &["out.gguf"]);
        (code, codes.into_iter().collect::<Vec<_>>(), report)
    };
    // The successor of ComfyUI-GGUF decodes BF16 of all tensors.
    write("x_pad_token", &[3840, 1], DType::BF16);
    let (status, _, report) = verify(&sandbox, &["out.gguf", "--for", "comfyui-molbal"]);
    assert!(status == Some(0) && report.contains("ComfyUI-GGUF of molbal loads the file"), "{report}");
    for (name, dims, dtype, expected) in [
        ("x_pad_token", &[3840, 1][..], DType::F32, None),
        ("x_pad_token", &[3840, 1], DType::BF16, Some("type")),
        ("x_pad_token", &[3840], DType::F32, Some("rank")),
        ("layers.0.table", &[256, 4], DType::Q8_0, Some("type")),
    ] {
        let (code, codes, report) = write(name, dims, dtype);
        let expected: Vec<&str> = expected.into_iter().collect();
        assert_eq!(
            (code, codes),
            (Some(i32::from(!expected.is_empty())), expected.iter().map(|code| (*code).to_owned()).collect()),
            "{report}"
        );
    }
    // The nodes decode no kernel of five dimensions.
    let svd: &[Tensor] = &[
        ("input_blocks.0.0.weight", &[64, 8, 3, 3]),
        ("label_emb.0.0.weight", &[64, 768]),
        ("input_blocks.1.0.time_stack.in_layers.2.weight", &[64, 64, 3, 1, 1]),
        ("out.2.weight", &[4, 64, 3, 3]),
        ("input_blocks.1.1.transformer_blocks.0.attn1.to_q.weight", &[64, 256]),
    ];
    self::write(&sandbox, "model.safetensors", "F16", None, &owned(&[svd]));
    succeed(convert(&sandbox, "-t q8_0"));
    assert_eq!(dtype(&sandbox, svd[2].0), DType::F32);
    assert_eq!(sandbox.file("out.gguf").tensor(svd[2].0).unwrap().shape.dims(), [1, 1, 3, 64, 64]);
    loads(&sandbox);
}

/// Variants of models are recognized by empty tensors and by the entry `config`.
#[test]
fn marks_and_config_are_kept() {
    let sandbox = Sandbox::new();
    let entries = json!({"config": "{\"transformer\": {}}", "format": "pt"});
    for (base, mark) in
        [(QWEN, "__index_timestep_zero__"), (RADIANCE, "__x0__"), (RADIANCE, "__sequential__")]
    {
        write(&sandbox, "model.safetensors", "BF16", Some(&entries), &owned(&[&[(mark, &[0])], base]));
        succeed(convert(&sandbox, "-t q8_0"));
        loads(&sandbox);
        succeed(sandbox.quantize(&words("out.gguf again.gguf q4_0 --allow-requantize --force")));
        for file in ["out.gguf", "again.gguf"] {
            let file = sandbox.file(file);
            let tensor = file.tensor(mark).unwrap();
            // As convert.py writes them.
            assert_eq!((tensor.dtype, tensor.shape.dims()), (DType::F32, &[0][..]), "{mark}");
            let keys: Vec<&str> = file.metadata().iter().map(|(key, _)| key.as_str()).collect();
            assert_eq!(keys[3..], ["config"], "{mark}");
        }
    }
}

#[test]
fn incomplete_models_are_reported() {
    let sandbox = Sandbox::new();
    let block = |block: u32| {
        let names = ["img_attn.qkv.weight", "img_attn.proj.weight", "txt_attn.qkv.weight"];
        names.map(|name| (format!("double_blocks.{block}.{name}"), vec![64, 256]))
    };
    let ends = ["img_in.weight", "txt_in.weight", "final_layer.linear.weight"];
    let ends = ends.map(|name| (name.to_owned(), vec![64, 64]));
    let full: Vec<(String, Vec<u64>)> = ends.into_iter().chain((0..4).flat_map(block)).collect();
    for (removed, warning) in [
        ("double_blocks.2.", "missing block `double_blocks.2`"),
        ("double_blocks.0.txt", "missing `double_blocks.0.txt_attn.qkv.weight`, which other blocks have"),
        ("final_layer.", "missing `final_layer`"),
        ("img_in.", "missing `img_in`"),
        ("nothing", ""),
    ] {
        let tensors: Vec<_> = full.iter().filter(|(name, _)| !name.starts_with(removed)).cloned().collect();
        write(&sandbox, "model.safetensors", "BF16", None, &tensors);
        let ran = succeed(convert(&sandbox, "-t q8_0"));
        if warning.is_empty() {
            assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
            loads(&sandbox);
            continue;
        }
        ran.says(&format!("warning: incomplete model: {warning}"));
        let (_, codes, report) = verify(&sandbox, &["out.gguf"]);
        assert!(codes.contains("incomplete") && !report.contains("ComfyUI-GGUF loads the file"), "{report}");
    }
    let unknown = [full.clone(), vec![("lora_leftover.down.weight".to_owned(), vec![4, 64])]].concat();
    write(&sandbox, "model.safetensors", "BF16", None, &unknown);
    succeed(convert(&sandbox, "-t q8_0"))
        .says("note: 1 tensor under names that are not known for `flux`: `lora_leftover`");
    // Prefixes that all names have.
    for prefix in ["diffusion_model.", "transformer.", "net."] {
        let named: Vec<_> =
            full.iter().map(|(name, shape)| (format!("{prefix}{name}"), shape.clone())).collect();
        write(&sandbox, "model.safetensors", "BF16", None, &named);
        succeed(convert(&sandbox, "-t q8_0"));
        assert_eq!(dtype(&sandbox, "img_in.weight"), DType::BF16);
        loads(&sandbox);
    }
}

/// Class names are those of diffusers 0.42 and of the config in the repositories of Wan.
#[test]
fn class_of_another_model_is_an_error() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("model")).unwrap();
    for (class, tensors, other) in [
        ("QwenImageTransformer2DModel", QWEN, false),
        ("AnotherImageTransformer2DModel", QWEN, true),
        ("WanModel", WAN, false),
        ("WanVACETransformer3DModel", WAN, false),
        ("FluxTransformer2DModel", WAN, true),
    ] {
        write(&sandbox, "model/diffusion_pytorch_model.safetensors", "BF16", None, &owned(&[tensors]));
        sandbox.write("model/config.json", json!({"_class_name": class}).to_string());
        let ran = sandbox.convert(&words("model out.gguf -t q8_0 --force"));
        if !other {
            succeed(ran);
            continue;
        }
        ran.ends_and_says(1, &format!("`{class}`: not a known diffusion model; its tensors look like"));
        let name = if tensors == QWEN { "qwen_image" } else { "wan" };
        succeed(sandbox.convert(&words(&format!("model out.gguf -t q8_0 --force --arch-as {name}"))));
    }
}

#[test]
fn unknown_models_are_converted_by_general_rules() {
    let sandbox = Sandbox::new();
    let tensors: &[Tensor] = &[
        ("clip_patch_proj.weight", &[64, 256]),
        ("rope.inv_freq", &[32]),
        ("blocks.0.attn.qkv_all.weight", &[64, 256]),
        ("blocks.0.table", &[64, 256]),
        ("blocks.1.attn.qkv_all.weight", &[64, 256]),
    ];
    write(&sandbox, "model.safetensors", "BF16", None, &owned(&[tensors]));
    convert(&sandbox, "-t q8_0").ends_and_says(1, "not a known diffusion model (5 tensors)");
    let warning =
        "only matrices in numbered blocks are quantized; kept: `clip_patch_proj.weight`, `blocks.0.table`";
    succeed(convert(&sandbox, "-t q8_0 --arch-as new_model")).says(warning);
    let types = |file: &str| -> Vec<DType> {
        sandbox.file(file).tensors().iter().map(|tensor| tensor.dtype).collect()
    };
    let expected = [DType::BF16, DType::F32, DType::Q8_0, DType::F32, DType::Q8_0];
    assert_eq!(types("out.gguf"), expected);
    let architecture = sandbox.file("out.gguf").metadata().get("general.architecture").cloned();
    assert_eq!(architecture, Some("new_model".into()));
    // A file of another program.
    succeed(convert(&sandbox, "-t bf16 --arch-as new_model"));
    succeed(sandbox.quantize(&words("out.gguf again.gguf q8_0"))).says(warning);
    assert_eq!(types("again.gguf"), expected);
    sandbox.convert(&words("export again.gguf folder")).ends_and_says(1, "expected a ");
    // A known name has its rules.
    succeed(convert(&sandbox, "-t q8_0 --arch-as flux"));
    assert_eq!(types("out.gguf")[0], DType::Q8_0);
}

#[test]
fn family_file_decides_types_of_conversion_and_quantization() {
    let sandbox = Sandbox::new();
    let tensors: &[Tensor] = &[
        ("clip_patch_proj.weight", &[64, 256]),
        ("blocks.0.attn.qkv_all.weight", &[64, 256]),
        ("blocks.0.gate.weight", &[64, 256]),
        ("final_proj.weight", &[64, 256]),
    ];
    write(&sandbox, "model.safetensors", "BF16", None, &owned(&[tensors]));
    sandbox.write(
        "new.toml",
        r#"
        [[model]]
        architecture = "new_model"
        models = "New Model"
        detect = [["clip_patch_proj.weight", "blocks.0.attn.qkv_all.weight"]]
        unquantized = ["clip_patch_proj."]
        kept_f32 = [".gate."]
        ends = [["clip_patch_proj."], ["final_proj."], ["norm."]]
        "#,
    );
    let warning = "warning: incomplete model: missing `norm.`";
    succeed(convert(&sandbox, "-t q8_0 --family new.toml")).says(warning);
    let types = |file: &str| -> Vec<DType> {
        sandbox.file(file).tensors().iter().map(|tensor| tensor.dtype).collect()
    };
    let expected = [DType::BF16, DType::Q8_0, DType::F32, DType::Q8_0];
    assert_eq!(types("out.gguf"), expected);
    succeed(convert(&sandbox, "-t bf16 --family new.toml"));
    succeed(sandbox.quantize(&words("out.gguf again.gguf q8_0 --family new.toml")));
    assert_eq!(types("again.gguf"), expected);
    // Without it, the general rules apply.
    succeed(sandbox.quantize(&words("out.gguf again.gguf q8_0 --force")))
        .says("only matrices in numbered blocks");
    assert_eq!(types("again.gguf")[3], DType::BF16);
    sandbox.write("new.toml", "[[model]]\narchitecture = 1");
    convert(&sandbox, "-t q8_0 --family new.toml")
        .ends_and_says(1, "new.toml: model 1: invalid type: integer `1`");
    convert(&sandbox, "-t q8_0 --family none.toml").ends_and_says(1, "none.toml: ");
    sandbox.add_golden("llama");
    let ran = sandbox.convert(&words("llama out.gguf -t q8_0 --family h3.toml"));
    ran.ends_and_says(2, "--family cannot be used with a language model");
}

#[test]
fn hunyuan_models_have_their_name() {
    let sandbox = Sandbox::new();
    write(&sandbox, "model.safetensors", "BF16", None, &owned(&[HUNYUAN]));
    succeed(convert(&sandbox, "-t q8_0"));
    let architecture = sandbox.file("out.gguf").metadata().get("general.architecture").cloned();
    assert_eq!(architecture, Some("hyvid".into()));
}

/// Matrices of stable-diffusion.cpp (`--imat-out`, docs/imatrix.md) in the older format, with and without the prefix.
#[test]
fn importance_matrices_of_stable_diffusion_cpp_match() {
    let sandbox = Sandbox::new();
    write(&sandbox, "model.safetensors", "BF16", None, &owned(&[WAN]));
    succeed(convert(&sandbox, "-t bf16"));
    let name = "blocks.0.self_attn.q.weight";
    for prefix in ["", "model.diffusion_model."] {
        let entries = [format!("{prefix}{name}"), "text_encoders.t5xxl.transformer.shared.weight".to_owned()];
        let mut bytes = (entries.len() as i32).to_le_bytes().to_vec();
        for entry in &entries {
            bytes.extend((entry.len() as i32).to_le_bytes());
            bytes.extend(entry.as_bytes());
            bytes.extend([10i32, 256].map(i32::to_le_bytes).concat());
            bytes.extend((0..256).flat_map(|at| (1.0 + at as f32).to_le_bytes()));
        }
        bytes.extend([10i32, 1].map(i32::to_le_bytes).concat());
        bytes.push(b'x');
        sandbox.write("matrix.dat", bytes);
        for ran in [
            sandbox.convert(&words("model.safetensors made.gguf -t iq2_xs --imatrix matrix.dat --force")),
            sandbox.quantize(&words("out.gguf made.gguf iq2_xs --imatrix matrix.dat --force")),
        ] {
            succeed(ran);
            assert_eq!(sandbox.file("made.gguf").tensor(name).unwrap().dtype, DType::IQ2_XS);
        }
    }
}

/// `w = quant_map[code] * absmax` (`dequantize_4bit` of bitsandbytes): code 0 of NF4 is -1.
#[test]
fn nf4_of_bitsandbytes_is_decoded() {
    let sandbox = Sandbox::new();
    let f32s = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let nf4: [u32; 16] = [
        0xbf80_0000,
        0xbf32_39b1,
        0xbf06_6b30,
        0xbeca_32a0,
        0xbe91_a24d,
        0xbe3d_353f,
        0xbdba_7871,
        0,
        0x3da2_faff,
        0x3e24_cae3,
        0x3e7c_04dd,
        0x3ead_033a,
        0x3ee1_a4b8,
        0x3f10_07ab,
        0x3f39_13b3,
        0x3f80_0000,
    ];
    let state =
        json!({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [64, 64]}).to_string();
    let name = "double_blocks.0.img_attn.proj.weight";
    let part = |end: &str| format!("{name}{end}");
    let absmax: Vec<f32> = (0..64u8).map(|block| f32::from(block) + 1.0).collect();
    let tensors = [
        (name.to_owned(), "U8", vec![64 * 64 / 2, 1], vec![0; 64 * 64 / 2]),
        (part(".absmax"), "F32", vec![64], f32s(&absmax)),
        (part(".quant_map"), "F32", vec![16], f32s(&nf4.map(f32::from_bits))),
        (part(".quant_state.bitsandbytes__nf4"), "U8", vec![state.len() as u64], state.into_bytes()),
    ];
    let written = tensors.iter().map(|(name, dtype, shape, data)| (&name[..], *dtype, shape, data));
    sandbox.write("model.safetensors", gguf_testkit::safetensors(written));
    succeed(convert(&sandbox, "-t f32"));
    let file = sandbox.file("out.gguf");
    let values = file.data(file.tensor(name).unwrap()).unwrap();
    let expected: Vec<f32> = absmax.iter().flat_map(|absmax| [-absmax; 64]).collect();
    assert!(values == f32s(&expected));
    // Other forms are named by marks that the file has.
    for (end, says) in [(".wscales", "Nunchaku (SVDQuant)"), (".weight_codebook", "codes of a codebook")] {
        let tensors =
            [(name.to_owned(), "F16", vec![4, 4], vec![0; 32]), (part(end), "F16", vec![4], vec![0; 8])];
        let written = tensors.iter().map(|(name, dtype, shape, data)| (&name[..], *dtype, shape, data));
        sandbox.write("model.safetensors", gguf_testkit::safetensors(written));
        convert(&sandbox, "-t f16").ends_and_says(1, says);
    }
}

/// Names of Wan's own file, and the prefix of a complete checkpoint, give the file of the encoder in transformers' form.
#[test]
fn text_encoders_under_other_names_are_converted() {
    let wan = |name: &str| {
        let name = name.strip_prefix("encoder.").unwrap_or(name);
        let Some((block, rest)) = name.strip_prefix("block.").and_then(|rest| rest.split_once(".layer."))
        else {
            return name.replace("final_layer_norm", "norm").replace("shared", "token_embedding");
        };
        // `wan/modules/t5.py`.
        let names = [
            ("0.layer_norm", "norm1"),
            ("0.SelfAttention.relative_attention_bias", "pos_embedding.embedding"),
            ("0.SelfAttention", "attn"),
            ("1.layer_norm", "norm2"),
            ("1.DenseReluDense.wi_0", "ffn.gate.0"),
            ("1.DenseReluDense.wi_1", "ffn.fc1"),
            ("1.DenseReluDense.wo", "ffn.fc2"),
        ];
        let (from, to) = names.iter().find(|(from, _)| rest.starts_with(from)).unwrap();
        format!("blocks.{block}.{}", rest.replace(from, to))
    };
    let of_pipeline = |name: &str| format!("text_encoders.t5xxl.transformer.{name}");
    type Rename<'a> = (&'a str, &'a dyn Fn(&str) -> String);
    let renames: [Rename<'_>; 2] = [("umt5-encoder", &wan), ("t5-encoder", &of_pipeline)];
    for (golden, rename) in renames {
        let sandbox = Sandbox::with_golden(golden);
        let mut tensors = sandbox.tensors(&format!("{golden}/model.safetensors"));
        sandbox.write_tensors("usual.safetensors", &tensors);
        std::fs::remove_file(sandbox.path(golden).join("config.json")).unwrap();
        let call =
            |file: &str| format!("{file}.safetensors {file}.gguf -t f32 --model-name x --config {golden}");
        succeed(sandbox.convert(&words(&call("usual"))));
        let renamed = tensors.iter().map(|(name, tensor)| (rename(name), tensor.clone())).collect();
        sandbox.write_tensors("other.safetensors", &renamed);
        succeed(sandbox.convert(&words(&call("other"))));
        // The order is that of the checkpoint.
        let contents = |file: &str| {
            let file = sandbox.file(file);
            let content = |tensor: &gguf_container::TensorInfo| {
                (tensor.name.clone(), tensor.shape, file.data(tensor).unwrap().to_vec())
            };
            let mut contents: Vec<_> = file.tensors().iter().map(content).collect();
            contents.sort_by(|a, b| a.0.cmp(&b.0));
            contents
        };
        assert!(contents("other.gguf") == contents("usual.gguf"), "{golden}");
        // A decoder is left out.
        let query = "encoder.block.0.layer.0.SelfAttention.q.weight";
        let decoder = tensors[query].clone();
        tensors.insert(query.replace("encoder", "decoder"), decoder);
        sandbox.write_tensors("whole.safetensors", &tensors);
        succeed(sandbox.convert(&words(&call("whole"))))
            .says("only the encoder is converted; not written: 1 tensor");
        assert!(contents("whole.gguf") == contents("usual.gguf"), "{golden}");
    }
    // Options do not hide the kind of a file.
    let sandbox = Sandbox::new();
    let vae: &[Tensor] =
        &[("encoder.conv_in.weight", &[4, 3, 3, 3]), ("decoder.conv_in.weight", &[4, 3, 3, 3])];
    write(&sandbox, "model.safetensors", "F16", None, &owned(&[vae]));
    convert(&sandbox, "-t q8_0 --config .")
        .ends_and_says(1, "not a known diffusion model; the names look like a VAE");
}
