//! Every way in which a checkpoint can be refused, and what the message names.

use gguf_layout::{
    ArchError, Data, Hparams, Input, Layout, Options, RowMap, SourceTensor, projector::Towers,
};
use gguf_types::{Problem as _, Shape};
use serde_json::{Value as Json, json};

fn config() -> Json {
    json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 384
    })
}

fn mixtral() -> Json {
    let mut config = config();
    config["architectures"] = json!(["MixtralForCausalLM"]);
    config["model_type"] = json!("mixtral");
    config["num_local_experts"] = json!(2);
    config
}

fn tensor(name: &str, dims: &[u64]) -> SourceTensor {
    SourceTensor { name: name.into(), shape: Shape::new(dims).unwrap(), folded: None }
}

/// The tensors of [`config`], or of [`mixtral`].
fn tensors(experts: u64) -> Vec<SourceTensor> {
    let mut tensors = vec![
        tensor("lm_head.weight", &[64, 384]),
        tensor("model.embed_tokens.weight", &[64, 384]),
        tensor("model.norm.weight", &[64]),
    ];
    for layer in 0..2 {
        let mut add = |name: &str, dims: &[u64]| {
            tensors.push(tensor(&format!("model.layers.{layer}.{name}.weight"), dims))
        };
        add("input_layernorm", &[64]);
        add("post_attention_layernorm", &[64]);
        add("self_attn.q_proj", &[64, 64]);
        add("self_attn.k_proj", &[64, 32]);
        add("self_attn.v_proj", &[64, 32]);
        add("self_attn.o_proj", &[64, 64]);
        if experts == 0 {
            add("mlp.gate_proj", &[64, 96]);
            add("mlp.up_proj", &[64, 96]);
            add("mlp.down_proj", &[96, 64]);
        } else {
            add("block_sparse_moe.gate", &[64, experts]);
        }
        for expert in 0..experts {
            add(&format!("block_sparse_moe.experts.{expert}.w1"), &[64, 96]);
            add(&format!("block_sparse_moe.experts.{expert}.w2"), &[96, 64]);
            add(&format!("block_sparse_moe.experts.{expert}.w3"), &[64, 96]);
        }
    }
    tensors
}

fn resolve(config: Json, tensors: Vec<SourceTensor>) -> Result<Layout, ArchError> {
    gguf_layout::resolve_weights(
        &Input { config, tensors, ..Input::default() },
        &Options::new(gguf_models::FAMILIES),
    )
}

#[track_caller]
fn refused(config: Json, tensors: Vec<SourceTensor>, message: &str) {
    let error = resolve(config, tensors).unwrap_err();
    assert_eq!(error.to_string(), message);
}

fn without(name: &str, tensors: Vec<SourceTensor>) -> Vec<SourceTensor> {
    tensors.into_iter().filter(|tensor| tensor.name != name).collect()
}

#[test]
fn valid_checkpoints_resolve() {
    let layout = resolve(config(), tensors(0)).unwrap();
    assert_eq!(layout.tensors.len(), tensors(0).len());
    let layout = resolve(mixtral(), tensors(2)).unwrap();
    assert_eq!(layout.tensors.len(), 3 + 2 * (7 + 3));
}

#[test]
fn unknown_class_suggests_similar_ones() {
    let mut other = config();
    other["architectures"] = json!(["LamaForCausalLM"]);
    let error = resolve(other.clone(), tensors(0)).unwrap_err();
    assert!(
        error.to_string().starts_with("unknown architecture `LamaForCausalLM`; nearest known: L"),
        "{error}"
    );
    let text = error.to_string();
    assert_eq!(text.matches(" LlamaForCausalLM").count(), 1, "{text}");
    for none in [json!([]), Json::Null, json!([7]), json!(7)] {
        other["architectures"] = none;
        refused(
            other.clone(),
            tensors(0),
            "`config.json`: missing key `architectures`; matching tensor names: 21 of 21 in `dream`, 21 of 21 in `llama`, 21 of 21 in `qwen2`",
        );
    }
}

#[test]
fn class_as_string_is_accepted() {
    let mut single = config();
    single["architectures"] = json!("LlamaForCausalLM");
    assert_eq!(resolve(single.clone(), tensors(0)).unwrap().architecture, "llama");
    single["architectures"] = json!("LamaForCausalLM");
    let error = resolve(single, tensors(0)).unwrap_err().to_string();
    assert!(error.starts_with("unknown architecture `LamaForCausalLM`"), "{error}");
}

#[test]
fn missing_keys_are_named() {
    for key in ["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size"]
    {
        let mut less = config();
        less.as_object_mut().unwrap().remove(key);
        refused(less.clone(), tensors(0), &format!("`config.json`: missing key `{key}`"));
        less[key] = Json::Null;
        refused(less, tensors(0), &format!("`config.json`: missing key `{key}`"));
    }
    // Without `model_type`, transformers has no defaults to give.
    let mut bare = config();
    bare.as_object_mut().unwrap().remove("model_type");
    bare.as_object_mut().unwrap().remove("num_key_value_heads");
    refused(bare, tensors(0), "`config.json`: missing key `num_key_value_heads`");
}

#[test]
fn values_of_the_wrong_type_are_named() {
    for (key, value, message) in [
        (
            "hidden_size",
            json!(-1),
            "`config.json`: key `hidden_size`: expected an integer from 0 to 2^32 - 1, found -1",
        ),
        (
            "hidden_size",
            json!("64"),
            "`config.json`: key `hidden_size`: expected an integer from 0 to 2^32 - 1, found \"64\"",
        ),
        (
            "vocab_size",
            json!(4_294_967_296_u64),
            "`config.json`: key `vocab_size`: expected an integer from 0 to 2^32 - 1, found 4294967296",
        ),
        (
            "num_hidden_layers",
            json!(2.5),
            "`config.json`: key `num_hidden_layers`: expected an integer of 0 or more, found 2.5",
        ),
        (
            "rms_norm_eps",
            json!(1e300),
            "`config.json`: key `rms_norm_eps`: expected a number within single precision, found 1e+300",
        ),
        (
            "scoring_func",
            json!("tanh"),
            "`config.json`: key `scoring_func`: expected softmax, sigmoid or sqrtsoftplus, found \"tanh\"",
        ),
        (
            "rope_scaling",
            json!("yarn"),
            "`config.json`: key `rope_scaling`: expected an object, found \"yarn\"",
        ),
    ] {
        let mut bad = config();
        bad[key] = value;
        refused(bad, tensors(0), message);
    }
    refused(
        json!([]),
        tensors(0),
        "`config.json`: missing key `architectures`; matching tensor names: 21 of 21 in `dream`, 21 of 21 in `llama`, 21 of 21 in `qwen2`",
    );
}

#[test]
fn invalid_config_numbers_are_refused() {
    for (key, value, message) in [
        (
            "rope_theta",
            json!(-1.0),
            "metadata key `llama.rope.freq_base`: expected a number above 0, found -1",
        ),
        ("rope_theta", json!(0), "metadata key `llama.rope.freq_base`: expected a number above 0, found 0"),
        (
            "rms_norm_eps",
            json!(-1e-5),
            "metadata key `llama.attention.layer_norm_rms_epsilon`: expected 0 or a number above 0, found -0.00001",
        ),
    ] {
        let mut bad = config();
        bad[key] = value;
        refused(bad, tensors(0), message);
    }
    let mut none = config();
    none["rms_norm_eps"] = json!(0.0);
    assert!(resolve(none, tensors(0)).is_ok());
}

#[test]
fn quantized_checkpoints_are_refused() {
    // A method that one architecture handles is refused by another.
    for method in ["awq", "fp8", "mxfp4"] {
        let mut quantized = config();
        quantized["quantization_config"] = json!({"quant_method": method, "bits": 4});
        let message = format!("`config.json`: weights quantized by `{method}` are not supported");
        refused(quantized, tensors(0), &message);
    }
}

/// A model of one layer whose experts are quantized in `config` and in its tensors.
fn gpt_oss() -> (Json, Vec<SourceTensor>) {
    let config = json!({
        "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": 64,
        "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "num_local_experts": 3, "vocab_size": 384,
        "quantization_config": {"quant_method": "mxfp4"}
    });
    let mut tensors = vec![
        tensor("lm_head.weight", &[64, 384]),
        tensor("model.embed_tokens.weight", &[64, 384]),
        tensor("model.norm.weight", &[64]),
    ];
    for (name, dims) in [
        ("input_layernorm.weight", &[64][..]),
        ("post_attention_layernorm.weight", &[64]),
        ("self_attn.q_proj.weight", &[64, 64]),
        ("self_attn.k_proj.weight", &[64, 32]),
        ("self_attn.v_proj.weight", &[64, 32]),
        ("self_attn.o_proj.weight", &[64, 64]),
        ("self_attn.sinks", &[4]),
        ("mlp.router.weight", &[64, 3]),
        ("mlp.experts.down_proj_bias", &[64, 3]),
        ("mlp.experts.down_proj_blocks", &[32, 64, 3]),
        ("mlp.experts.gate_up_proj_bias", &[64, 3]),
        ("mlp.experts.gate_up_proj_blocks", &[64, 64, 3]),
    ] {
        tensors.push(tensor(&format!("model.layers.0.{name}"), dims));
    }
    (config, tensors)
}

#[test]
fn kept_blocks_come_first_with_scales() {
    let (config, tensors) = gpt_oss();
    let kept = |scale: f32| gguf_types::StoredBlocks {
        dtype: gguf_types::DType::MXFP4,
        scales: vec![scale],
        input_scales: vec![1.0],
        wide_activations: false,
    };
    let experts = |name: &str| format!("model.layers.0.mlp.experts.{name}_proj_blocks");
    let input = Input {
        stored_blocks: [(experts("down"), kept(1.0)), (experts("gate_up"), kept(0.5))].into(),
        config: config.clone(),
        tensors: tensors.clone(),
        ..Input::default()
    };
    let layout = gguf_layout::resolve_weights(&input, &Options::new(gguf_models::FAMILIES)).unwrap();
    let of_gate = layout.tensors.iter().find(|tensor| tensor.name == "blk.0.ffn_gate_exps.scale").unwrap();
    assert_eq!(of_gate.data, gguf_layout::Data::Computed(vec![0.5; 3]));
    assert_eq!(layout.packed_file_type, Some((38, "MXFP4_MOE")));
    let names: Vec<&str> = layout.tensors.iter().take(6).map(|tensor| tensor.name.as_str()).collect();
    let packed = [
        "blk.0.ffn_down_exps.weight",
        "blk.0.ffn_gate_exps.weight",
        "blk.0.ffn_gate_exps.scale",
        "blk.0.ffn_up_exps.weight",
        "blk.0.ffn_up_exps.scale",
        "output.weight",
    ];
    assert_eq!(names, packed);
    assert_eq!(layout.tensors[1].shape.dims(), [64, 32, 3]);

    let mut other = config;
    other["quantization_config"]["quant_method"] = json!("fp8");
    refused(other, tensors, "`config.json`: weights quantized by `fp8` are not supported");
}

#[test]
fn missing_tensors_are_listed() {
    for name in ["model.embed_tokens.weight", "model.norm.weight", "model.layers.1.self_attn.k_proj.weight"] {
        refused(config(), without(name, tensors(0)), &format!("1 missing tensor: `{name}`"));
    }
    let name = "model.layers.1.block_sparse_moe.experts.1.w3.weight";
    let error = resolve(mixtral(), without(name, tensors(2))).unwrap_err();
    let ArchError::MissingTensors { names } = &error else { panic!("{error}") };
    assert_eq!(names, &[name]);
    assert!(error.hint().unwrap().to_string().contains("shard"));
    // An output that is tied to the embedding may be absent.
    assert!(resolve(config(), without("lm_head.weight", tensors(0))).is_ok());
    // A million layers that are not there take no memory.
    let mut deep = config();
    deep["num_hidden_layers"] = json!(4_000_000_000_u64);
    assert!(matches!(resolve(deep, tensors(0)), Err(ArchError::MissingTensors { .. })));
    let mut wide = mixtral();
    wide["num_local_experts"] = json!(4_000_000_000_u64);
    assert!(matches!(resolve(wide, tensors(2)), Err(ArchError::MissingTensors { .. })));
}

#[test]
fn leftover_tensors_are_listed() {
    let mut more = tensors(0);
    let names = [
        "model.layers.2.self_attn.q_proj.weight",
        "model.layers.0.self_attn.q_norm.weight",
        "score.weight",
        "lm_head.scale",
    ];
    more.extend(names.map(|name| tensor(name, &[64, 64])));
    let ArchError::UnusedTensors { names: found, .. } = resolve(config(), more).unwrap_err() else {
        panic!()
    };
    assert_eq!(found, names);
    // Experts beyond the number that the config states.
    let ArchError::UnusedTensors { names: found, .. } = resolve(mixtral(), tensors(3)).unwrap_err() else {
        panic!()
    };
    assert_eq!(found.len(), 2 * 3);
}

#[test]
fn dropped_tensors_have_reasons() {
    let mut more = tensors(0);
    more.push(tensor("model.layers.0.self_attn.rotary_emb.inv_freq", &[8]));
    more.push(tensor("model.vision_tower.x.weight", &[8]));
    let layout = resolve(config(), more).unwrap();
    assert_eq!(layout.tensors.len(), tensors(0).len());
    let reasons: Vec<&str> = layout.dropped.iter().map(|dropped| dropped.reason).collect();
    assert_eq!(
        reasons,
        ["rotary frequencies are computed from the config", "part of an image, sound or speech model"]
    );
}

#[test]
fn shapes_that_contradict_the_config_are_named() {
    let mut odd = tensors(0);
    odd.iter_mut().find(|tensor| tensor.name == "model.layers.0.self_attn.q_proj.weight").unwrap().shape =
        Shape::new(&[64, 60]).unwrap();
    refused(
        config(),
        odd,
        "tensor `model.layers.0.self_attn.q_proj.weight`: expected a number of rows divisible by 8 (4 heads with two halves each), found shape [64, 60]",
    );
    let mut none = config();
    none["num_key_value_heads"] = json!(0);
    assert!(matches!(resolve(none, tensors(0)), Err(ArchError::TensorShape { .. })));
    // Twice the number of heads exceeds 64 bits.
    let mut many = config();
    many["num_key_value_heads"] = json!(1_u64 << 63);
    refused(
        many,
        tensors(0),
        "tensor `model.layers.0.self_attn.k_proj.weight`: expected a number of rows divisible by 18446744073709551616 \
         (9223372036854775808 heads with two halves each), found shape [64, 32]",
    );
    let mut uneven = tensors(2);
    uneven
        .iter_mut()
        .find(|tensor| tensor.name == "model.layers.1.block_sparse_moe.experts.1.w2.weight")
        .unwrap()
        .shape = Shape::new(&[96, 32]).unwrap();
    refused(
        mixtral(),
        uneven,
        "tensor `model.layers.1.block_sparse_moe.experts.1.w2.weight`: expected [96, 64] as of \
         `model.layers.1.block_sparse_moe.experts.0.w2.weight`, found shape [96, 32]",
    );
}

#[test]
fn output_has_one_source() {
    let mut twice = tensors(0);
    twice.push(tensor("model.norm.weight", &[64]));
    refused(
        config(),
        twice,
        "tensors `model.norm.weight` and `model.norm.weight` both become `output_norm.weight`",
    );
}

#[test]
fn inner_model_names_have_no_prefix() {
    let mut inner = config();
    inner["architectures"] = json!(["LlamaModel"]);
    let tensors: Vec<SourceTensor> = without("lm_head.weight", tensors(0))
        .into_iter()
        .map(|tensor| SourceTensor { name: tensor.name.replacen("model.", "", 1), ..tensor })
        .collect();
    let layout = resolve(inner.clone(), tensors.clone()).unwrap();
    assert_eq!(layout.tensors.len(), tensors.len());
    let q = layout.tensors.iter().find(|tensor| tensor.name == "blk.1.attn_q.weight").unwrap();
    assert_eq!(
        q.data,
        Data::Rows {
            sources: vec!["layers.1.self_attn.q_proj.weight".into()],
            rows: RowMap::RopePermute { n_head: 4 },
            element: gguf_layout::ElementMap::Identity
        }
    );
    refused(inner, without("norm.weight", tensors), "1 missing tensor: `norm.weight`");
}

#[test]
fn inner_classes_are_recognized_by_suffix() {
    let mut inner = config();
    inner["model_type"] = json!("gemma");
    inner["architectures"] = json!(["GemmaModel"]);
    let tensors: Vec<SourceTensor> = without("lm_head.weight", tensors(0))
        .into_iter()
        .map(|tensor| SourceTensor { name: tensor.name.replacen("model.", "", 1), ..tensor })
        .collect();
    let layout = resolve(inner.clone(), tensors.clone()).unwrap();
    assert_eq!(layout.architecture, "gemma");
    assert_eq!(layout.tensors.len(), tensors.len());
    let note = "`GemmaModel` is read as the inner model of `GemmaForCausalLM`";
    assert!(layout.notes.iter().any(|have| have == note), "{:?}", layout.notes);
    // Only what is left of the ending counts, and only where the table has such an inner part.
    for class in ["GemmModel", "GemmaMode", "GPT2Model"] {
        inner["architectures"] = json!([class]);
        assert!(resolve(inner.clone(), tensors.clone()).is_err(), "{class}");
    }
}

#[test]
fn unstorable_config_values_are_noted() {
    let notes = |config: &Json, tensors| resolve(config.clone(), tensors).unwrap().notes;
    assert_eq!(notes(&config(), tensors(0)), [""; 0]);
    assert!(
        notes(&config(), without("lm_head.weight", tensors(0)))[0].contains("`tie_word_embeddings` is false")
    );
    let mut tied = config();
    tied["tie_word_embeddings"] = json!(true);
    assert_eq!(notes(&tied, without("lm_head.weight", tensors(0))), [""; 0]);
    let mut dynamic = config();
    dynamic["rope_scaling"] = json!({"type": "dynamic", "factor": 2.0});
    assert!(notes(&dynamic, tensors(0))[0].contains("`dynamic`"));
    let mut odd = config();
    odd["rms_norm_eps"] = json!(1);
    assert!(notes(&odd, tensors(0))[0].contains("used without defaults"));
}

#[test]
fn invalid_rotary_width_allocates_nothing() {
    let mut wide = config();
    wide["head_dim"] = json!(1_u64 << 40);
    wide["rope_scaling"] =
        json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0});
    refused(wide, tensors(0), "`config.json`: key `head_dim`: expected at most 65536, found 1099511627776");
}

#[test]
fn text_config_is_part_of_config() {
    let mut text = config();
    text.as_object_mut().unwrap().remove("architectures");
    let outer = json!({"architectures": ["LlamaForCausalLM"], "model_type": "some-vision-model", "text_config": text});
    let layout = resolve(outer, tensors(0)).unwrap();
    assert!(layout.metadata.iter().any(|(key, _)| key == "llama.embedding_length"));
    assert_eq!(layout.notes.len(), 1, "{:?}", layout.notes);
}

#[test]
fn products_of_other_sizes_are_refused() {
    let folder = gguf_testkit::checkpoint("pockettts");
    let checkpoint =
        gguf_checkpoint::open(gguf_checkpoint::Folder::from(&folder).forms(gguf_models::FORMS)).unwrap();
    for (name, dims, message) in [
        ("flow_lm.bos_emb", &[31][..], "tensor `flow_lm.bos_emb`: expected 32 elements, found shape [31]"),
        (
            "flow_lm.bos_before_voice",
            &[127, 1, 1],
            "tensor `flow_lm.bos_before_voice`: expected rows of 128 elements, found shape [127, 1, 1]",
        ),
        (
            "flow_lm.input_linear.weight",
            &[32],
            "tensor `flow_lm.input_linear.weight`: expected a matrix, found shape [32]",
        ),
    ] {
        let mut input = crate::golden::input(&checkpoint);
        let wrong = input.tensors.iter_mut().find(|tensor| tensor.name == name).unwrap();
        wrong.shape = Shape::new(dims).unwrap();
        let error = gguf_layout::resolve_weights(&input, &Options::new(gguf_models::FAMILIES)).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn odd_and_absurd_widths_of_positions_are_refused() {
    let projector = gguf_models::PROJECTORS.iter().find(|row| row.name == "qwen2.5omni").unwrap();
    let hparams = |config: Json| Hparams::load(&config, None).unwrap();
    let computed = |width: u64| {
        (projector.computed)(&Towers {
            whole: hparams(json!({})),
            is_taken: true,
            text: hparams(json!({})),
            vision: None,
            audio: Some(hparams(json!({"hidden_size": width}))),
            preprocessor: hparams(json!({})),
            added_tokens: Vec::new(),
            folder_name: String::new(),
            shapes: Vec::new(),
        })
    };
    assert!(computed(4).is_ok());
    for width in [0, 2, 5, u64::MAX - 1] {
        let error = computed(width).unwrap_err().to_string();
        assert!(error.contains("an even number from 4 to 16384"), "{width}: {error}");
    }
}
