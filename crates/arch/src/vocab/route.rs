//! Which kinds of tokenizers an architecture comes with: its `set_vocab` in the reference.

/// What the architecture's `set_vocab` does in the reference converter.
///
/// Where the reference has no way to read what is there and another kind fits without a doubt
/// (a llama tokenizer as tokenizer.json only, a tiktoken file under the name of a SentencePiece
/// model), that kind is read, with a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Route {
    /// `_set_vocab_gpt2`: byte-level BPE from tokenizer.json or vocab.json and merges.txt; else a
    /// tiktoken file. Falcon, Phi 1 and 2, StarCoder, Command R, gpt-oss, OLMo 2 and most others.
    #[default]
    Gpt2,
    /// `LlamaModel.set_vocab`: tokenizer.model, else a llama tokenizer as tokenizer.json, else
    /// byte-level BPE; with the keys that it puts before (`add_space_prefix`) and after
    /// (Code Llama, Granite) the others. tekken.json where there is no tokenizer.json.
    Llama,
    /// `_set_vocab_sentencepiece`: tokenizer.model. Baichuan, BitNet, MiniCPM, Orion,
    /// Persimmon, PLaMo 1.
    SentencePiece,
    /// Ernie 4.5: as [`Route::SentencePiece`], with `add_prefix_space` of tokenizer_config.json.
    Ernie4_5,
    /// `_set_vocab_llama_hf`: a llama tokenizer as tokenizer.json only.
    LlamaHf,
    /// tokenizer.model, else [`Route::Gpt2`]. Qwen 2 and 3, DeepSeek 1, Dream, Grok, RWKV-Qwen.
    SentencePieceOrGpt2,
    /// tokenizer.model, else [`Route::LlamaHf`]. Jamba.
    SentencePieceOrLlamaHf,
    /// [`Route::Gpt2`], else tokenizer.model with fixed ids. MPT, SEA-LION, Replit.
    Mpt,
    /// `DeciModel`: byte-level BPE for Llama 3's vocabulary, else [`Route::LlamaHf`].
    Deci,
    /// Mamba: tokenizer.json before tokenizer.model; the vocabulary is rounded up to a multiple
    /// of `pad_vocab_size_multiple` in the config, or of 8.
    Mamba,
    /// Mamba 2: tokenizer.model before tokenizer.json; rounded up as [`Route::Mamba`], or to a
    /// multiple of 16.
    Mamba2,
    /// Granite 4: as [`Route::Mamba2`], to a multiple of 8, or of 1 for a model without
    /// recurrent layers.
    GraniteHybrid {
        /// Whether there are recurrent layers.
        recurrent: bool,
    },
    /// Nemotron-H: byte-level BPE, rounded up to a multiple of 8.
    NemotronH,
    /// BERT, DistilBERT and kin: WordPiece.
    Bert,
    /// RoBERTa: byte-level BPE where there is a tokenizer.json, else WordPiece.
    Roberta,
    /// XLM-RoBERTa, BGE-M3: unigram.
    XlmRoberta,
    /// Nomic BERT: WordPiece, or unigram (the mixture of experts), as tokenizer.json says.
    NomicBert,
    /// Jina BERT 2: WordPiece or byte-level BPE or whole words, as `tokenizer_class` says.
    JinaBert,
    /// ModernBERT: byte-level BPE with bos, eos and sep.
    ModernBert,
    /// EuroBERT: byte-level BPE without bos.
    EuroBert,
    /// T5: unigram, or SentencePiece BPE (Pile-T5).
    T5,
    /// RWKV 6 and 7: the world vocabulary.
    RwkvWorld,
    /// Qwen 1: its tiktoken file.
    Qwen,
    /// StableLM: [`Route::Gpt2`], else Qwen 1's kind of file.
    StableLm,
    /// DeepSeek 2 and 3, Kimi: [`Route::Gpt2`], else Kimi's tiktoken file.
    DeepSeek2,
    /// Hunyuan: [`Route::Gpt2`] where there is a tokenizer.json, else its tiktoken file.
    Hunyuan,
    /// Phi 3: tokenizer.model with added tokens from three files; Phi 4: byte-level BPE.
    Phi3,
    /// InternLM 2: as Phi 3, with its own end of turn.
    InternLm2,
    /// InternLM 3: tokenizer.model, with its own end of turn.
    InternLm3,
    /// Arctic: tokenizer.model with renamed pieces.
    Arctic,
    /// Xverse: a BPE as tokenizer.json, written as a llama tokenizer without scores.
    Xverse,
    /// ChatGLM 3 (tokenizer.model) and GLM 4 (byte-level BPE) under their older class.
    ChatGlm,
    /// Gemma 1: tokenizer.model, no space in front, `eot` of CodeGemma.
    Gemma,
    /// Gemma 2: tokenizer.model, no space in front.
    Gemma2,
    /// Gemma 3 and 3n: as [`Route::Gemma2`], else byte-level BPE.
    Gemma3,
    /// Gemma 4: a llama tokenizer as tokenizer.json, with merges.
    Gemma4,
    /// GLM 4: byte-level BPE with special ids by text.
    Glm4,
    /// GLM 4.5 and later (`_set_vocab_glm`).
    Glm4Moe,
    /// GLM Edge and ASR (`_set_vocab_glmedge`).
    GlmEdge,
    /// Solar Open.
    SolarOpen,
    /// dots 3.
    Dots3,
    /// InternS1: byte-level BPE with a fixed bos.
    InternS1,
    /// LLaDA: byte-level BPE with bos, added tokens as the file has them.
    Llada,
    /// Refact: byte-level BPE (its fill-in-the-middle ids have no keys in the reference).
    Refact,
    /// Laguna: byte-level BPE, template from its own file, the second eos as `eot`.
    Laguna,
    /// MiniMax: byte-level BPE, template from its own file.
    MiniMax,
    /// Muse Glimmer: byte-level BPE with `<|eot|>`.
    MuseGlimmer,
    /// Nemotron 3 and 4: tokenizer.model with fixed ids.
    Nemotron,
    /// A checkpoint in Mistral's own format: tekken.json or a versioned SentencePiece model.
    Mistral,
    /// PLaMo 2: tokenizer.jsonl.
    Plamo2,
    /// PLaMo 3: as [`Route::Plamo2`], with a chat template.
    Plamo3,
    /// A model without text.
    None,
}

/// Routes by name, for tools that are told one.
const NAMES: &[(&str, Route)] = &[
    ("gpt2", Route::Gpt2),
    ("llama", Route::Llama),
    ("sentencepiece", Route::SentencePiece),
    ("ernie4_5", Route::Ernie4_5),
    ("llama_hf", Route::LlamaHf),
    ("sentencepiece_or_gpt2", Route::SentencePieceOrGpt2),
    ("sentencepiece_or_llama_hf", Route::SentencePieceOrLlamaHf),
    ("mpt", Route::Mpt),
    ("deci", Route::Deci),
    ("mamba", Route::Mamba),
    ("mamba2", Route::Mamba2),
    ("granite_hybrid", Route::GraniteHybrid { recurrent: true }),
    ("nemotron_h", Route::NemotronH),
    ("bert", Route::Bert),
    ("roberta", Route::Roberta),
    ("xlm_roberta", Route::XlmRoberta),
    ("nomic_bert", Route::NomicBert),
    ("jina_bert", Route::JinaBert),
    ("modern_bert", Route::ModernBert),
    ("euro_bert", Route::EuroBert),
    ("t5", Route::T5),
    ("rwkv_world", Route::RwkvWorld),
    ("qwen", Route::Qwen),
    ("stable_lm", Route::StableLm),
    ("deep_seek2", Route::DeepSeek2),
    ("hunyuan", Route::Hunyuan),
    ("phi3", Route::Phi3),
    ("internlm2", Route::InternLm2),
    ("internlm3", Route::InternLm3),
    ("arctic", Route::Arctic),
    ("xverse", Route::Xverse),
    ("chatglm", Route::ChatGlm),
    ("gemma", Route::Gemma),
    ("gemma2", Route::Gemma2),
    ("gemma3", Route::Gemma3),
    ("gemma4", Route::Gemma4),
    ("glm4", Route::Glm4),
    ("glm4_moe", Route::Glm4Moe),
    ("glm_edge", Route::GlmEdge),
    ("solar_open", Route::SolarOpen),
    ("dots3", Route::Dots3),
    ("interns1", Route::InternS1),
    ("llada", Route::Llada),
    ("refact", Route::Refact),
    ("laguna", Route::Laguna),
    ("minimax", Route::MiniMax),
    ("muse_glimmer", Route::MuseGlimmer),
    ("nemotron", Route::Nemotron),
    ("mistral", Route::Mistral),
    ("plamo2", Route::Plamo2),
    ("plamo3", Route::Plamo3),
    ("none", Route::None),
];

impl Route {
    /// The route of a name (`gpt2`, `llama`, `xlm_roberta`, ...).
    pub fn named(name: &str) -> Option<Route> {
        NAMES.iter().find(|(have, _)| *have == name).map(|(_, route)| *route)
    }

    /// The names that [`Route::named`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }
}
