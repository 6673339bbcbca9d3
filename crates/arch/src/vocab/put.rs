//! What each route does: which files are read, by which kind, with which keys around.

use gguf::Value;
use serde_json::Value as Json;

use super::error::VocabError;
use super::hf::{self, HfTokenizer};
use super::keys::{self, Keys};
use super::route::Route;
use super::{
    NO_TOKENIZER, VocabContext, bpe, llama_hf, mistral, plamo, rwkv, special, spm, template, tiktoken,
    unigram, wordpiece,
};
use crate::Input;

/// Puts the keys of a route.
pub(super) fn put(
    input: &Input<'_>,
    ctx: &VocabContext,
    keys: &mut Keys,
    notes: &mut Vec<String>,
) -> Result<(), VocabError> {
    use bpe::Style;
    let mut put = Put { input, ctx, keys, notes };
    match ctx.route {
        Route::Gpt2 | Route::Refact => put.gpt2(&Style::GPT2),
        Route::Llama => put.llama(),
        Route::SentencePiece => put.spm(spm::Style::Plain),
        Route::Ernie4_5 => {
            put.spm(spm::Style::Plain)?;
            put.add_prefix_space()
        }
        Route::LlamaHf => put.llama_hf(),
        Route::SentencePieceOrGpt2 if put.has_spm() => put.spm(spm::Style::Plain),
        Route::SentencePieceOrGpt2 => put.gpt2(&Style::GPT2),
        Route::SentencePieceOrLlamaHf if put.has_spm() => put.spm(spm::Style::Plain),
        Route::SentencePieceOrLlamaHf => put.llama_hf(),
        Route::Mpt => put.mpt(),
        Route::Deci if ctx.vocab_size.is_none_or(|n| n == 128_256) => put.gpt2(&Style::GPT2),
        Route::Deci => put.llama_hf(),
        Route::Mamba => put.rounded(None, 8, false),
        Route::Mamba2 => put.rounded(None, 16, true),
        Route::GraniteHybrid { recurrent } => put.rounded(Some(if recurrent { 8 } else { 1 }), 8, true),
        Route::NemotronH => put.rounded(Some(8), 8, false),
        Route::Bert => put.wordpiece(),
        Route::Roberta => put.roberta(),
        Route::XlmRoberta => unigram::put_xlm_roberta(input, ctx, put.keys, put.notes),
        Route::NomicBert => put.nomic(),
        Route::JinaBert => put.jina(),
        Route::ModernBert => {
            for key in [keys::ADD_BOS, keys::ADD_EOS, keys::ADD_SEP] {
                put.keys.put(key, true);
            }
            put.gpt2(&Style::GPT2)
        }
        Route::EuroBert => {
            put.keys.put(keys::ADD_BOS, false);
            put.gpt2(&Style::GPT2)
        }
        Route::T5 => unigram::put_t5(input, ctx, put.keys, put.notes),
        Route::RwkvWorld => rwkv::put(input, ctx, put.keys, put.notes),
        Route::Qwen => tiktoken::put(input, ctx, put.keys, put.notes),
        Route::StableLm | Route::DeepSeek2 | Route::Hunyuan => put.gpt2(&Style::GPT2),
        Route::Phi3 if hf::class_of(input) == "GPT2Tokenizer" => put.gpt2(&Style::GPT2),
        Route::Phi3 => put.spm(spm::Style::Phi3),
        Route::InternLm2 => put.spm(spm::Style::InternLm2),
        Route::InternLm3 => put.internlm3(),
        Route::Arctic => put.spm(spm::Style::Arctic),
        Route::Xverse => {
            let hf = put.tokenizer_json()?;
            llama_hf::put_xverse(input, &hf, ctx, put.keys, put.notes)
        }
        // ChatGLM 3, with its model or as tokenizer.json.
        Route::ChatGlm if put.has_spm() => put.chatglm3(None),
        Route::ChatGlm => match HfTokenizer::read(input)? {
            Some(hf) if llama_hf::is_one(&hf) => put.chatglm3(Some(hf)),
            hf => put.gpt2_of(
                hf,
                &Style {
                    by_text: &[("eos", "<|endoftext|>"), ("eot", "<|user|>"), ("unk", "<|endoftext|>")],
                    ..Style::GPT2
                },
            ),
        },
        Route::Gemma => put.gemma(None, true),
        Route::Gemma2 => put.gemma(None, false),
        Route::Gemma3 if put.has_spm() => put.gemma(None, false),
        Route::Gemma3 => match HfTokenizer::read(input)? {
            Some(hf) if !llama_hf::is_one(&hf) => put.gpt2_of(Some(hf), &Style::GPT2),
            hf => put.gemma(hf, false),
        },
        Route::Gemma4 => {
            let hf = put.tokenizer_json()?;
            llama_hf::put_gemma4(input, &hf, ctx, put.keys, put.notes)
        }
        Route::Glm4 | Route::GlmEdge => put.gpt2(&Style {
            by_text: &[
                ("eos", "<|endoftext|>"),
                ("eot", "<|user|>"),
                ("unk", "<|endoftext|>"),
                ("bos", "<|endoftext|>"),
            ],
            ..Style::GPT2
        }),
        Route::Glm4Moe => put.gpt2(&Style {
            by_text: &[
                ("bos", "[gMASK]"),
                ("eot", "<|user|>"),
                ("unk", "<|endoftext|>"),
                ("eom", "<|observation|>"),
            ],
            ..Style::GPT2
        }),
        Route::SolarOpen => put.gpt2(&Style {
            by_text: &[
                ("eos", "<|endoftext|>"),
                ("eot", "<|endoftext|>"),
                ("unk", "<unk>"),
                ("bos", "<|startoftext|>"),
            ],
            ..Style::GPT2
        }),
        Route::Dots3 => put.gpt2(&Style { by_text: &[("eot", "<|endofassistant|>")], ..Style::GPT2 }),
        Route::InternS1 => put.gpt2(&Style { by_id: &[("bos", 151_643)], ..Style::GPT2 }),
        Route::Llada => {
            put.gpt2(&Style { plain_added: true, ..Style::GPT2 })?;
            put.keys.put(keys::ADD_BOS, true);
            Ok(())
        }
        Route::Laguna => put.laguna(),
        Route::MiniMax => {
            put.gpt2(&Style::GPT2)?;
            put.own_template()
        }
        Route::MuseGlimmer => put.gpt2(&Style { by_text: &[("eot", "<|eot|>")], ..Style::GPT2 }),
        Route::Nemotron => {
            put.spm(spm::Style::Plain)?;
            put.keys.put(keys::PAD_ID, 0u32);
            put.keys.put(keys::UNK_ID, 1u32);
            Ok(())
        }
        Route::Mistral => mistral::put(input, ctx, true, put.keys, put.notes),
        Route::Plamo2 => plamo::put(input, ctx, put.keys, put.notes),
        Route::Plamo3 => plamo::put_with_template(input, ctx, put.keys, put.notes),
        Route::None => {
            put.keys.put(keys::MODEL, "none");
            Ok(())
        }
    }
}

/// What every route is given.
struct Put<'p, 'a> {
    input: &'p Input<'a>,
    ctx: &'p VocabContext,
    keys: &'p mut Keys,
    notes: &'p mut Vec<String>,
}

impl Put<'_, '_> {
    /// Whether there is a tokenizer.model that is not a tiktoken file in disguise.
    fn has_spm(&self) -> bool {
        self.input.file("tokenizer.model").is_some_and(|bytes| !super::ranks::Ranks::is_one(bytes))
    }

    fn tokenizer_json(&self) -> Result<HfTokenizer, VocabError> {
        HfTokenizer::read(self.input)?.ok_or(NO_TOKENIZER)
    }

    /// Byte-level BPE that lists its ids; else a tiktoken file.
    fn gpt2(&mut self, style: &bpe::Style) -> Result<(), VocabError> {
        self.gpt2_of(HfTokenizer::read(self.input)?, style)
    }

    /// As [`Put::gpt2`], of what was read already: a large file takes its time.
    fn gpt2_of(&mut self, hf: Option<HfTokenizer>, style: &bpe::Style) -> Result<(), VocabError> {
        match hf {
            Some(hf) => bpe::put(self.input, hf, self.ctx, style, self.keys, self.notes),
            None if tiktoken::is_there(self.input) => {
                tiktoken::put(self.input, self.ctx, self.keys, self.notes)
            }
            None => Err(NO_TOKENIZER),
        }
    }

    fn llama_hf(&mut self) -> Result<(), VocabError> {
        let hf = self.tokenizer_json()?;
        if !llama_hf::is_one(&hf) {
            return Err(VocabError::NotSupported { what: format!("`{}`: not a llama tokenizer", hf.file) });
        }
        llama_hf::put(self.input, &hf, self.ctx, self.keys, self.notes)
    }

    /// tokenizer.model; where there is none, the same model as tokenizer.json, with scores made
    /// of its merges.
    fn spm(&mut self, style: spm::Style) -> Result<(), VocabError> {
        let has_model = self.input.file("tokenizer.model").is_some();
        let hf = if has_model { None } else { HfTokenizer::read(self.input)? };
        self.spm_or_json(hf, style)
    }

    /// As [`Put::spm`], of what was read already.
    fn spm_or_json(&mut self, hf: Option<HfTokenizer>, style: spm::Style) -> Result<(), VocabError> {
        if let Some(hf) = hf.filter(llama_hf::is_one) {
            return llama_hf::put_ranked(self.input, &hf, self.ctx, style, self.keys, self.notes);
        }
        spm::put(self.input, self.ctx, style, self.keys, self.notes)
    }

    fn wordpiece(&mut self) -> Result<(), VocabError> {
        let hf = self.tokenizer_json()?;
        wordpiece::put(self.input, &hf, self.ctx, self.keys, self.notes)
    }

    /// `add_prefix_space` of tokenizer_config.json, where it says so.
    fn add_prefix_space(&mut self) -> Result<(), VocabError> {
        let config = hf::tokenizer_config(self.input)?.unwrap_or_default();
        match config.get("add_prefix_space") {
            None | Some(Json::Null) => {}
            Some(value) => self.keys.put(keys::ADD_SPACE_PREFIX, special::is_true(value)),
        }
        Ok(())
    }

    /// `LlamaModel.set_vocab` in `conversion/llama.py`.
    fn llama(&mut self) -> Result<(), VocabError> {
        let input = self.input;
        let json = input.file("tokenizer.json").is_some();
        let no_other = input.file("tokenizer.model").is_none() && input.file("vocab.json").is_none();
        if !json && (input.file("tekken.json").is_some() || (no_other && mistral::is_there(input))) {
            return mistral::put(input, self.ctx, false, self.keys, self.notes);
        }
        self.add_prefix_space()?;
        if self.has_spm() {
            spm::put(input, self.ctx, spm::Style::Plain, self.keys, self.notes)?;
            if json {
                self.notes.push(
                    "the vocabulary comes from `tokenizer.model`; `tokenizer.json` gives special tokens only"
                        .into(),
                );
            }
        } else if tiktoken::is_there(input) && !json {
            self.notes.push("`tokenizer.model` is a tiktoken file, not a SentencePiece model".into());
            tiktoken::put(input, self.ctx, self.keys, self.notes)?;
        } else {
            let hf = self.tokenizer_json()?;
            if llama_hf::is_one(&hf) {
                llama_hf::put(input, &hf, self.ctx, self.keys, self.notes)?;
            } else {
                bpe::put(input, hf, self.ctx, &bpe::Style::GPT2, self.keys, self.notes)?;
            }
        }
        match self.ctx.vocab_size {
            // Code Llama, told by its size.
            Some(32016) => {
                let options = special::Options {
                    types: vec!["prefix", "suffix", "middle", "eot"],
                    defaults: vec![("prefix", 32007), ("suffix", 32008), ("middle", 32009), ("eot", 32010)],
                    ..special::Options::default()
                };
                let hf = HfTokenizer::read_without_model(input)?;
                special::put(input, hf.as_ref(), &options, 32016, self.keys, self.notes)?;
            }
            // Small Granite models, told by their size; SmolLM has it too.
            Some(49152) => self.keys.put(keys::ADD_BOS, false),
            _ => {}
        }
        Ok(())
    }

    /// `MPTModel.set_vocab` in `conversion/mpt.py`; Replit's file is called `spiece.model`.
    fn mpt(&mut self) -> Result<(), VocabError> {
        if HfTokenizer::read(self.input)?.is_some() {
            return self.gpt2(&bpe::Style::GPT2);
        }
        let given = self.input;
        let mut renamed = None;
        if let (None, Some(bytes)) = (given.file("tokenizer.model"), given.file("spiece.model")) {
            let mut files = given.files.clone();
            files.push(("tokenizer.model".into(), bytes));
            renamed = Some(Input { config: given.config.clone(), files, ..Input::default() });
        }
        let input = renamed.as_ref().unwrap_or(given);
        spm::put(input, self.ctx, spm::Style::Plain, self.keys, self.notes)?;
        self.keys.put(keys::ADD_BOS, false);
        for (key, id) in [(keys::PAD_ID, 3u32), (keys::EOS_ID, 1), (keys::UNK_ID, 0)] {
            self.keys.put(key, id);
        }
        Ok(())
    }

    /// The vocabulary rounded up, but not beyond the rows of the embedding: with more tokens than
    /// rows, llama.cpp does not load the file that the reference writes.
    fn rounded(&mut self, multiple: Option<u64>, default: u64, model_first: bool) -> Result<(), VocabError> {
        let config = &self.input.config;
        let stated = || {
            let key = "pad_vocab_size_multiple";
            config.get(key).or_else(|| config.get("text_config")?.get(key)).and_then(Json::as_u64)
        };
        let multiple = multiple.or_else(stated).filter(|n| *n > 0).unwrap_or(default);
        let mut ctx = self.ctx.clone();
        if let Some(size) = self.ctx.vocab_size {
            let rounded = size.div_ceil(multiple).saturating_mul(multiple);
            let room = self.ctx.embedding_rows.map_or(rounded, |rows| rounded.min(rows.max(size)));
            if room < rounded {
                self.notes.push(format!(
                    "the vocabulary is not rounded up from {size} to {rounded} tokens: the embedding has {room} rows"
                ));
            }
            ctx.vocab_size = Some(room);
        }
        let has_json = self.input.file("tokenizer.json").is_some();
        let mut put = Put { input: self.input, ctx: &ctx, keys: self.keys, notes: self.notes };
        if put.has_spm() && (model_first || !has_json) {
            put.spm(spm::Style::Plain)
        } else if has_json || put.input.file("vocab.json").is_some() {
            put.gpt2(&bpe::Style::GPT2)
        } else {
            Err(VocabError::NotSupported {
                what: "a model without tokenizer files, whose tokenizer is that of GPT-NeoX: put its `tokenizer.json` into the folder".into(),
            })
        }
    }

    fn roberta(&mut self) -> Result<(), VocabError> {
        match HfTokenizer::read(self.input)? {
            Some(hf) if hf.file != "vocab.txt" => {
                bpe::put(self.input, hf, self.ctx, &bpe::Style::GPT2, self.keys, self.notes)?;
                self.keys.put(keys::TOKEN_TYPE_COUNT, self.ctx.token_types());
                Ok(())
            }
            _ => self.wordpiece(),
        }
    }

    fn nomic(&mut self) -> Result<(), VocabError> {
        let hf = self.tokenizer_json()?;
        match hf.model.kind.as_deref() {
            Some("Unigram") => unigram::put_nomic(self.input, self.ctx, self.keys, self.notes),
            _ => wordpiece::put(self.input, &hf, self.ctx, self.keys, self.notes),
        }
    }

    fn jina(&mut self) -> Result<(), VocabError> {
        match hf::class_of(self.input).as_str() {
            "BertTokenizer" => self.wordpiece(),
            "RobertaTokenizer" => {
                let hf = self.tokenizer_json()?;
                let mut style = bpe::Style::GPT2;
                if hf.pre_tokenizer.get("type").and_then(Json::as_str) == Some("Whitespace") {
                    (style.model, style.pre) = ("whitespace", Some("whitespace"));
                }
                bpe::put(self.input, hf, self.ctx, &style, self.keys, self.notes)?;
                self.keys.put(keys::TOKEN_TYPE_COUNT, 2u32);
                Ok(())
            }
            class => Err(VocabError::NotSupported {
                what: format!("`tokenizer_config.json`: tokenizer class `{class}` for this architecture"),
            }),
        }
    }

    fn internlm3(&mut self) -> Result<(), VocabError> {
        let mut before = Keys::default();
        std::mem::swap(self.keys, &mut before);
        self.spm(spm::Style::Plain)?;
        let config = hf::tokenizer_config(self.input)?.unwrap_or_default();
        // Behind the arrays, before the ids.
        let mut entries = before;
        for (key, value) in std::mem::take(&mut self.keys.0) {
            let last_array = key == keys::TOKEN_TYPE;
            entries.put(&key, value);
            if let (true, Some(value)) = (last_array, config.get("add_prefix_space")) {
                entries.put(keys::ADD_SPACE_PREFIX, special::is_true(value));
            }
        }
        *self.keys = entries;
        let turn_end = config.get("added_tokens_decoder").and_then(Json::as_object).and_then(|listed| {
            let special = |token: &Json| token.get("special").is_some_and(special::is_true);
            let is_it = |token: &Json| token.get("content").and_then(Json::as_str) == Some("<|im_end|>");
            listed.iter().find(|(_, token)| is_it(token) && special(token))?.0.parse::<u32>().ok()
        });
        if let (Some(id), true) = (turn_end, self.keys.0.iter().any(|(key, _)| key == keys::EOS_ID)) {
            self.keys.put(keys::EOS_ID, id);
        }
        Ok(())
    }

    /// ChatGLM 3's config has its vocabulary's size under another name.
    fn chatglm3(&mut self, hf: Option<HfTokenizer>) -> Result<(), VocabError> {
        let padded = self.input.config.get("padded_vocab_size").and_then(Json::as_u64);
        let ctx = VocabContext { vocab_size: padded.or(self.ctx.vocab_size), ..self.ctx.clone() };
        let mut put = Put { input: self.input, ctx: &ctx, keys: self.keys, notes: self.notes };
        put.spm_or_json(hf, spm::Style::ChatGlm3)
    }

    /// `GemmaModel.set_vocab` and following in `conversion/gemma.py`.
    fn gemma(&mut self, hf: Option<HfTokenizer>, first: bool) -> Result<(), VocabError> {
        match hf {
            None => self.spm(spm::Style::Plain)?,
            hf => self.spm_or_json(hf, spm::Style::Plain)?,
        }
        if first {
            let options = special::Options {
                types: vec!["prefix", "suffix", "middle", "fsep", "eot"],
                defaults: vec![("eot", 107)],
                without_template: true,
                ..special::Options::default()
            };
            let hf = HfTokenizer::read_without_model(self.input)?;
            special::put(self.input, hf.as_ref(), &options, usize::MAX, self.keys, self.notes)?;
        }
        self.keys.put(keys::ADD_SPACE_PREFIX, false);
        Ok(())
    }

    fn laguna(&mut self) -> Result<(), VocabError> {
        self.gpt2(&bpe::Style { control: &["</assistant>"], ..bpe::Style::GPT2 })?;
        self.own_template()?;
        let id = |key: &str| self.input.config.get(key);
        if let Some(Json::Array(eos)) = id("eos_token_id") {
            let bos = id("bos_token_id");
            let extra = eos.iter().find(|eos| Some(*eos) != bos).and_then(Json::as_u64);
            if let Some(extra) = extra.and_then(|id| u32::try_from(id).ok()) {
                self.keys.put(keys::EOT_ID, Value::U32(extra));
            }
        }
        Ok(())
    }

    /// chat_template.jinja over what tokenizer_config.json says.
    fn own_template(&mut self) -> Result<(), VocabError> {
        if let Some(text) = template::jinja_file(self.input)? {
            self.keys.put(keys::CHAT_TEMPLATE, text);
        }
        Ok(())
    }
}
