//! Graphs by architecture.

mod cross_attention;
mod t5;
mod whisper;

use crate::{
    Error,
    classifier::ClassifierSpec,
    decoder::{self, Spec},
    graph::Prepared,
    keys::Keys,
    weights::Weights,
};

/// Reads the graph of a file.
type Open = fn(&Keys<'_>, &mut Weights<'_>) -> Result<Prepared, Error>;

/// A row: the value of `general.architecture` and how it is run.
pub(crate) struct Row {
    pub name: &'static str,
    /// Properties among the architectures of the shared decoder, including encoders.
    pub spec: Spec,
    /// A separate graph instead.
    pub own: Option<Open>,
}

const fn decoder(name: &'static str, spec: Spec) -> Row {
    Row { name, spec, own: None }
}

const fn own(name: &'static str, open: Open) -> Row {
    Row { name, spec: Spec::LLAMA, own: Some(open) }
}

/// Every architecture that can be run.
pub(crate) const MODELS: &[Row] = &[
    decoder("llama", Spec::LLAMA),
    decoder("afmoe", Spec::AFMOE),
    decoder("apertus", Spec::NEOX),
    decoder("arcee", Spec::ARCEE),
    decoder("arwkv7", Spec::LLAMA),
    decoder("baichuan", Spec::BAICHUAN),
    decoder("bailingmoe", Spec::DEEPSEEK),
    decoder("bailingmoe2", Spec::QWEN2_MOE),
    decoder("bert", Spec::BERT),
    decoder("bloom", Spec::BLOOM),
    decoder("chatglm", Spec::LLAMA),
    decoder("codeshell", Spec::PHI2),
    decoder("cohere2", Spec::COHERE2),
    decoder("cohere2moe", Spec::COHERE2_MOE),
    decoder("command-r", Spec::COMMAND_R),
    decoder("dbrx", Spec::DBRX),
    decoder("deepseek", Spec::DEEPSEEK),
    decoder("deepseek2", Spec::DEEPSEEK2),
    decoder("deepseek2-ocr", Spec::DEEPSEEK2_OCR),
    decoder("dots1", Spec::DOTS1),
    decoder("dream", Spec::NEOX),
    decoder("ernie4_5", Spec::LLAMA),
    decoder("ernie4_5-moe", Spec::LLAMA),
    decoder("eurobert", Spec::EUROBERT),
    decoder("exaone", Spec::NEOX),
    decoder("exaone-moe", Spec::EXAONE_MOE),
    decoder("exaone4", Spec::EXAONE4),
    decoder("falcon", Spec::GPT_NEOX),
    decoder("falcon-h1", Spec::NEOX),
    decoder("gemma", Spec::GEMMA),
    decoder("gemma-embedding", Spec::GEMMA_EMBEDDING),
    decoder("gemma2", Spec::GEMMA2),
    decoder("gemma3", Spec::GEMMA3),
    decoder("gemma3n", Spec::GEMMA4),
    decoder("gemma4", Spec::GEMMA4),
    decoder("glm4", Spec::LLAMA),
    decoder("glm4moe", Spec::GLM4_MOE),
    decoder("gpt-oss", Spec::GPT_OSS),
    decoder("gpt2", Spec::GPT2),
    decoder("gptj", Spec::GPTJ),
    decoder("gptneox", Spec::GPT_NEOX),
    decoder("granite", Spec::GRANITE),
    decoder("granite_swa", Spec::GRANITE_SWA),
    decoder("granitehybrid", Spec::GRANITE),
    decoder("granitemoe", Spec::GRANITE),
    decoder("hunyuan-dense", Spec::HUNYUAN),
    decoder("hunyuan-moe", Spec::HUNYUAN),
    decoder("hunyuan_vl", Spec::HUNYUAN),
    decoder("hy_v3", Spec::DOTS1),
    decoder("internlm2", Spec::LLAMA),
    decoder("jais2", Spec::NEMOTRON),
    decoder("jina-bert-v2", Spec::JINA_BERT_V2),
    decoder("jamba", Spec::JAMBA),
    decoder("laguna", Spec::LAGUNA),
    decoder("lfm2", Spec::LFM2),
    decoder("lfm2moe", Spec::LFM2_MOE),
    decoder("llada", Spec::LLAMA),
    decoder("llada-moe", Spec::QWEN2_MOE),
    decoder("llama-embed", Spec::LLAMA_EMBED),
    decoder("llama4", Spec::LLAMA4),
    decoder("maincoder", Spec::MAINCODER),
    decoder("mamba", Spec::LLAMA),
    decoder("mamba2", Spec::LLAMA),
    decoder("mellum", Spec::MELLUM),
    decoder("mimo2", Spec::MIMO2),
    decoder("minicpm", Spec::MINICPM),
    decoder("minimax-m2", Spec::MINIMAX_M2),
    decoder("mistral3", Spec::MISTRAL3),
    decoder("mistral4", Spec::DEEPSEEK2),
    decoder("modern-bert", Spec::MODERN_BERT),
    decoder("mpt", Spec::MPT),
    decoder("nemotron", Spec::NEMOTRON),
    decoder("nemotron_h", Spec::NEMOTRON_H),
    decoder("nemotron_h_moe", Spec::NEMOTRON_H),
    decoder("nomic-bert", Spec::NOMIC_BERT),
    decoder("nomic-bert-moe", Spec::NOMIC_BERT_MOE),
    decoder("olmo", Spec::OLMO),
    decoder("olmo2", Spec::OLMO2),
    decoder("olmoe", Spec::OLMOE),
    decoder("openelm", Spec::NEOX),
    decoder("orion", Spec::STABLELM),
    decoder("paddleocr", Spec::NEOX),
    decoder("persimmon", Spec::PERSIMMON),
    decoder("phi2", Spec::PHI2),
    decoder("phi3", Spec::NEOX),
    decoder("phimoe", Spec::PHIMOE),
    decoder("qwen", Spec::NEOX),
    decoder("qwen2", Spec::NEOX),
    decoder("qwen2moe", Spec::QWEN2_MOE),
    decoder("qwen2vl", Spec::NEOX),
    decoder("qwen3", Spec::QWEN3),
    decoder("qwen35", Spec::QWEN35),
    decoder("qwen35moe", Spec::QWEN35),
    decoder("qwen3moe", Spec::NEOX),
    decoder("qwen3next", Spec::SEED_OSS),
    decoder("qwen3vl", Spec::QWEN3),
    decoder("qwen3vlmoe", Spec::QWEN3_VL_MOE),
    decoder("refact", Spec::REFACT),
    decoder("rnd1", Spec::NEOX),
    decoder("rwkv", Spec::RWKV4),
    decoder("rwkv6", Spec::RWKV),
    decoder("rwkv6qwen2", Spec::LLAMA),
    decoder("rwkv7", Spec::RWKV),
    decoder("seed_oss", Spec::SEED_OSS),
    decoder("smollm3", Spec::SMOLLM3),
    decoder("stablelm", Spec::STABLELM),
    decoder("starcoder", Spec::GPT2),
    decoder("starcoder2", Spec::STARCODER2),
    decoder("step35", Spec::STEP35),
    own("t5", t5::open),
    own("t5encoder", t5::open_encoder),
    own("whisper", whisper::open),
    decoder("xverse", Spec::LLAMA),
];

/// The row of a file's architecture.
///
/// # Errors
/// [`Error::UnknownArchitecture`], [`Error::Key`] for more layers than the file has tensors.
pub(crate) fn find(keys: &Keys<'_>, weights: &Weights<'_>) -> Result<&'static Row, Error> {
    // Lists of what layers differ in are made before their tensors are looked for: a header that claims too many
    // layers must not decide how much is allocated.
    if keys.count("block_count")?.is_some_and(|n| n > weights.n_tensors()) {
        return Err(keys.wrong("block_count", "at most the number of tensors"));
    }
    let row = MODELS.iter().find(|row| row.name == keys.architecture);
    row.ok_or_else(|| Error::UnknownArchitecture { name: keys.architecture.clone() })
}

impl Row {
    /// Reads the graph of a file.
    pub fn open(&self, keys: &Keys<'_>, weights: &mut Weights<'_>) -> Result<Prepared, Error> {
        match self.own {
            None => decoder::open(self.spec, keys, weights),
            Some(open) => open(keys, weights),
        }
    }

    /// Properties of this architecture's classifier.
    pub fn classifier(&self) -> ClassifierSpec {
        self.spec.classifier
    }
}

/// The names of the architectures that can be run.
pub fn architectures() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|row| row.name)
}
