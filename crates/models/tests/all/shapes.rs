//! Facts that follow from the shapes of tensors: configs of checkpoints without one, and the orientation of experts.

use gguf_layout::{Hparams, SourceTensor};
use gguf_types::Shape;
use serde_json::{Value as Json, json};

/// The config of the form that these tensors have.
fn config(tensors: &[(&str, &[u64])]) -> Option<Json> {
    gguf_models::FORMS.iter().filter_map(|form| form.config).find_map(|config| config(tensors))
}

#[test]
fn config_of_speech_needs_complete_tensors() {
    const TENSORS: &[(&str, &[u64])] = &[
        ("flow_lm.bos_emb", &[32]),
        ("flow_lm.conditioner.embed.weight", &[160, 128]),
        ("flow_lm.transformer.layers.0.linear1.weight", &[192, 128]),
        ("flow_lm.transformer.layers.0.norm1.weight", &[128]),
        ("mimi.encoder_transformer.transformer.layers.0.linear1.weight", &[96, 64]),
        ("mimi.encoder_transformer.transformer.layers.0.norm1.weight", &[64]),
    ];
    let whole = config(TENSORS).unwrap();
    assert_eq!(
        [&whole["vocab_size"], &whole["num_attention_heads"], &whole["num_hidden_layers"]],
        [161, 2, 1]
    );
    // Layers are counted by a tensor that a damaged checkpoint may lack.
    for absent in [0, 1, 2, 4, 5] {
        let less: Vec<_> =
            TENSORS.iter().enumerate().filter(|(at, _)| *at != absent).map(|(_, t)| *t).collect();
        assert_eq!(config(&less), None, "{}", TENSORS[absent].0);
    }
    // A size that does not fit, and a matrix of one dimension.
    for rows in [&[u64::MAX, 128][..], &[160]] {
        let mut wrong = TENSORS.to_vec();
        wrong[1].1 = rows;
        assert_eq!(config(&wrong), None);
    }
}

const ENCODER: &[(&str, &[u64])] = &[
    ("shared.weight", &[160, 32]),
    ("encoder.block.0.layer.0.SelfAttention.q.weight", &[24, 32]),
    ("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", &[32, 3]),
    ("encoder.block.0.layer.1.DenseReluDense.wi_0.weight", &[64, 32]),
    ("encoder.block.0.layer.1.DenseReluDense.wo.weight", &[32, 64]),
    ("encoder.block.1.layer.0.SelfAttention.q.weight", &[24, 32]),
];

#[test]
fn sizes_of_encoders_are_those_of_tensors() {
    let found = config(ENCODER).expect("an encoder");
    for (key, value) in [("d_kv", 8), ("num_heads", 3), ("num_layers", 2), ("d_ff", 64), ("vocab_size", 160)]
    {
        assert_eq!(found[key], value, "{key}");
    }
    assert_eq!((&found["model_type"], &found["feed_forward_proj"]), (&json!("t5"), &json!("gated-gelu")));
    let second = ("encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight", &[32, 3][..]);
    let umt5 = config(&[ENCODER, &[second]].concat()).expect("an encoder");
    assert_eq!(umt5["architectures"], json!(["UMT5EncoderModel"]));
}

#[test]
fn other_models_are_no_encoders() {
    for index in 0..ENCODER.len() - 1 {
        let without: Vec<_> =
            ENCODER.iter().enumerate().filter(|(at, _)| *at != index).map(|(_, row)| *row).collect();
        // Without a gate it is the original T5.
        assert_eq!(config(&without).is_some(), index == 3, "{index}");
    }
    let heads = ("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", &[32, 0][..]);
    assert_eq!(config(&[&[heads], ENCODER].concat()), None);
}

#[test]
fn expert_layout_follows_from_matrices_that_are_not_square() {
    let prepare = gguf_models::ARCHES.iter().find(|arch| arch.name == "qwen3vlmoe").unwrap().prepare;
    for (width, n_ff, gate_up, down) in [
        // Row length first: (in, out).
        (32, 24, [32, 48], [24, 32]),
        (2048, 768, [2048, 1536], [768, 2048]),
        // One of the two is square.
        (48, 24, [48, 48], [24, 48]),
        (24, 24, [24, 48], [24, 24]),
    ] {
        let config = json!({"hidden_size": width, "moe_intermediate_size": n_ff});
        let hparams = Hparams::load(&config, None).unwrap();
        let tensor = |name: &str, [n_in, n_out]: [u64; 2]| SourceTensor {
            name: format!("model.language_model.layers.0.mlp.experts.{name}"),
            shape: Shape::new(&[n_in, n_out, 3]).unwrap(),
            folded: None,
        };
        let is_out_in = |turn: fn([u64; 2]) -> [u64; 2]| {
            let tensors = [tensor("gate_up_proj", turn(gate_up)), tensor("down_proj", turn(down))];
            prepare(hparams.clone(), &tensors).unwrap().is_true("experts_out_in")
        };
        assert!(is_out_in(|dims| dims), "{width} {n_ff}");
        assert!(!is_out_in(|[n_in, n_out]| [n_out, n_in]), "{width} {n_ff}");
    }
}
