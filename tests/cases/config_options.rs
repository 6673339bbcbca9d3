//! Options of a config that change what a model computes: written to the key that llama.cpp reads, or noted.

use serde_json::{Value as Json, json};

use crate::common::{Output, Sandbox, succeed};

/// Converts a golden checkpoint after changing its config, to `out.gguf`.
fn convert(golden: &str, changes: &[(&str, Json)]) -> (Sandbox, Output) {
    let sandbox = Sandbox::with_golden(golden);
    sandbox.edit_json(&format!("{golden}/config.json"), |config| {
        for (pointer, value) in changes {
            let (outer, key) = pointer.rsplit_once('/').unwrap();
            let outer = config.pointer_mut(outer).unwrap().as_object_mut().unwrap();
            if value.is_null() {
                drop(outer.remove(key))
            } else {
                drop(outer.insert(key.to_owned(), value.clone()))
            }
        }
    });
    let ran = sandbox.convert(&[golden, "out.gguf", "--type", "bf16"]);
    (sandbox, ran)
}

/// The lines of stderr that name options.
fn option_notes(ran: &Output) -> Vec<&str> {
    ran.stderr
        .lines()
        .filter(|line| line.contains("config option") || line.contains("context length"))
        .collect()
}

/// A metadata key of `out.gguf`, null if missing.
fn key(sandbox: &Sandbox, key: &str) -> Json {
    let json = succeed(sandbox.inspect(&["show", "out.gguf", "--json"])).json();
    json["metadata"][key]["value"].clone()
}

fn kinds(slides: &[bool]) -> Json {
    slides.iter().map(|slides| if *slides { "sliding_attention" } else { "full_attention" }).collect()
}

#[test]
fn sliding_layers_outside_pattern_are_listed() {
    // Checkpoint, key, the layers that llama.cpp assumes (`load_swa_pattern`), other layers.
    let cases: &[(&str, &str, &[bool], &[bool])] = &[
        ("gemma2", "gemma2", &[true, false], &[false, true]),
        ("gpt-oss", "gpt-oss", &[true, false], &[true, true]),
        ("cohere2", "cohere2", &[true, true, true, false], &[true, false, true, true]),
    ];
    for (golden, arch, assumed, other) in cases {
        for (layers, written) in [(assumed, Json::Null), (other, json!(other))] {
            let (sandbox, ran) = convert(golden, &[("/layer_types", kinds(layers))]);
            succeed(ran);
            let pattern = key(&sandbox, &format!("{arch}.attention.sliding_window_pattern"));
            assert_eq!(pattern, written, "{golden}");
        }
    }
}

#[test]
fn layer_types_of_another_length_are_refused() {
    let (_, ran) = convert("gemma2", &[("/layer_types", kinds(&[true, false, true]))]);
    ran.ends_and_says(1, "layer_types");
}

#[test]
fn options_without_a_key_are_warned_about() {
    let zeros = json!([0, 0]);
    // The second group: constants of llama.cpp's graphs, with values at which logits of transformers 5.24 differ.
    let cases: &[(&str, &str, Json)] = &[
        ("qwen3moe", "/norm_topk_prob", json!(false)),
        ("qwen2moe", "/norm_topk_prob", json!(true)),
        ("olmoe", "/norm_topk_prob", json!(true)),
        ("llada-moe", "/norm_topk_prob", json!(true)),
        ("deepseek", "/norm_topk_prob", json!(true)),
        ("kimi-linear", "/moe_renormalize", json!(false)),
        ("smollm3", "/no_rope_layers", zeros),
        ("mpt", "/attn_config/softmax_scale", json!(0.2)),
        ("phi3", "/sliding_window", json!(16)),
        ("gemma2", "/query_pre_attn_scalar", json!(100)),
        ("llama-yarn", "/rope_parameters/truncate", json!(false)),
        ("afmoe", "/mup_enabled", json!(false)),
        ("falcon-rw", "/alibi", json!(true)),
        ("t5", "/relative_attention_max_distance", json!(20)),
        ("t5-encoder", "/relative_attention_max_distance", json!(20)),
        ("umt5-encoder", "/relative_attention_max_distance", json!(20)),
        ("minicpm3", "/dim_model_base", json!(40)),
        ("minicpm3", "/scale_emb", json!(6)),
        ("dbrx", "/ffn_config/moe_normalize_expert_weights", json!(2.0)),
        ("deepseek2", "/norm_topk_prob", json!(true)),
        ("nemotron-h", "/time_step_min", json!(0.1)),
        ("qwen3vl", "/text_config/rope_parameters/mrope_section", json!([4, 0, 0])),
    ];
    for (golden, option, value) in cases {
        let (_, ran) = convert(golden, &[(option, value.clone())]);
        let notes = option_notes(&ran);
        let name = option.strip_prefix('/').unwrap().replace("text_config/", "").replace('/', ".");
        let is_named =
            notes.iter().any(|note| note.starts_with(&format!("warning: config option `{name}` is ")));
        assert!(ran.code == Some(0) && is_named, "{golden}: {}", ran.stderr);
    }
}

/// A checkpoint, changes of its config, and a key with its value.
type Case<'a> = (&'a str, &'a [(&'a str, Json)], &'a str, Json);

#[test]
fn options_with_a_key_are_written() {
    // Values of llama.cpp's keys (src/models, load_hparams) that give the logits of transformers 5.24.
    let cases: &[Case<'_>] = &[
        (
            "falcon",
            &[("/rope_parameters/rope_theta", json!(500_042.0))],
            "falcon.rope.freq_base",
            json!(500_042.0),
        ),
        ("gptneox", &[("/rope_parameters/rope_theta", json!(1e6))], "gptneox.rope.freq_base", json!(1e6)),
        (
            "gptneox",
            &[("/rope_parameters/rope_type", json!("linear")), ("/rope_parameters/factor", json!(4.0))],
            "gptneox.rope.scaling.factor",
            json!(4.0),
        ),
        (
            "granitehybrid",
            &[("/position_embedding_type", json!("rope"))],
            "granitehybrid.rope.scaling.finetuned",
            json!(true),
        ),
        (
            "granitehybrid",
            &[("/position_embedding_type", json!("rope"))],
            "granitehybrid.context_length",
            json!(512),
        ),
        (
            "granitehybrid",
            &[("/position_embedding_type", json!("nope"))],
            "granitehybrid.context_length",
            json!(1 << 20),
        ),
        (
            "granite4-dense",
            &[("/position_embedding_type", json!("rope"))],
            "granite.rope.scaling.finetuned",
            json!(true),
        ),
    ];
    for (golden, changes, name, value) in cases {
        let (sandbox, ran) = convert(golden, changes);
        let ran = succeed(ran);
        assert_eq!(key(&sandbox, name), *value, "{golden}: {}", ran.stderr);
        assert_eq!(
            option_notes(&ran).iter().filter(|note| note.starts_with("warning")).count(),
            0,
            "{golden}"
        );
    }
}

#[test]
fn usual_options_are_not_noted() {
    let untouched = ["smollm3", "mpt", "phi3", "gemma2", "llama-yarn", "gpt-oss", "llama4"];
    let cases = untouched.iter().map(|golden| (*golden, Vec::new())).chain([
        ("qwen3moe", vec![("/norm_topk_prob", json!(true))]),
        ("qwen2moe", vec![("/norm_topk_prob", json!(false))]),
        ("olmoe", vec![("/norm_topk_prob", json!(false))]),
        ("llada-moe", vec![("/norm_topk_prob", json!(false))]),
        ("kimi-linear", vec![("/moe_renormalize", json!(true))]),
    ]);
    for (golden, changes) in cases {
        let (_, ran) = convert(golden, &changes);
        assert_eq!(option_notes(&succeed(ran)), [""; 0], "{golden}");
    }
    // A window as long as the context changes nothing.
    let (_, ran) = convert("phi3", &[("/sliding_window", json!(512))]);
    assert_eq!(option_notes(&succeed(ran)), [""; 0]);
}

#[test]
fn width_as_context_length_is_noted() {
    let (sandbox, ran) = convert("glm", &[]);
    assert_eq!(option_notes(&succeed(ran)), [""; 0]);
    assert_eq!(key(&sandbox, "chatglm.context_length"), json!(512));
    // Half of `head_dim` 8; the width has 4 for each head.
    assert_eq!(key(&sandbox, "chatglm.rope.dimension_count"), json!(4));
    let (_, ran) = convert("bloom", &[("/seq_length", Json::Null)]);
    assert_eq!(option_notes(&ran).len(), 1, "{}", ran.stderr);
}

#[test]
fn hunyuan_moe_scales_its_base_by_head_dim() {
    let rope = json!({"rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 1000.0, "factor": 1.0});
    let changes =
        [("/rope_parameters", rope), ("/max_position_embeddings", json!(32768)), ("/head_dim", json!(20))];
    let (sandbox, ran) = convert("hunyuan-moe", &changes);
    succeed(ran);
    // 1e4 * 1000^(20/18)
    assert_eq!(key(&sandbox, "hunyuan-moe.rope.freq_base").as_f64(), Some(21_544_346.0));
}

#[test]
fn modern_bert_has_epsilon_for_llama_cpp() {
    let (sandbox, ran) = convert("modern-bert", &[]);
    succeed(ran);
    let epsilon = key(&sandbox, "modern-bert.attention.layer_norm_epsilon");
    assert!(epsilon.as_f64().is_some_and(|epsilon| (epsilon - 1e-5).abs() < 1e-9), "{epsilon}");
}

#[test]
fn yarn_magnitude_uses_llama_cpp_key() {
    let scaling = |arch: &str, sandbox: &Sandbox| {
        ["attn_factor", "yarn_attn_factor"].map(|name| key(sandbox, &format!("{arch}.rope.scaling.{name}")))
    };
    let is_close =
        |value: &Json, expected: f64| value.as_f64().is_some_and(|value| (value - expected).abs() < 1e-6);
    // 0.77 / (1 + 0.1 ln 4)
    let (sandbox, ran) = convert("llama-yarn", &[("/rope_parameters/attention_factor", json!(0.77))]);
    succeed(ran);
    let [read, stated] = scaling("llama", &sandbox);
    assert!(is_close(&read, 0.676_252) && stated.is_null(), "{read} {stated}");
    // A value that llama.cpp uses anyway keeps the reference's keys.
    let usual = json!(1.0 + 0.1 * 4f64.ln());
    let (sandbox, ran) = convert("llama-yarn", &[("/rope_parameters/attention_factor", usual.clone())]);
    succeed(ran);
    let [read, stated] = scaling("llama", &sandbox);
    assert!(read.is_null() && is_close(&stated, usual.as_f64().unwrap()), "{read} {stated}");
    // mscale(4, 0.5) / mscale(4, 2) / mscale(4, 1)
    let changes = [
        ("/rope_parameters/attention_factor", Json::Null),
        ("/rope_parameters/mscale", json!(0.5)),
        ("/rope_parameters/mscale_all_dim", json!(2.0)),
    ];
    let (sandbox, ran) = convert("llama-yarn", &changes);
    succeed(ran);
    assert!(is_close(&scaling("llama", &sandbox)[0], 0.735_265_5), "{}", scaling("llama", &sandbox)[0]);
    // Latent attention has no key for it.
    let (_, ran) = convert("deepseek2", &[("/rope_parameters/attention_factor", json!(0.8))]);
    assert!(
        ran.code == Some(0) && ran.stderr.contains("scales rotation by 0.800000 and scores"),
        "{}",
        ran.stderr
    );
}

#[test]
fn ignored_yarn_ranges_are_noted() {
    let (_, ran) = convert("llama-yarn", &[("/rope_parameters/beta_fast", json!(16.0))]);
    assert_eq!(option_notes(&ran).len(), 1, "{}", ran.stderr);
    let (_, ran) = convert("ministral3-text", &[("/rope_parameters/beta_fast", json!(16.0))]);
    assert_eq!(option_notes(&succeed(ran)), [""; 0]);
}
