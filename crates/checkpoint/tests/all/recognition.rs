//! Every format of weights as a tiny checkpoint of headers, and the messages for refused formats.

use gguf_types::Problem as _;
use std::{collections::BTreeSet, fs};

use gguf_checkpoint::{Checkpoint, Error, FOREIGN, REFUSED, VARIANTS};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

/// `NAME DTYPE ROWSxCOLUMNS`, separated by commas; a scalar has no shape.
fn safetensors(tensors: &str) -> Vec<u8> {
    gguf_testkit::safetensors(tensors.split(", ").filter(|tensor| !tensor.is_empty()).map(|tensor| {
        let words: Vec<&str> = tensor.split(' ').collect();
        let dims = words.get(2).map_or(Vec::new(), |shape| shape.split('x').collect());
        let shape: Vec<u64> = dims.iter().map(|dim| dim.parse().unwrap()).collect();
        let dtype = gguf_checkpoint::Dtype::from_name(words[1]).unwrap();
        let n_bytes = dtype.n_bytes(shape.iter().product()).unwrap();
        (words[0], words[1], shape, vec![0; n_bytes as usize])
    }))
}

fn folder(config: &Json, files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    for (name, bytes) in files {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

fn open(config: &Json, tensors: &str) -> Result<Checkpoint, Error> {
    gguf_checkpoint::open(folder(config, &[("model.safetensors", &safetensors(tensors))]).path())
}

/// The row of a method, `quantization_config`s by which a checkpoint must be recognized as it, and the tensors.
struct Case(&'static str, &'static [&'static str], &'static str);

const NORM: &str = "model.norm.weight BF16 8";
const GPTQ: &str = "a.qweight I32 1x8, a.qzeros I32 1x1, a.scales F16 1x8, a.g_idx I32 8";
const MARLIN: &str = "a.B I32 1x16, a.s F16 1x8";

/// A config that is not JSON is the name of its method; `""` stands for a missing config.
const CASES: &[Case] = &[
    Case("EETQ", &["eetq", ""], "a.weight I8 8x8, a.weight_scales F16 8"),
    Case("AQLM", &["aqlm", ""], "a.codes I16 8x1x1, a.codebooks F16 1x8x1x8, a.scales F16 8x1x1x1"),
    Case("VPTQ", &["vptq"], "a.indices I32 1x8x8, a.centroids.weight F16 1x64"),
    Case("VPTQ", &[""], "a.indices U16 1x8x8, a.centroids F16 1x64"),
    Case("SpQR", &["spqr", ""], "a.dense_weights I64 8, a.row_offsets I32 9, a.col_vals I32 3"),
    Case("QuIP#", &["quip_sharp", ""], "a.Qidxs I64 8x1"),
    Case("QTIP", &["qtip", ""], "a.trellis I16 8x8, a.SU F16 8, a.SV F16 8"),
    Case(
        "HIGGS",
        &["higgs", ""],
        "a.weight I16 1x8, a.scales F16 8x1, a.tables F16 16, a.tables2 F32 16x16x1",
    ),
    Case(
        "FP-Quant",
        &["fp_quant", ""],
        "a.qweight U8 8x4, a.scales U8 8x1, a.forward_hadamard_matrix BF16 8x8",
    ),
    Case("EXL2", &["exl2", ""], "a.q_weight I32 1x8, a.q_scale I32 1x1, a.q_groups I16 2"),
    Case("EXL3", &["exl3", ""], "a.trellis I16 1x1x32, a.suh F16 16, a.svh F16 16"),
    Case("SINQ", &["sinq"], "a.W_q U8 8x4, a.scale F16 8x1"),
    Case("FourOverSix", &["fouroversix"], "a.weight U8 8x4, a.weight_scale F8_E4M3 8x1"),
    Case("NVFP4 of transformers", &["nvfp4", ""], "a.weight U8 8x4, a.weight_sf I32 8x1"),
    Case("BitBLAS", &["bitblas"], "a.qweight I8 8x4, a.scales F16 8x1"),
    Case("Marlin", &["marlin", ""], MARLIN),
    Case("QQQ", &["qqq", ""], "a.B I32 1x16, a.s_channel F32 1x8"),
    Case("GGUF", &["gguf"], "a.weight U8 8x4"),
    Case(
        "GPTQ repacked for a kernel",
        &[
            r#"{"quant_method": "gptq", "checkpoint_format": "marlin"}"#,
            r#"{"method": "gptq", "is_marlin_format": true}"#,
        ],
        MARLIN,
    ),
    Case(
        "GPTQ repacked for a kernel",
        &[r#"{"quant_method": "gptq", "checkpoint_format": "bitblas"}"#],
        GPTQ,
    ),
    Case(
        "AWQ repacked for a kernel",
        &[r#"{"quant_method": "awq", "version": "GEMV_FAST"}"#],
        "a.qweight I16 2x8, a.qzeros F16 1x8, a.scales F16 1x8",
    ),
    Case(
        "AutoRound with rotations or in the layout of MLX",
        &[r#"{"quant_method": "auto-round", "rotation_config": {"hadamard_type": "random"}}"#],
        GPTQ,
    ),
    Case(
        "AutoRound with rotations or in the layout of MLX",
        &[r#"{"quant_method": "auto-round", "packing_format": "auto_round:mlx"}"#],
        "a.weight U32 8x8, a.scales BF16 8x1, a.biases BF16 8x1",
    ),
    Case(
        "AutoRound with scales of E5M3, or with integers that share exponents",
        &[r#"{"quant_method": "auto-round", "packing_format": "auto_round:llm_compressor",
            "data_type": "mx_int"}"#],
        "a.weight_packed U8 8x16, a.weight_scale U8 8x1",
    ),
    Case(
        "AutoRound with scales of E5M3, or with integers that share exponents",
        &[
            r#"{"quant_method": "auto-round", "data_type": "mx_fp",
            "extra_config": {"a": {"data_type": "nvfp4_v2"}}}"#,
            r#"{"quant_method": "compressed-tensors", "format": "mixed-precision",
            "provider": "auto-round", "config_groups": {"group_0": {"format": "nvfp4-e5m3-pack-quantized"}}}"#,
        ],
        "a.weight_packed U8 8x16, a.weight_scale U8 8x2",
    ),
    Case(
        "NVFP4 with parts of low rank (SVDQuant)",
        &[
            r#"{"quant_method": "modelopt", "quant_algo": "NVFP4_SVD"}"#,
            r#"{"quant_method": "modelopt", "quant_algo": "NVFP4"}"#,
        ],
        "a.weight U8 8x4, a.weight_scale F8_E4M3 8x1, a.weight_scale_2 F32, a.svdquant_lora_a F16 2x8",
    ),
    Case(
        "sparse compressed-tensors",
        &[r#"{"quant_method": "compressed-tensors", "format": "marlin-24"}"#],
        "a.weight_packed I32 1x16, a.scale_packed F16 1x8, a.meta I16 8x1",
    ),
    Case(
        "sparse compressed-tensors",
        &[r#"{"quant_method": "compressed-tensors", "format": "dense",
            "sparsity_config": {"format": "sparse-24-bitmask"}}"#],
        "a.compressed BF16 8x4, a.bitmask U8 8x1, a.shape I64 2, a.weight_scale F32 8x1",
    ),
    Case(
        "compressed-tensors with transforms",
        &[r#"{"quant_method": "compressed-tensors", "format": "float-quantized",
            "transform_config": {"config_groups": {"R4": {"type": "hadamard"}}}}"#],
        "a.weight F8_E4M3 8x8, a.weight_scale BF16 8x1",
    ),
    Case(
        "BitNet with a norm in every matrix",
        &[r#"{"quant_method": "bitnet", "use_rms_norm": true}"#],
        "a.weight U8 2x8, a.weight_scale BF16 1, a.rms_norm.weight BF16 8",
    ),
];

#[test]
fn unsupported_methods_are_refused_by_name() {
    let mut without: BTreeSet<&str> = VARIANTS.iter().chain(REFUSED).map(|method| method.name).collect();
    let rows = CASES.iter().flat_map(|case| case.1.iter().map(move |config| (case.0, *config, case.2)));
    for (row, config, tensors) in rows {
        let config = match config.chars().next() {
            None => Json::Null,
            Some('{') => serde_json::from_str(config).unwrap(),
            Some(_) => json!({"quant_method": config}),
        };
        let error = open(&json!({"quantization_config": config}), &format!("{NORM}, {tensors}")).unwrap_err();
        let Error::MethodNotRead { method, recognized_by, .. } = &error else { panic!("{row}: {error}") };
        assert_eq!(*method, row, "{config} {tensors}");
        let message = format!("weights quantized by {row} are not supported; recognized by {recognized_by}");
        assert_eq!(error.to_string(), message);
        assert!(
            error.hint().unwrap().to_string().starts_with("convert the checkpoint")
                || row.starts_with("GGUF"),
            "{row}"
        );
        without.remove(row);
    }
    assert!(without.is_empty(), "rows without a checkpoint here: {without:?}");
}

/// Names of `quant_method` in transformers 5.23 (`AUTO_QUANTIZATION_CONFIG_MAPPING`) and of other libraries.
#[test]
fn every_known_method_is_recognized() {
    for name in [
        "gguf",
        "awq",
        "bitsandbytes",
        "eetq",
        "gptq",
        "aqlm",
        "quanto",
        "quark",
        "fouroversix",
        "fp_quant",
        "hqq",
        "compressed-tensors",
        "fbgemm_fp8",
        "higgs",
        "torchao",
        "bitnet",
        "vptq",
        "spqr",
        "fp8",
        "nvfp4",
        "mxfp8",
        "auto-round",
        "mxfp4",
        "metal",
        "sinq",
        "gemma",
        "intel/auto-round",
        "modelopt",
        "exl2",
        "exl3",
        "bitblas",
        "marlin",
        "qqq",
        "quip_sharp",
        "qtip",
    ] {
        let config = json!({"quantization_config": {"quant_method": name}});
        // No decoder supports this tensor, whatever its method.
        let error = open(&config, "a.weight U16 8x8").err();
        let is_unknown = matches!(error, Some(Error::UnknownMethod { .. }));
        assert!(!is_unknown, "`{name}` has no row");
        assert!(error.is_some(), "`{name}`: codes passed as numbers");
    }
}

#[test]
fn unknown_method_with_codes_is_refused() {
    let unknown = json!({"quantization_config": {"quant_method": "frobnicate", "bits": 4}});
    let error = open(&unknown, "a.weight U8 8x4, a.sizes F16 8").unwrap_err();
    let message = "`config.json: quantization_config`: weights quantized by `frobnicate` are not supported";
    assert_eq!(error.to_string(), message);
    let unnamed = json!({"quantization_config": {"quant_method": null, "bits": 4}});
    let error = open(&unnamed, "a.weight U8 8x4, a.sizes F16 8").unwrap_err();
    assert!(error.to_string().contains("quantized by `an unnamed method`"), "{error}");
}

#[test]
fn codes_without_method_are_refused() {
    for dtype in ["U8", "I8", "U16", "I16", "U32", "I32", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F4"] {
        let error = open(&json!({}), &format!("{NORM}, a.weight {dtype} 8x8")).unwrap_err();
        let message = format!(
            "tensor `a.weight`: {dtype} values of shape [8, 8] look like quantized codes of an unknown format"
        );
        assert_eq!(error.to_string(), message);
        assert!(error.hint().unwrap().to_string().contains("quantization_config"));
    }
    let error = open(&json!({}), "a.experts.gate_up_proj U8 2x8x8").unwrap_err();
    assert!(matches!(error, Error::CodesOfNoMethod { .. }), "{error}");
    // Masks, positions and lists of ids are values.
    let counted = "h.0.attn.bias U8 1x1x8x8, embeddings.position_ids I64 1x8, b.causal_mask BOOL 8x8, d2t I32 8, \
                   c.ffn.gate.tid2eid I32 8x2, c.position_ids I32 1x8";
    assert_eq!(open(&json!({}), counted).unwrap().tensors.len(), 6);
}

#[test]
fn unused_quantization_config_is_noted() {
    for (place, config) in [
        (
            "config.json: quantization_config",
            json!({"quantization_config": {"quant_method": "gptq", "bits": 4}}),
        ),
        ("config.json: quantization_config", json!({"quantization_config": {"quant_method": "aqlm"}})),
        ("config.json: quantization_config", json!({"quantization_config": {"quant_method": "fp8"}})),
        ("config.json: quantization_config", json!({"quantization_config": {"quant_method": "frobnicate"}})),
        (
            "config.json: text_config.quantization_config",
            json!({"text_config": {"quantization_config": {"quant_method": "awq"}}}),
        ),
        ("config.json: compression_config", json!({"compression_config": {"quant_method": "vptq"}})),
    ] {
        let checkpoint = open(&config, &format!("{NORM}, a.weight BF16 8x8")).unwrap();
        let [note] = &checkpoint.notes[..] else { panic!("{config}: {:?}", checkpoint.notes) };
        assert!(note.starts_with(place) && note.contains("but no tensor is quantized"), "{note}");
        assert!(checkpoint.settled, "{config}");
        assert_eq!(checkpoint.tensors.len(), 2, "{config}");
    }
    let empty = open(&json!({"quantization_config": {}}), NORM).unwrap();
    assert_eq!((empty.notes.len(), empty.settled), (0, true));
}

/// A file by which each format of another program is recognized.
const FOREIGN_FILES: &[(&str, &str)] = &[
    ("EXL2", "output-00001-of-00002.safetensors"),
    ("TensorRT-LLM", "rank0.safetensors"),
    ("TensorRT-LLM", "rank0.engine"),
    ("safetensors under another name", "weights.safetensors"),
    ("HQQ's own pickle", "qmodel.pt"),
    ("Flax", "flax_model.msgpack"),
    ("Flax", "flax_model-00001-of-00002.msgpack"),
    ("TensorFlow", "tf_model.h5"),
    ("TensorFlow", "bert_model.ckpt.index"),
    ("TensorFlow", "model.ckpt"),
    ("TensorFlow", "saved_model.pb"),
    ("Keras", "model.weights.h5"),
    ("Keras", "gemma.keras"),
    ("TensorFlow Lite", "gemma.tflite"),
    ("ONNX", "decoder_model_merged.onnx"),
    ("NeMo", "nemotron.nemo"),
    ("OpenVINO", "openvino_model.xml"),
    ("OpenVINO", "openvino_model.bin"),
    ("CoreML", "model.mlmodel"),
    ("MLC", "params_shard_0.bin"),
    ("PaddlePaddle", "model_state.pdparams"),
    ("the training state of DeepSpeed", "zero_pp_rank_0_mp_rank_00_optim_states.pt"),
    ("the training state of DeepSpeed", "mp_rank_00_model_states.pt"),
    ("the training state of FSDP", "__0_0.distcp"),
    ("the training state of verl", "model_world_size_2_rank_0.pt"),
    ("the training state of Megatron", "model_optim_rng.pt"),
    ("a diffusers pipeline as a text model", "model_index.json"),
    ("rust-bert", "rust_model.ot"),
    ("llama2.c", "stories15M.bin"),
    ("LitGPT", "lit_model.pth"),
    ("a LoRA of mistral-finetune", "lora.safetensors"),
    ("CTranslate2", "model.bin"),
];

#[test]
fn foreign_formats_are_named() {
    let mut without: BTreeSet<&str> = FOREIGN.iter().map(|format| format.name).collect();
    for (format, file) in FOREIGN_FILES {
        let error = gguf_checkpoint::open(folder(&json!({}), &[(file, b"")]).path()).unwrap_err();
        let message = format!("`{file}`: weights in {format} are not supported");
        assert_eq!(error.to_string(), message);
        let row = FOREIGN.iter().find(|row| row.name == *format).unwrap();
        assert_eq!(error.hint().unwrap().to_string(), row.advice);
        without.remove(format);
    }
    assert!(without.is_empty(), "rows without a file here: {without:?}");
    // Supported weights take precedence over all others.
    let both = [("model.safetensors", &safetensors(NORM)[..]), ("model.onnx", b""), ("tf_model.h5", b"")];
    assert!(gguf_checkpoint::open(folder(&json!({}), &both).path()).is_ok());
}
