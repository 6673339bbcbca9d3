//! Embeddings of texts, and scores of rerankers.

use gguf_container::Value;
use gguf_runtime::embed::{self, Pooling, labels, normalize};
use ndarray::Array2;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use super::Model;
use crate::{error::Error, eval_model::warn_of_text, events::Events};
use gguf_types::words;

/// Options of embeddings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmbedOptions {
    /// Combination of the vectors of tokens; `None` for the method that the file names.
    pub pooling: Option<Pooling>,
    /// Scale each vector to length 1 (L2).
    pub normalize: bool,
    /// Cut texts that are longer than the model supports, with a warning, instead of an error.
    pub truncate: bool,
    /// Read the text of special tokens as plain text, instead of as these tokens.
    pub plain: bool,
}

/// Embedding of one text.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding {
    /// Number of tokens of the text.
    pub n_tokens: usize,
    /// (1, width) f32, or with [`Pooling::None`] (n_tokens, width). With [`Pooling::Rank`], the width is the number of scores.
    pub vectors: Array2<f32>,
}

impl Embedding {
    /// A line of numbers for each vector.
    pub fn text(&self) -> String {
        let mut lines = String::new();
        for row in self.vectors.rows() {
            let numbers: Vec<String> = row.iter().map(f32::to_string).collect();
            lines.push_str(&numbers.join(" "));
            lines.push('\n');
        }
        lines
    }

    /// JSON object of the embedding of `text`, with the names of the scores of a reranker.
    pub fn json(&self, text: &str, pooling: Pooling, labels: &[String]) -> Json {
        let mut value = json!({ "text": text, "tokens": self.n_tokens });
        match pooling {
            Pooling::None => {
                let rows = self.vectors.rows().into_iter();
                value["vectors"] = rows.map(|row| row.iter().map(short).collect::<Json>()).collect();
            }
            Pooling::Rank => {
                value["scores"] = self.vectors.iter().map(short).collect();
                if !labels.is_empty() {
                    value["labels"] = labels.into();
                }
            }
            _ => value["vector"] = self.vectors.iter().map(short).collect(),
        }
        value
    }
}

/// A number of a vector with its own digits, without those that a conversion to f64 adds.
fn short(x: &f32) -> Json {
    x.to_string().parse::<f64>().map_or(Json::Null, Json::from)
}

/// Embeddings of texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Embeddings {
    /// The method that combined the vectors of tokens.
    pub pooling: Pooling,
    /// Names of the scores of a reranker; empty if the file has none.
    pub labels: Vec<String>,
    /// Embedding of each text, in order.
    pub texts: Vec<Embedding>,
}

/// Texts that run before their vectors are passed on.
const AT_ONCE: usize = 64;

impl Model {
    /// Embeddings of texts, or scores of a reranker with [`Pooling::Rank`], for which a tab separates query and document.
    ///
    /// # Errors
    /// [`Cause::Evaluation`](crate::Cause::Evaluation) if neither `options` nor the file names a method of pooling, for a model
    /// that makes no vectors, for a text that is longer than the model supports, and for values that are not finite;
    /// [`ErrorKind::Usage`](crate::ErrorKind::Usage) for a text without tokens.
    ///
    /// # Examples
    /// ```no_run
    /// use gguf_toolkit::{EmbedOptions, Model, RunOptions};
    ///
    /// # fn main() -> Result<(), gguf_toolkit::Error> {
    /// let model = Model::open("all-minilm.gguf", &RunOptions::default())?;
    /// let options = EmbedOptions { normalize: true, ..Default::default() };
    /// let found = model.embed(&["A llama is an animal.", "So is a camel."], &options)?;
    /// let [llama, camel] = [0, 1].map(|text: usize| found.texts[text].vectors.row(0));
    /// println!("cosine similarity {:.3}", llama.dot(&camel));
    /// # Ok(())
    /// # }
    /// ```
    pub fn embed(&self, texts: &[impl AsRef<str>], options: &EmbedOptions) -> Result<Embeddings, Error> {
        let mut all = Vec::with_capacity(texts.len());
        let mut keep = |_: usize, embedding: Embedding| {
            all.push(embedding);
            Ok(())
        };
        self.embed_each(texts, options, &mut keep, &())?;
        Ok(Embeddings { pooling: self.pooling(options)?, labels: self.labels().to_vec(), texts: all })
    }

    /// Same as [`Model::embed`] for many texts: `each` receives the index and the embedding of each text, in order.
    ///
    /// # Errors
    /// As [`Model::embed`]; the error that `each` returns.
    ///
    /// # Examples
    /// ```no_run
    /// # fn main() -> Result<(), gguf_toolkit::Error> {
    /// # let model = gguf_toolkit::Model::open("all-minilm.gguf", &Default::default())?;
    /// let lines: Vec<String> = (0..1000).map(|n| format!("Line {n}.")).collect();
    /// model.embed_each(&lines, &Default::default(), &mut |index, embedding| {
    ///     println!("{}: {} tokens", lines[index], embedding.n_tokens);
    ///     Ok(())
    /// }, &())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn embed_each(
        &self,
        texts: &[impl AsRef<str>],
        options: &EmbedOptions,
        each: &mut dyn FnMut(usize, Embedding) -> Result<(), Error>,
        events: &dyn Events,
    ) -> Result<(), Error> {
        self.embed_named(texts, &|index| format!("text {}", index + 1), options, each, events)
    }

    /// Same as [`Model::embed_each`], with names of the texts by index for messages.
    ///
    /// # Errors
    /// As [`Model::embed_each`].
    pub fn embed_named(
        &self,
        texts: &[impl AsRef<str>],
        name: &dyn Fn(usize) -> String,
        options: &EmbedOptions,
        each: &mut dyn FnMut(usize, Embedding) -> Result<(), Error>,
        events: &dyn Events,
    ) -> Result<(), Error> {
        let pooling = self.pooling(options)?;
        let tokens = texts.iter().enumerate();
        let plain = options.plain;
        let tokens =
            tokens.map(|(index, text)| self.text_tokens(pooling, plain, &name(index), text.as_ref()));
        let mut tokens: Vec<Vec<u32>> = tokens.collect::<Result<_, _>>()?;
        self.fit(&mut tokens, name, options.truncate, events)?;
        if let Some((longest, tokens)) = tokens.iter().enumerate().max_by_key(|(_, tokens)| tokens.len()) {
            warn_of_text(&self.inner, &name(longest), tokens.len(), events);
        }
        let mut index = 0;
        for tokens in tokens.chunks(AT_ONCE) {
            let vectors = embed::embed(&self.inner, tokens, pooling).map_err(|error| self.failed(error))?;
            for (tokens, mut values) in tokens.iter().zip(vectors) {
                let of_tokens = pooling == Pooling::None;
                let width = if of_tokens { self.inner.vector_width() } else { values.len() }.max(1);
                if options.normalize {
                    values.chunks_mut(width).for_each(normalize);
                }
                let vectors = Array2::from_shape_vec((values.len() / width, width), values);
                let vectors = vectors.map_err(|error| Error::new(error.to_string()))?;
                each(index, Embedding { n_tokens: tokens.len(), vectors })?;
                index += 1;
            }
        }
        Ok(())
    }

    /// The method that combines the vectors of tokens: that of `options`, or that of the file.
    ///
    /// # Errors
    /// [`Cause::Evaluation`](crate::Cause::Evaluation) if neither names one.
    pub fn pooling(&self, options: &EmbedOptions) -> Result<Pooling, Error> {
        embed::pooling(&self.inner, options.pooling).map_err(|error| self.failed(error))
    }

    /// Names of the scores of a reranker; empty if the file has none.
    pub fn labels(&self) -> &[String] {
        labels(&self.inner)
    }

    /// Cuts texts that are longer than the positions that the model has learned, or fails with the names of all of them. Tokens that
    /// the tokenizer adds at the end stay.
    fn fit(
        &self,
        texts: &mut [Vec<u32>],
        name: &dyn Fn(usize) -> String,
        truncate: bool,
        events: &dyn Events,
    ) -> Result<(), Error> {
        let Some((_, positions)) = self.inner.file().tensor("position_embd.weight") else { return Ok(()) };
        let limit = usize::try_from(positions.shape.dim(1)).unwrap_or(usize::MAX);
        let too_long = texts.iter_mut().enumerate().filter(|(_, tokens)| tokens.len() > limit);
        let mut named = Vec::new();
        let ends = self.inner.tokenizer().encode("", true, false).map_err(|error| self.failed(error))?;
        for (index, tokens) in too_long {
            named.push(format!("{} ({} tokens)", name(index), tokens.len()));
            let same = tokens.iter().rev().zip(ends.iter().rev()).take_while(|(token, end)| token == end);
            let end = tokens.split_off(tokens.len() - same.count().min(limit));
            tokens.truncate(limit - end.len());
            tokens.extend(end);
        }
        if named.is_empty() {
            return Ok(());
        }
        if !truncate {
            let message =
                format!("expected at most {limit} tokens (positions of the model): {}", named.join(", "));
            return Err(Error::new(message).hint([words!("split these texts, or cut them with [-truncate]")]));
        }
        named.iter().for_each(|text| events.warning(format!("{text}: cut to {limit} tokens")));
        Ok(())
    }

    /// Tokens of a text, or of a query and a document.
    fn text_tokens(
        &self,
        pooling: Pooling,
        is_plain: bool,
        name: &str,
        text: &str,
    ) -> Result<Vec<u32>, Error> {
        let tokenizer = self.inner.tokenizer();
        let template = self.inner.file().get("tokenizer.chat_template.rerank").and_then(Value::as_str);
        let tokens = match (text.split_once('\t').filter(|_| pooling == Pooling::Rank), template) {
            (Some((query, document)), Some(template)) => {
                let text = template.replace("{query}", query).replace("{document}", document);
                tokenizer.encode(text, true, true)
            }
            (Some((query, document)), None) => tokenizer.encode_pair(query, document, !is_plain),
            (None, _) => tokenizer.encode(text, true, !is_plain),
        };
        match tokens {
            Ok(tokens) if tokens.is_empty() => Err(Error::usage(format_args!("{name} has no tokens"))),
            tokens => tokens.map_err(|error| self.failed(error)),
        }
    }
}
