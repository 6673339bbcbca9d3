//! The routes by which tokenizers are read, by name.

use std::collections::HashSet;

use gguf_tokenizer::huggingface::{BpeStyle, Route};

use crate::families::glm::convert::glm4;
use crate::family::ARCHES;

/// A route that no architecture takes yet. Goldens hold it to the reference, but no conversion reaches it.
#[derive(Debug, Clone, Copy)]
pub struct Waiting {
    /// The route.
    pub route: Route,
    /// The class of the reference, or the kind of checkpoint, that would take it.
    pub waits_for: &'static str,
}

/// Routes that no architecture takes yet.
pub const WAITING: &[Waiting] = &[
    Waiting {
        route: Route::new("llama_hf", |writer| writer.llama_hf()),
        waits_for: "no class alone: a part of other routes",
    },
    // GLM Edge and ASR (`_set_vocab_glmedge`).
    Waiting { route: Route { name: "glm_edge", ..glm4::ROUTE }, waits_for: "GlmasrModel" },
    // Byte-level BPE with a fixed bos: 151643 is `<|endoftext|>` of Qwen's vocabulary.
    Waiting {
        route: Route::new("interns1", |writer| {
            writer.gpt2(&BpeStyle { by_id: &[("bos", 151_643)], ..BpeStyle::GPT2 })
        }),
        waits_for: "InternS1ForConditionalGeneration",
    },
];

/// Every route once: those of the architectures, then those that no architecture takes yet.
pub fn routes() -> Vec<Route> {
    let mut names = HashSet::new();
    let reached = ARCHES.iter().map(|arch| arch.vocab);
    let waiting = WAITING.iter().map(|waiting| waiting.route);
    reached.chain(waiting).filter(|route| names.insert(route.name)).collect()
}
