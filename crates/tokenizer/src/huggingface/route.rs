//! Kinds of tokenizers per architecture: its `set_vocab` in the reference.

/// Makes the enum and its table of one list, so that no variant can lack a name: documentation, variant,
/// name, and for a route that no row of [`ARCHES`](crate::ARCHES) has, what it waits for.
macro_rules! routes {
    ($($(#[$attribute:meta])* $variant:ident = $name:literal $(, waits for $class:literal)?;)*) => {
        /// The architecture's `set_vocab` in the reference converter.
        ///
        /// If the reference cannot read the files but another kind fits unambiguously (a llama tokenizer as
        /// tokenizer.json only, a tiktoken file named like a SentencePiece model), that kind is read, with a
        /// note.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub enum Route {
            $($(#[$attribute])* $variant,)*
        }

        const ROUTES: &[Row] = &[$(Row {
            route: Route::$variant,
            name: $name,
            waits_for: routes!(@waits $($class)?),
        },)*];
    };
    (@waits) => { None };
    (@waits $class:literal) => { Some($class) };
}

/// A row of the table.
struct Row {
    route: Route,
    name: &'static str,
    waits_for: Option<&'static str>,
}

routes! {
    /// `_set_vocab_gpt2`: byte-level BPE from tokenizer.json or vocab.json and merges.txt; else a
    /// tiktoken file. Falcon, Phi 1 and 2, StarCoder, Command R, gpt-oss, OLMo 2 and most others.
    #[default]
    Gpt2 = "gpt2";
    /// `LlamaModel.set_vocab`: tokenizer.model, or a llama tokenizer as tokenizer.json, or byte-level BPE;
    /// with the keys before (`add_space_prefix`) and after the others (Code Llama, Granite). tekken.json if
    /// there is no tokenizer.json.
    Llama = "llama";
    /// Meta's original layout: like [`Route::Llama`], with bos and eos from tokenizer.model, because there is
    /// no config.
    MetaLlama = "meta_llama";
    /// `_set_vocab_sentencepiece`: tokenizer.model. Baichuan, BitNet, MiniCPM, Orion,
    /// Persimmon, PLaMo 1.
    SentencePiece = "sentencepiece";
    /// Ernie 4.5: as [`Route::SentencePiece`], with `add_prefix_space` of tokenizer_config.json.
    Ernie4_5 = "ernie4_5";
    /// `_set_vocab_llama_hf`: a llama tokenizer as tokenizer.json only.
    LlamaHf = "llama_hf", waits for "no class alone: a part of other routes";
    /// tokenizer.model, else [`Route::Gpt2`]. Qwen 2 and 3, DeepSeek 1, Dream, Grok, RWKV-Qwen.
    SentencePieceOrGpt2 = "sentencepiece_or_gpt2";
    /// Qwen 3 Omni: [`Route::SentencePieceOrGpt2`], where texts begin and end with the end of a turn.
    Qwen3Omni = "qwen3_omni";
    /// Qwen 3 ASR: [`Route::Qwen3Omni`] with its own chat template.
    Qwen3Asr = "qwen3_asr";
    /// tokenizer.model, else [`Route::LlamaHf`]. Jamba.
    SentencePieceOrLlamaHf = "sentencepiece_or_llama_hf";
    /// [`Route::Gpt2`], else tokenizer.model with fixed ids. MPT, SEA-LION, Replit.
    Mpt = "mpt";
    /// `DeciModel`: byte-level BPE for Llama 3's vocabulary, else [`Route::LlamaHf`].
    Deci = "deci";
    /// Mamba: tokenizer.json before tokenizer.model; the vocabulary is rounded up to a multiple
    /// of `pad_vocab_size_multiple` in the config, or of 8.
    Mamba = "mamba";
    /// Mamba 2: tokenizer.model before tokenizer.json; rounded up as [`Route::Mamba`], or to a
    /// multiple of 16.
    Mamba2 = "mamba2";
    /// Granite 4: as [`Route::Mamba2`], to a multiple of 8.
    GraniteHybrid = "granite_hybrid";
    /// Granite 4 without recurrent layers: as [`Route::GraniteHybrid`], not rounded up.
    GraniteDense = "granite_dense";
    /// Nemotron-H: byte-level BPE, rounded up to a multiple of 8.
    NemotronH = "nemotron_h";
    /// BERT, DistilBERT and similar: WordPiece.
    Bert = "bert";
    /// RoBERTa: byte-level BPE where there is a tokenizer.json, else WordPiece.
    Roberta = "roberta";
    /// XLM-RoBERTa, BGE-M3: unigram.
    XlmRoberta = "xlm_roberta";
    /// Nomic BERT: WordPiece, or unigram (the mixture of experts), as tokenizer.json says.
    NomicBert = "nomic_bert";
    /// Jina BERT 2: WordPiece or byte-level BPE or whole words, as `tokenizer_class` says.
    JinaBert = "jina_bert";
    /// ModernBERT: byte-level BPE with bos, eos and sep.
    ModernBert = "modern_bert";
    /// EuroBERT: byte-level BPE without bos.
    EuroBert = "euro_bert";
    /// T5: unigram, or SentencePiece BPE (Pile-T5).
    T5 = "t5";
    /// RWKV 6 and 7: the world vocabulary.
    RwkvWorld = "rwkv_world";
    /// Qwen 1: its tiktoken file.
    Qwen = "qwen";
    /// StableLM: [`Route::Gpt2`], else Qwen 1's kind of file.
    StableLm = "stable_lm";
    /// DeepSeek 2 and 3, Kimi: [`Route::Gpt2`], else Kimi's tiktoken file.
    DeepSeek2 = "deep_seek2";
    /// Kimi K3: [`Route::DeepSeek2`], whose texts end where the config says, at the end of a turn.
    KimiK3 = "kimi_k3";
    /// Hunyuan: [`Route::Gpt2`] where there is a tokenizer.json, else its tiktoken file.
    Hunyuan = "hunyuan";
    /// Hunyuan, dense models: as [`Route::Hunyuan`], with `eod_token_id` of the config as eos and the first eos of
    /// generation_config.json, where it has several, as `eot`.
    HunyuanDense = "hunyuan_dense";
    /// Phi 3: tokenizer.model with added tokens from three files; Phi 4: byte-level BPE.
    Phi3 = "phi3";
    /// InternLM 2: as Phi 3, with its own end of turn.
    InternLm2 = "internlm2";
    /// InternLM 3: tokenizer.model, with its own end of turn.
    InternLm3 = "internlm3";
    /// Arctic: tokenizer.model with renamed pieces.
    Arctic = "arctic";
    /// Xverse: a BPE as tokenizer.json, written as a llama tokenizer without scores.
    Xverse = "xverse";
    /// ChatGLM 3 (tokenizer.model) and GLM 4 (byte-level BPE) under their older class.
    ChatGlm = "chatglm";
    /// Gemma 1: tokenizer.model, no space in front, `eot` of CodeGemma.
    Gemma = "gemma";
    /// Gemma 2: tokenizer.model, no space in front.
    Gemma2 = "gemma2";
    /// Gemma 3 and 3n: as [`Route::Gemma2`], else byte-level BPE.
    Gemma3 = "gemma3";
    /// Gemma 4: a llama tokenizer as tokenizer.json, with merges.
    Gemma4 = "gemma4";
    /// GLM 4: byte-level BPE with special ids by text.
    Glm4 = "glm4";
    /// GLM 4.5 and later (`_set_vocab_glm`).
    Glm4Moe = "glm4_moe";
    /// GLM Edge and ASR (`_set_vocab_glmedge`).
    GlmEdge = "glm_edge", waits for "GlmasrModel";
    /// Solar Open.
    SolarOpen = "solar_open";
    /// dots 3.
    Dots3 = "dots3";
    /// InternS1: byte-level BPE with a fixed bos.
    InternS1 = "interns1", waits for "InternS1ForConditionalGeneration";
    /// LLaDA: byte-level BPE with bos, added tokens as the file has them.
    Llada = "llada";
    /// Refact: byte-level BPE (its fill-in-the-middle ids have no keys in the reference).
    Refact = "refact";
    /// Laguna: byte-level BPE, template from its own file, the second eos as `eot`.
    Laguna = "laguna";
    /// MiniMax: byte-level BPE, template from its own file.
    MiniMax = "minimax", waits for "MiniMaxM1ForCausalLM";
    /// Muse Glimmer: byte-level BPE with `<|eot|>`.
    MuseGlimmer = "muse_glimmer";
    /// Nemotron 3 and 4: tokenizer.model with fixed ids.
    Nemotron = "nemotron";
    /// A checkpoint in Mistral's own format: tekken.json or a versioned SentencePiece model.
    Mistral = "mistral";
    /// PLaMo 2: tokenizer.jsonl.
    Plamo2 = "plamo2";
    /// PLaMo 3: as [`Route::Plamo2`], with a chat template.
    Plamo3 = "plamo3";
    /// A model without text.
    None = "none";
}

impl Route {
    /// The route of a name (`gpt2`, `llama`, `xlm_roberta`, ...).
    pub fn named(name: &str) -> Option<Route> {
        ROUTES.iter().find(|row| row.name == name).map(|row| row.route)
    }

    /// Every route with its name.
    pub fn all() -> impl Iterator<Item = (&'static str, Route)> {
        ROUTES.iter().map(|row| (row.name, row.route))
    }

    /// For a route that no architecture takes yet: the class of the reference, or the kind of checkpoint, that
    /// would. Goldens hold such a route to the reference, but no conversion reaches it.
    pub fn waits_for(self) -> Option<&'static str> {
        ROUTES.iter().find(|row| row.route == self).and_then(|row| row.waits_for)
    }
}
