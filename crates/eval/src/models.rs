//! Which graph runs which architecture.

use crate::{
    Error,
    decoder::{self, Spec},
    graph::Prepared,
    keys::Keys,
    weights::Weights,
};

/// How an architecture is run.
pub(crate) enum Graph {
    /// By the decoder that families share, with what sets this one apart.
    Decoder(Spec),
}

/// A row: the value of `general.architecture` and its graph.
pub(crate) struct Row {
    pub name: &'static str,
    pub graph: Graph,
}

const fn decoder(name: &'static str, spec: Spec) -> Row {
    Row { name, graph: Graph::Decoder(spec) }
}

/// Every architecture that can be run.
pub(crate) const MODELS: &[Row] = &[
    decoder("llama", Spec::LLAMA),
    decoder("arcee", Spec::ARCEE),
    decoder("baichuan", Spec::BAICHUAN),
    decoder("bloom", Spec::BLOOM),
    decoder("chatglm", Spec::LLAMA),
    decoder("codeshell", Spec::PHI2),
    decoder("cohere2", Spec::COHERE2),
    decoder("command-r", Spec::COMMAND_R),
    decoder("dream", Spec::NEOX),
    decoder("ernie4_5", Spec::LLAMA),
    decoder("ernie4_5-moe", Spec::LLAMA),
    decoder("exaone", Spec::NEOX),
    decoder("exaone4", Spec::EXAONE4),
    decoder("falcon", Spec::GPT_NEOX),
    decoder("gemma", Spec::GEMMA),
    decoder("gemma2", Spec::GEMMA2),
    decoder("gemma3", Spec::GEMMA3),
    decoder("glm4", Spec::LLAMA),
    decoder("gpt2", Spec::GPT2),
    decoder("gptneox", Spec::GPT_NEOX),
    decoder("granite", Spec::GRANITE),
    decoder("granitemoe", Spec::GRANITE),
    decoder("internlm2", Spec::LLAMA),
    decoder("minicpm", Spec::MINICPM),
    decoder("mpt", Spec::MPT),
    decoder("nemotron", Spec::NEMOTRON),
    decoder("olmo", Spec::OLMO),
    decoder("olmo2", Spec::OLMO2),
    decoder("olmoe", Spec::OLMOE),
    decoder("orion", Spec::STABLELM),
    decoder("persimmon", Spec::PERSIMMON),
    decoder("phi2", Spec::PHI2),
    decoder("phi3", Spec::NEOX),
    decoder("qwen", Spec::NEOX),
    decoder("qwen2", Spec::NEOX),
    decoder("qwen2moe", Spec::QWEN2_MOE),
    decoder("qwen2vl", Spec::NEOX),
    decoder("qwen3", Spec::NEOX),
    decoder("qwen3moe", Spec::NEOX),
    decoder("refact", Spec::REFACT),
    decoder("seed_oss", Spec::SEED_OSS),
    decoder("smollm3", Spec::SMOLLM3),
    decoder("stablelm", Spec::STABLELM),
    decoder("starcoder", Spec::GPT2),
    decoder("starcoder2", Spec::STARCODER2),
    decoder("xverse", Spec::LLAMA),
];

/// The graph of a file.
pub(crate) fn open(keys: &Keys<'_>, weights: &mut Weights<'_>) -> Result<Prepared, Error> {
    let row = MODELS.iter().find(|row| row.name == keys.architecture);
    match row.map(|row| &row.graph) {
        Some(Graph::Decoder(spec)) => decoder::open(*spec, keys, weights),
        None => Err(Error::UnknownArchitecture { name: keys.architecture.clone() }),
    }
}

/// The names of the architectures that can be run.
pub fn architectures() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|row| row.name)
}
