//! A checkpoint of many experts: rows of the table are found by one look-up a tensor. Trying row after row instead takes many
//! minutes.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use gguf_layout::{ArchError, Input, Options, SourceTensor};
use gguf_types::Shape;
use serde_json::json;

/// Layers, and experts of each: as many tensors as the largest published mixtures have.
const N_LAYERS: u64 = 62;
const N_EXPERTS: u64 = 540;

fn input(class: &str) -> Input<'static> {
    let shape = Shape::new(&[8, 8]).unwrap();
    let mut names: Vec<String> = ["model.embed_tokens", "model.norm", "lm_head"].map(str::to_owned).into();
    for layer in 0..N_LAYERS {
        let parts = ["input_layernorm", "post_attention_layernorm", "block_sparse_moe.gate"];
        let attention = ["q_proj", "k_proj", "v_proj", "o_proj"].map(|name| format!("self_attn.{name}"));
        let experts = (0..N_EXPERTS).flat_map(|expert| {
            ["w1", "w2", "w3"].map(|name| format!("block_sparse_moe.experts.{expert}.{name}"))
        });
        let all = parts.map(str::to_owned).into_iter().chain(attention).chain(experts);
        names.extend(all.map(|name| format!("model.layers.{layer}.{name}")));
    }
    Input {
        config: json!({
            "architectures": [class], "model_type": "mixtral", "hidden_size": 8, "intermediate_size": 8,
            "num_hidden_layers": N_LAYERS, "num_attention_heads": 2, "num_key_value_heads": 2,
            "num_local_experts": N_EXPERTS, "vocab_size": 8
        }),
        tensors: names
            .into_iter()
            .map(|name| SourceTensor { name: name + ".weight", shape, folded: None })
            .collect(),
        ..Input::default()
    }
}

#[test]
fn hundred_thousand_tensors_resolve() {
    let input = input("MixtralForCausalLM");
    assert!(input.tensors.len() > 100_000);
    let layout = gguf_layout::resolve_weights(&input, &Options::new(gguf_models::FAMILIES)).unwrap();
    assert_eq!(layout.tensors.len() as u64, 3 + N_LAYERS * (7 + 3));
}

#[test]
fn nearest_architectures_of_many_tensors_are_found() {
    let input = input("MartianForCausalLM");
    let Err(ArchError::UnknownClass { by_tensors, n_tensors, .. }) =
        gguf_layout::resolve_weights(&input, &Options::new(gguf_models::FAMILIES))
    else {
        panic!("expected an unknown class")
    };
    assert_eq!(by_tensors[0], ("llama", n_tensors));
}
