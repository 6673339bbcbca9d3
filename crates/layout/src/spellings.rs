//! Names of one tensor in different releases.
//!
//! The classes of a model (`ForCausalLM`, `ForConditionalGeneration`) and the versions of transformers put different parts
//! before the same module, and adapters are saved under the names of the class that was trained:
//!
//! ```text
//! model.layers.0.self_attn.q_proj.weight                      shared name:
//! language_model.model.layers.0.self_attn.q_proj.weight         layers.0.self_attn.q_proj.weight
//! model.language_model.layers.0.self_attn.q_proj.weight
//! vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight   shared name:
//! model.vision_tower.encoder.layers.0.mlp.fc1.weight            vision_tower.encoder.layers.0.mlp.fc1.weight
//! ```
//!
//! Source: `conversion_mapping.py` of transformers 5.24.

use std::collections::HashMap;

/// Parts that may stand before the modules of a text model.
const LEADING: &[&str] = &[
    "model",
    "language_model",
    "text_model",
    "transformer",
    "backbone",
    "thinker",
    "llm",
    "ernie",
    "base_model",
    "module",
];
/// Parts that wrappers (torch.compile, FSDP, activation checkpointing) insert anywhere.
const WRAPPERS: &[&str] = &["_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"];
/// Towers, whose own model some releases name inside them.
const TOWERS: &[&str] = &["vision_tower", "vision_model", "audio_tower", "audio_model"];
const INSIDE_TOWERS: &[&str] = &["vision_model", "audio_model", "model"];
/// Modules around others that only transformers 5 has.
const INSERTED: &[&str] = &["multimodal_embedder", "forget_gate"];
/// Modules with two names: (in some checkpoints, in transformers 5).
const RENAMED: &[[&str; 2]] = &[
    ["block_sparse_moe", "mlp"],
    ["embed_out", "lm_head"],
    ["router", "gate"],
    ["shared_expert", "shared_experts"],
    ["shared_mlp", "shared_experts"],
    ["g_proj", "gate_proj"],
    ["vit", "vision_tower"],
    ["vision_embedder", "embed_vision"],
    ["mlp_AR", "projector"],
    ["dense_h_to_4h", "fc1"],
    ["dense_4h_to_h", "fc2"],
    ["perceive", "patch_merger"],
];
/// Prefixes that checkpoints and tables add to shared names.
const PREFIXES: &[&str] = &[
    "model.",
    "",
    "language_model.model.",
    "model.language_model.",
    "transformer.",
    "backbone.",
    "thinker.model.",
];

/// The part of a tensor name that all releases of a model have in common.
///
/// ```
/// let name = "language_model.model.layers.3.mlp.up_proj.weight";
/// assert_eq!(gguf_layout::shared_name(name), "layers.3.mlp.up_proj.weight");
/// ```
pub fn shared_name(name: &str) -> String {
    let mut parts = name.split('.').filter(|part| !WRAPPERS.contains(part)).peekable();
    while parts.next_if(|part| LEADING.contains(part)).is_some() {}
    let mut shared: Vec<&str> = Vec::new();
    if let Some(tower) = parts.next_if(|part| TOWERS.contains(part)) {
        shared.push(tower);
        while parts.next_if(|part| INSIDE_TOWERS.contains(part)).is_some() {}
    }
    shared.extend(parts.filter(|part| !INSERTED.contains(part)).map(|part| {
        let renamed = RENAMED.iter().find(|[from, _]| *from == part);
        renamed.map_or(part, |[_, to]| *to)
    }));
    shared.join(".")
}

/// Names under which a table or a checkpoint may have a tensor, `name` itself first.
pub fn spellings(name: &str) -> Vec<String> {
    let shared = shared_name(name);
    let mut all = vec![name.to_owned()];
    for shared in renamed_back(&shared) {
        all.extend(PREFIXES.iter().map(|prefix| format!("{prefix}{shared}")));
    }
    all
}

/// A shared name, and the same with the older names of its modules.
fn renamed_back(shared: &str) -> Vec<String> {
    let mut all = vec![shared.to_owned()];
    for [from, to] in RENAMED {
        let parts: Vec<&str> = shared.split('.').map(|part| if part == *to { *from } else { part }).collect();
        let older = parts.join(".");
        if older != shared {
            all.push(older);
        }
    }
    all
}

/// Tensor names of a checkpoint, looked up by any of their spellings.
#[derive(Debug)]
pub struct TensorNames<'a> {
    names: Vec<&'a str>,
    exact: HashMap<&'a str, usize>,
    /// By shared name; `None` if several tensors have it.
    shared: HashMap<String, Option<usize>>,
    /// Prefixes that were added to find names.
    prefixes: Vec<String>,
}

impl<'a> TensorNames<'a> {
    /// Indexes the names of a checkpoint.
    pub fn new(names: impl IntoIterator<Item = &'a str>) -> TensorNames<'a> {
        let names: Vec<&str> = names.into_iter().collect();
        let mut shared: HashMap<String, Option<usize>> = HashMap::new();
        for (at, name) in names.iter().enumerate() {
            shared.entry(shared_name(name)).and_modify(|other| *other = None).or_insert(Some(at));
        }
        let exact = names.iter().enumerate().map(|(at, name)| (*name, at)).collect();
        TensorNames { names, exact, shared, prefixes: Vec::new() }
    }

    /// The checkpoint's name of a tensor, or none if it has no such tensor or several that could be meant.
    pub fn find(&mut self, name: &str) -> Option<&'a str> {
        if let Some(at) = self.exact.get(name) {
            return Some(self.names[*at]);
        }
        if let Some(found) = self.shared.get(&shared_name(name)) {
            return found.map(|at| self.names[at]);
        }
        // Saved by a model with a head and read by one without it, or the other way round.
        let without_first = name.split_once('.').map(|(_, rest)| rest.to_owned());
        let known = self.prefixes.iter().map(|prefix| format!("{prefix}{name}"));
        let mut candidates = known.chain(without_first);
        if let Some(at) = candidates.find_map(|name| self.exact.get(name.as_str())) {
            return Some(self.names[*at]);
        }
        let end = format!(".{name}");
        let mut ending = self.names.iter().filter(|name| name.ends_with(&end));
        let (found, other) = (ending.next()?, ending.next());
        if other.is_some() {
            return None;
        }
        self.prefixes.push(found[..found.len() - name.len()].to_owned());
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One tensor as releases of its family spell it.
    const SPELLED: &[&[&str]] = &[
        // Qwen 3.5, Qwen2-VL, Gemma 3n, Gemma 4: published, and as only the causal model.
        &["model.language_model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight"],
        // A text model in a multimodal one: as published first, and by transformers 5.
        &[
            "language_model.model.layers.0.self_attn.q_proj.weight",
            "model.language_model.layers.0.self_attn.q_proj.weight",
            "model.layers.0.self_attn.q_proj.weight",
            "layers.0.self_attn.q_proj.weight",
            "model._orig_mod.layers.0.self_attn.q_proj.weight",
        ],
        &["language_model.lm_head.weight", "lm_head.weight", "embed_out.weight"],
        &[
            "vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight",
            "model.vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight",
            "model.vision_tower.encoder.layers.0.mlp.fc1.weight",
        ],
        &["vision_model.model.layers.0.mlp.fc1.weight", "model.vision_model.layers.0.mlp.fc1.weight"],
        &["visual.blocks.0.attn.qkv.weight", "model.visual.blocks.0.attn.qkv.weight"],
        &["multi_modal_projector.linear_1.weight", "model.multi_modal_projector.linear_1.weight"],
        &["thinker.model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight"],
        &["model.layers.0.block_sparse_moe.gate.weight", "model.layers.0.mlp.gate.weight"],
        &["transformer.h.0.attn.c_attn.weight", "h.0.attn.c_attn.weight"],
        &["model.layers.1.block_sparse_moe.gate.weight", "model.layers.1.mlp.router.weight"],
        &[
            "model.layers.1.mlp.shared_expert.up_proj.weight",
            "model.layers.1.mlp.shared_experts.up_proj.weight",
        ],
        &["model.layers.1.self_attn.f_a_proj.weight", "model.layers.1.self_attn.forget_gate.f_a_proj.weight"],
        &["vit.layers.1.mlp.fc1.weight", "model.vision_tower.layers.1.mlp.fc1.weight"],
        // HunYuan VL.
        &["vit.layers.1.mlp.dense_4h_to_h.weight", "model.vision_tower.layers.1.mlp.fc2.weight"],
        &["vit.perceive.mlp.weight", "model.vision_tower.patch_merger.mlp.weight"],
    ];

    #[test]
    fn spellings_find_each_other() {
        for spelled in SPELLED {
            for base in *spelled {
                // Names of other parts, with the same end.
                let other_names =
                    ["talker.model.layers.0.mlp.up_proj.weight", "mtp.layers.0.mlp.up_proj.weight"];
                let mut names = TensorNames::new([*base].into_iter().chain(other_names));
                for name in *spelled {
                    assert_eq!(names.find(name), Some(*base), "{name}");
                    assert_eq!(
                        names.find(&name.replace('0', "7")).filter(|_| name.contains('0')),
                        None,
                        "{name}"
                    );
                }
            }
        }
    }

    #[test]
    fn towers_and_text_models_stay_apart() {
        let names = [
            "model.language_model.layers.0.mlp.fc1.weight",
            "model.vision_tower.layers.0.mlp.fc1.weight",
            "model.audio_tower.layers.0.mlp.fc1.weight",
        ];
        let mut index = TensorNames::new(names);
        for name in names {
            assert_eq!(index.find(&name.replacen("model.", "", 1)), Some(name));
        }
        assert_eq!(index.find("model.layers.0.mlp.fc1.weight"), Some(names[0]));
        assert_eq!(index.find("fc1.weight"), None);
    }
}
