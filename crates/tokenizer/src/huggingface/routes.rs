//! Implementation of the routes: the files to read, their kinds, and additional keys.

use gguf_container::{Array, Value};
use serde_json::Value as Json;

use super::error::VocabError;
use super::hf::{self, HfTokenizer};
use super::keys;
use super::ranks::Ranks;
use super::route::Route;
use super::spm_model::SpmModel;
use super::writer::TokenizerWriter;
use super::{bpe, llama_hf, mistral, plamo, rwkv, special, spm, template, tiktoken, unigram, wordpiece};
use crate::json::is_truthy;

const NO_TOKENIZER: VocabError = VocabError::NoTokenizer {
    expected: "`tokenizer.model`; `tokenizer.json`; `vocab.json` with `merges.txt`",
};

/// The template that the reference gives Qwen 3 ASR, whose own is for sound.
const CHATML: &str = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + \
    message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ \
    '<|im_start|>assistant\\n' }}{% endif %}";

/// Writes the keys of the writer's route.
pub(super) fn write_keys(writer: &mut TokenizerWriter<'_>) -> Result<(), VocabError> {
    use bpe::Style;
    match writer.ctx.route {
        Route::Gpt2 | Route::Refact => writer.gpt2(&Style::GPT2),
        Route::Llama => writer.llama(),
        Route::MetaLlama => {
            writer.llama()?;
            writer.write_model_ids()
        }
        Route::SentencePiece => writer.spm(spm::Style::Plain),
        Route::Ernie4_5 => {
            writer.spm(spm::Style::Plain)?;
            writer.add_prefix_space()
        }
        Route::LlamaHf => writer.llama_hf(),
        // The reference tries the model first and takes a missing file for a no.
        Route::SentencePieceOrGpt2 if writer.has_spm() => writer.spm(spm::Style::Plain),
        Route::SentencePieceOrGpt2 => writer.gpt2(&Style::GPT2),
        Route::Qwen3Omni => writer.qwen3(None),
        Route::Qwen3Asr => writer.qwen3(Some(CHATML)),
        Route::SentencePieceOrLlamaHf if writer.has_spm() => writer.spm(spm::Style::Plain),
        Route::SentencePieceOrLlamaHf => writer.llama_hf(),
        Route::Mpt => writer.mpt(),
        // Nemotron 51B has Llama 3's vocabulary, DeciLM 7B Llama 2's. Without a size the former is meant.
        Route::Deci if writer.ctx.vocab_size.is_none_or(|n| n == 128_256) => writer.gpt2(&Style::GPT2),
        Route::Deci => writer.llama_hf(),
        // (multiple that is fixed, multiple where the config states none, whether tokenizer.model goes first)
        Route::Mamba => writer.rounded(None, 8, false),
        Route::Mamba2 => writer.rounded(None, 16, true),
        Route::GraniteHybrid => writer.rounded(Some(8), 8, true),
        Route::GraniteDense => writer.rounded(Some(1), 8, true),
        Route::NemotronH => writer.rounded(Some(8), 8, false),
        Route::Bert => writer.wordpiece(),
        Route::Roberta => writer.roberta(),
        Route::XlmRoberta => unigram::write_xlm_roberta(writer),
        Route::NomicBert => writer.nomic(),
        Route::JinaBert => writer.jina(),
        // These flags come first: the file's own, read later, take their places but not their order.
        Route::ModernBert => {
            for key in [keys::ADD_BOS, keys::ADD_EOS, keys::ADD_SEP] {
                writer.set(key, true);
            }
            writer.gpt2(&Style::GPT2)
        }
        Route::EuroBert => {
            writer.set(keys::ADD_BOS, false);
            writer.gpt2(&Style::GPT2)
        }
        Route::T5 => unigram::write_t5(writer),
        Route::RwkvWorld => rwkv::write_keys(writer),
        Route::Qwen => tiktoken::write_keys(writer),
        Route::HunyuanDense => {
            writer.gpt2(&Style::GPT2)?;
            writer.hunyuan_ends();
            Ok(())
        }
        Route::StableLm | Route::DeepSeek2 | Route::Hunyuan => writer.gpt2(&Style::GPT2),
        Route::KimiK3 => {
            writer.gpt2(&Style::GPT2)?;
            let config = &writer.input.config;
            let text = crate::json::text_config(config).and_then(|text| text.get("eos_token_id"));
            let id = text.or_else(|| config.get("eos_token_id")).and_then(Json::as_u64);
            if let Some(id) = id.and_then(|id| u32::try_from(id).ok()) {
                writer.set(keys::EOS_ID, id);
            }
            if !writer.has(keys::CHAT_TEMPLATE) {
                writer.note(
                    "missing chat template; convert_hf_to_gguf.py adds its own template for this architecture",
                );
            }
            Ok(())
        }
        // Phi 4 has Phi 3's class and GPT-4's tokens; only the tokenizer's class tells them apart.
        Route::Phi3 if hf::class_of(writer.input) == "GPT2Tokenizer" => writer.gpt2(&Style::GPT2),
        Route::Phi3 => writer.spm(spm::Style::Phi3),
        Route::InternLm2 => writer.spm(spm::Style::InternLm2),
        Route::InternLm3 => writer.internlm3(),
        Route::Arctic => writer.spm(spm::Style::Arctic),
        Route::Xverse => {
            let hf = writer.tokenizer_json()?;
            llama_hf::write_xverse(writer, &hf)
        }
        // ChatGLM 3, with its model or as tokenizer.json.
        Route::ChatGlm if writer.has_spm() => writer.chatglm3(None),
        Route::ChatGlm => match HfTokenizer::read(writer.input)? {
            Some(hf) if llama_hf::is_one(&hf) => writer.chatglm3(Some(hf)),
            hf => writer.gpt2_of(
                hf,
                &Style {
                    by_text: &[("eos", "<|endoftext|>"), ("eot", "<|user|>"), ("unk", "<|endoftext|>")],
                    ..Style::GPT2
                },
            ),
        },
        Route::Gemma => writer.gemma(None, true),
        Route::Gemma2 => writer.gemma(None, false),
        Route::Gemma3 if writer.has_spm() => writer.gemma(None, false),
        Route::Gemma3 => match HfTokenizer::read(writer.input)? {
            Some(hf) if !llama_hf::is_one(&hf) => writer.gpt2_of(Some(hf), &Style::GPT2),
            hf => writer.gemma(hf, false),
        },
        Route::Gemma4 => {
            let hf = writer.tokenizer_json()?;
            llama_hf::write_gemma4(writer, &hf)
        }
        Route::Glm4 | Route::GlmEdge => writer.gpt2(&Style {
            by_text: &[
                ("eos", "<|endoftext|>"),
                ("eot", "<|user|>"),
                ("unk", "<|endoftext|>"),
                ("bos", "<|endoftext|>"),
            ],
            ..Style::GPT2
        }),
        Route::Glm4Moe => writer.gpt2(&Style {
            by_text: &[
                ("bos", "[gMASK]"),
                ("eot", "<|user|>"),
                ("unk", "<|endoftext|>"),
                ("eom", "<|observation|>"),
            ],
            ..Style::GPT2
        }),
        Route::SolarOpen => writer.gpt2(&Style {
            by_text: &[
                ("eos", "<|endoftext|>"),
                ("eot", "<|endoftext|>"),
                ("unk", "<unk>"),
                ("bos", "<|startoftext|>"),
            ],
            ..Style::GPT2
        }),
        Route::Dots3 => writer.gpt2(&Style { by_text: &[("eot", "<|endofassistant|>")], ..Style::GPT2 }),
        // 151643 is `<|endoftext|>` of Qwen's vocabulary.
        Route::InternS1 => writer.gpt2(&Style { by_id: &[("bos", 151_643)], ..Style::GPT2 }),
        Route::Llada => {
            writer.gpt2(&Style { plain_added: true, ..Style::GPT2 })?;
            writer.set(keys::ADD_BOS, true);
            Ok(())
        }
        Route::Laguna => writer.laguna(),
        Route::MiniMax => {
            writer.gpt2(&Style::GPT2)?;
            writer.own_template()
        }
        Route::MuseGlimmer => {
            writer.gpt2(&Style::GPT2)?;
            // After all other keys, if nothing set it before.
            if let Some(id) = writer.token_id("<|eot|>") {
                writer.set(keys::EOT_ID, id);
            }
            Ok(())
        }
        Route::Nemotron => {
            writer.spm(spm::Style::Plain)?;
            writer.set(keys::PAD_ID, 0u32);
            writer.set(keys::UNK_ID, 1u32);
            Ok(())
        }
        Route::Mistral => mistral::write_keys(writer, true),
        Route::Plamo2 => plamo::write_keys(writer),
        Route::Plamo3 => plamo::write_with_template(writer),
        Route::None => {
            writer.set(keys::MODEL, "none");
            Ok(())
        }
    }
}

/// Steps of single routes. `LlamaModel.set_vocab` and similar functions try several kinds of files in their
/// own order.
impl TokenizerWriter<'_> {
    /// True if there is a tokenizer.model that is not a renamed tiktoken file.
    fn has_spm(&self) -> bool {
        self.file("tokenizer.model").is_some_and(|bytes| !Ranks::is_one(bytes))
    }

    fn tokenizer_json(&self) -> Result<HfTokenizer, VocabError> {
        HfTokenizer::read(self.input)?.ok_or(NO_TOKENIZER)
    }

    /// Byte-level BPE that lists its ids; else a tiktoken file.
    fn gpt2(&mut self, style: &bpe::Style) -> Result<(), VocabError> {
        self.gpt2_of(HfTokenizer::read(self.input)?, style)
    }

    /// As `gpt2`, of what was read already: a large file takes its time.
    fn gpt2_of(&mut self, hf: Option<HfTokenizer>, style: &bpe::Style) -> Result<(), VocabError> {
        match hf {
            Some(hf) => bpe::write_keys(self, hf, style),
            None if tiktoken::exists(self.input) => tiktoken::write_keys(self),
            None => Err(NO_TOKENIZER),
        }
    }

    fn llama_hf(&mut self) -> Result<(), VocabError> {
        let hf = self.tokenizer_json()?;
        if !llama_hf::is_one(&hf) {
            return Err(VocabError::NotSupported {
                subject: format!("`{}`: expected a llama tokenizer", hf.file),
            });
        }
        llama_hf::write_keys(self, &hf)
    }

    /// tokenizer.model, or else the same model as tokenizer.json, with scores derived from merges.
    fn spm(&mut self, style: spm::Style) -> Result<(), VocabError> {
        let has_model = self.file("tokenizer.model").is_some();
        let hf = if has_model { None } else { HfTokenizer::read(self.input)? };
        self.spm_or_json(hf, style)
    }

    /// As `spm`, of what was read already.
    fn spm_or_json(&mut self, hf: Option<HfTokenizer>, style: spm::Style) -> Result<(), VocabError> {
        if let Some(hf) = hf.filter(llama_hf::is_one) {
            return llama_hf::write_ranked(self, &hf, style);
        }
        spm::write_keys(self, style)
    }

    /// The id of a token of the vocabulary that has been written.
    fn token_id(&self, token: &str) -> Option<u32> {
        let Value::Array(Array::String(tokens)) = self.entries.get(keys::TOKENS)? else { return None };
        u32::try_from(tokens.iter().position(|other| other == token.as_bytes())?).ok()
    }

    /// `Qwen3ASRTextModel.set_vocab` and `Qwen3OmniMoeTextModel.set_vocab` in `conversion/qwen3vl.py`.
    fn qwen3(&mut self, template: Option<&str>) -> Result<(), VocabError> {
        match self.has_spm() {
            true => self.spm(spm::Style::Plain)?,
            false => self.gpt2(&bpe::Style::GPT2)?,
        }
        if let Some(template) = template {
            self.set(keys::CHAT_TEMPLATE, template);
        }
        let config = hf::tokenizer_config(self.input)?.unwrap_or_default();
        let listed = config.get("added_tokens_decoder").and_then(Json::as_object);
        let is_im_end = |token: &Json| token.get("content").and_then(Json::as_str) == Some("<|im_end|>");
        let turn_end = listed.and_then(|listed| listed.iter().find(|(_, token)| is_im_end(token)));
        if let Some(id) = turn_end.and_then(|(id, _)| id.parse::<u32>().ok()) {
            self.set(keys::BOS_ID, id);
            self.set(keys::EOS_ID, id);
        }
        Ok(())
    }

    fn wordpiece(&mut self) -> Result<(), VocabError> {
        let hf = self.tokenizer_json()?;
        wordpiece::write_keys(self, &hf)
    }

    /// `add_prefix_space` of tokenizer_config.json, if present.
    fn add_prefix_space(&mut self) -> Result<(), VocabError> {
        let config = hf::tokenizer_config(self.input)?.unwrap_or_default();
        match config.get("add_prefix_space") {
            None | Some(Json::Null) => {}
            Some(value) => self.set(keys::ADD_SPACE_PREFIX, is_truthy(value)),
        }
        Ok(())
    }

    /// `LlamaModel.set_vocab` in `conversion/llama.py`.
    fn llama(&mut self) -> Result<(), VocabError> {
        let input = self.input;
        // Mistral's own files count only where Hugging Face's are not there.
        let json = self.file("tokenizer.json").is_some();
        let is_only = self.file("tokenizer.model").is_none() && self.file("vocab.json").is_none();
        if !json && (self.file("tekken.json").is_some() || (is_only && mistral::exists(input))) {
            return mistral::write_keys(self, false);
        }
        self.add_prefix_space()?;
        if self.has_spm() {
            spm::write_keys(self, spm::Style::Plain)?;
            if json {
                self.note(
                    "the vocabulary is from `tokenizer.model`; only special tokens are from `tokenizer.json`",
                );
            }
        } else if tiktoken::exists(input) && !json {
            self.note("`tokenizer.model` is a tiktoken file, not a SentencePiece model");
            tiktoken::write_keys(self)?;
        } else {
            let hf = self.tokenizer_json()?;
            if llama_hf::is_one(&hf) {
                llama_hf::write_keys(self, &hf)?;
            } else {
                bpe::write_keys(self, hf, &bpe::Style::GPT2)?;
            }
        }
        // `LlamaModel.set_vocab` knows some models by the size of their vocabulary.
        match self.ctx.vocab_size {
            // Code Llama, known by its size: the tokens for filling in the middle have no names in its files.
            Some(32016) => {
                let options = special::Options {
                    types: vec!["prefix", "suffix", "middle", "eot"],
                    defaults: vec![("prefix", 32007), ("suffix", 32008), ("middle", 32009), ("eot", 32010)],
                    ..special::Options::default()
                };
                let hf = HfTokenizer::read_without_model(input)?;
                special::write_keys(self, hf.as_ref(), &options, 32016)?;
            }
            // Small Granite models, known by their size; SmolLM has it too.
            Some(49152) => self.set(keys::ADD_BOS, false),
            _ => {}
        }
        Ok(())
    }

    /// Begin and end of text as tokenizer.model has them, where no other file says them.
    fn write_model_ids(&mut self) -> Result<(), VocabError> {
        let Some(bytes) = self.file("tokenizer.model").filter(|bytes| !Ranks::is_one(bytes)) else {
            return Ok(());
        };
        let model = SpmModel::read(bytes).map_err(|problem| hf::malformed("tokenizer.model", &problem))?;
        for (key, id) in [(keys::BOS_ID, model.bos_id), (keys::EOS_ID, model.eos_id)] {
            // -1 stands for none.
            if id != u32::MAX && !self.has(key) {
                self.set(key, id);
            }
        }
        Ok(())
    }

    /// `MPTModel.set_vocab` in `conversion/mpt.py`; Replit's file is called `spiece.model`.
    fn mpt(&mut self) -> Result<(), VocabError> {
        if HfTokenizer::read(self.input)?.is_some() {
            return self.gpt2(&bpe::Style::GPT2);
        }
        match self.file("tokenizer.model").or_else(|| self.file("spiece.model")) {
            Some(bytes) => spm::write_model(self, bytes, spm::Style::Plain)?,
            None => spm::write_keys(self, spm::Style::Plain)?,
        }
        // Fixed ids instead of those in the configs: SEA-LION's, which Replit shares.
        self.set(keys::ADD_BOS, false);
        for (key, id) in [(keys::PAD_ID, 3u32), (keys::EOS_ID, 1), (keys::UNK_ID, 0)] {
            self.set(key, id);
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
        // Rows of matrices that are multiples of 8 or 16 are what kernels like; the extra ones have no token.
        let multiple = multiple.or_else(stated).filter(|n| *n > 0).unwrap_or(default);
        if let Some(size) = self.ctx.vocab_size {
            let rounded = size.div_ceil(multiple).saturating_mul(multiple);
            let room = self.ctx.embedding_rows.map_or(rounded, |rows| rounded.min(rows.max(size)));
            if room < rounded {
                self.note(format!(
                    "the vocabulary is not padded from {size} to {rounded} tokens, because the embedding has \
                        {room} rows"
                ));
            }
            self.ctx.vocab_size = Some(room);
        }
        let has_json = self.file("tokenizer.json").is_some();
        if self.has_spm() && (model_first || !has_json) {
            self.spm(spm::Style::Plain)
        } else if has_json || self.file("vocab.json").is_some() {
            self.gpt2(&bpe::Style::GPT2)
        } else {
            Err(VocabError::NotSupported {
                subject: "missing tokenizer: copy `tokenizer.json` of GPT-NeoX into the folder".into(),
            })
        }
    }

    fn roberta(&mut self) -> Result<(), VocabError> {
        match HfTokenizer::read(self.input)? {
            Some(hf) if hf.file != "vocab.txt" => {
                bpe::write_keys(self, hf, &bpe::Style::GPT2)?;
                self.set(keys::TOKEN_TYPE_COUNT, self.ctx.token_types());
                Ok(())
            }
            _ => self.wordpiece(),
        }
    }

    fn nomic(&mut self) -> Result<(), VocabError> {
        let hf = self.tokenizer_json()?;
        match hf.model.kind.as_deref() {
            Some("Unigram") => unigram::write_nomic(self),
            _ => wordpiece::write_keys(self, &hf),
        }
    }

    fn jina(&mut self) -> Result<(), VocabError> {
        match hf::class_of(self.input).as_str() {
            "BertTokenizer" => self.wordpiece(),
            "RobertaTokenizer" => {
                let hf = self.tokenizer_json()?;
                // A tokenizer of whole words, which the reference writes as a separate model
                // (`_set_vocab_whitespace`); its hash is that of another one, so the name is not looked up.
                let mut style = bpe::Style::GPT2;
                if hf.pre_tokenizer.get("type").and_then(Json::as_str) == Some("Whitespace") {
                    (style.model, style.pre) = ("whitespace", Some("whitespace"));
                }
                bpe::write_keys(self, hf, &style)?;
                self.set(keys::TOKEN_TYPE_COUNT, 2u32);
                Ok(())
            }
            class => Err(VocabError::NotSupported {
                subject: format!("`tokenizer_config.json`: tokenizer class `{class}` for this architecture"),
            }),
        }
    }

    /// `InternLM3Model.set_vocab` in `conversion/internlm.py`.
    fn internlm3(&mut self) -> Result<(), VocabError> {
        self.spm(spm::Style::Plain)?;
        let config = hf::tokenizer_config(self.input)?.unwrap_or_default();
        // The reference writes this key after the arrays and before the ids. A tokenizer.json alone may
        // already have set it.
        if let Some(value) = config.get("add_prefix_space").filter(|_| !self.has(keys::ADD_SPACE_PREFIX)) {
            self.set_after(keys::TOKEN_TYPE, keys::ADD_SPACE_PREFIX, is_truthy(value));
        }
        // A chat model's turn ends with a token that its config does not call eos.
        let turn_end = config.get("added_tokens_decoder").and_then(Json::as_object).and_then(|listed| {
            let special = |token: &Json| token.get("special").is_some_and(is_truthy);
            let is_im_end = |token: &Json| token.get("content").and_then(Json::as_str) == Some("<|im_end|>");
            listed.iter().find(|(_, token)| is_im_end(token) && special(token))?.0.parse::<u32>().ok()
        });
        if let (Some(id), true) = (turn_end, self.has(keys::EOS_ID)) {
            self.set(keys::EOS_ID, id);
        }
        Ok(())
    }

    /// ChatGLM 3's config has its vocabulary's size under another name.
    fn chatglm3(&mut self, hf: Option<HfTokenizer>) -> Result<(), VocabError> {
        let padded = self.input.config.get("padded_vocab_size").and_then(Json::as_u64);
        self.ctx.vocab_size = padded.or(self.ctx.vocab_size);
        self.spm_or_json(hf, spm::Style::ChatGlm3)
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
            special::write_keys(self, hf.as_ref(), &options, usize::MAX)?;
        }
        self.set(keys::ADD_SPACE_PREFIX, false);
        Ok(())
    }

    /// The ends of texts and turns of `HunYuanModel.set_vocab` in `conversion/hunyuan.py`: other configs are wrong.
    fn hunyuan_ends(&mut self) {
        if let Some(id) = self.ctx.end_of_document.and_then(|id| u32::try_from(id).ok()) {
            self.set(keys::EOS_ID, id);
        }
        let eos =
            self.input.generation_config.as_ref().and_then(|config| config.get("eos_token_id")?.as_array());
        let first = eos.filter(|eos| eos.len() >= 2).and_then(|eos| eos[0].as_u64());
        if let Some(id) = first.and_then(|id| u32::try_from(id).ok()) {
            self.set(keys::EOT_ID, id);
        }
    }

    fn laguna(&mut self) -> Result<(), VocabError> {
        self.gpt2(&bpe::Style { control: &["</assistant>"], ..bpe::Style::GPT2 })?;
        self.own_template()?;
        let id = |key: &str| self.input.config.get(key);
        if let Some(Json::Array(eos)) = id("eos_token_id") {
            let bos = id("bos_token_id");
            let extra = eos.iter().find(|eos| Some(*eos) != bos).and_then(Json::as_u64);
            if let Some(extra) = extra.and_then(|id| u32::try_from(id).ok()) {
                self.set(keys::EOT_ID, Value::U32(extra));
            }
        }
        Ok(())
    }

    /// chat_template.jinja over what tokenizer_config.json says.
    fn own_template(&mut self) -> Result<(), VocabError> {
        if let Some(text) = template::jinja_file(self.input)? {
            self.set(keys::CHAT_TEMPLATE, text);
        }
        Ok(())
    }
}
