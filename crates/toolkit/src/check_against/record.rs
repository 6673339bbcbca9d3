//! Records of an original model: how it tokenizes, renders prompts and predicts.
//!
//! A record is made where the model is in memory, for example by `gguf_tools.record` of the Python package. It consists of
//! two files: `NAME.json` as below, and `NAME.f32` with arrays of little-endian f32, row-major and consecutive.
//!
//! ```json
//! {
//!   "format": "gguf-tools record",
//!   "version": 1,
//!   "arrays": {"length": 94080},
//!   "tokenizer": {"class": "LlamaTokenizer", "tokens": 384},
//!   "special": {
//!     "bos": {"id": 1, "text": "<s>"}, "eos": {"id": 2, "text": "</s>"},
//!     "before": [1], "after": [], "ends": [{"id": 2, "text": "</s>"}]
//!   },
//!   "texts": [{"text": "Hello", "ids": [342, 75]}],
//!   "date": "2026-11-26",
//!   "prompts": [{
//!     "name": "system", "messages": [{"role": "user", "content": "Hello"}],
//!     "generation_prompt": true, "text": "[user] Hello\n[assistant] "
//!   }],
//!   "model": {"class": "LlamaForCausalLM", "dtype": "float32", "versions": "transformers 5.24.0"},
//!   "config": {"architectures": ["LlamaForCausalLM"]},
//!   "weights": [{"name": "lm_head.weight", "shape": [384, 256], "rows": {"at": 0, "shape": [384, 2]}}],
//!   "sequences": [{
//!     "ids": [1, 342], "positions": [0, 1], "logits": {"at": 768, "shape": [2, 384]},
//!     "modules": ["model.layers.0.self_attn.q_proj"], "inputs": {"at": 1536, "shape": [1, 2, 2]}
//!   }]
//! }
//! ```
//!
//! Every part is optional. An array is its first element in the file (`at`) and its shape.
//!
//! - `special`: tokens by their role, the ids that are added before and after a text, and the tokens that end a generation.
//! - `texts`: token ids without added tokens; special tokens in a text are recognized.
//! - `prompts`: arguments and result of `apply_chat_template`; `variables` are further variables of the template. `refused`
//!   replaces `text` if the template raised an error. `date` is the day of rendering.
//! - `config`: `config.json`. `model.dtype` is the type in which the model computed.
//! - `weights`: tensors of the state dict, shapes as torch counts them. `rows` (n_rows, 2) holds for each row its product
//!   with a vector of signs, and its Euclidean length. Rows run over all but the last dimension; elements of a vector are
//!   rows of one element. Sign `j` is negative if output `j` of SplitMix64 with seed 0 has its upper bit set.
//! - `sequences`: logits (n_positions, n_vocab) at `positions` of a sequence of tokens. `inputs` (n_modules, n_tokens, 2)
//!   holds the product with the signs and the Euclidean length of the vector that each linear module received, in the order of
//!   the computation.

use std::path::{Path, PathBuf};

use gguf_container::Mapped;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::{error::Error, text_file};

/// Value of `format`.
pub const FORMAT: &str = "gguf-tools record";
/// The version that is read.
pub const VERSION: u32 = 1;
/// Largest JSON part of a record in bytes.
const MAX_JSON_BYTES: u64 = 256 << 20;

/// A record with its arrays.
#[derive(Debug, Clone)]
pub struct Record {
    /// The JSON part.
    pub facts: Facts,
    /// The file of arrays.
    arrays: Mapped,
}

/// JSON part of a record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Distinguishes records from other JSON.
    pub format: String,
    /// The version of the format.
    pub version: u32,
    /// The file of arrays.
    pub arrays: Arrays,
    /// Special tokens.
    pub special: Option<Special>,
    /// Texts and their token ids.
    pub texts: Vec<Text>,
    /// Day on which prompts were rendered, `YYYY-MM-DD`.
    pub date: Option<String>,
    /// Conversations and their prompts.
    pub prompts: Vec<Prompt>,
    /// The model.
    pub model: Option<ModelFacts>,
    /// `config.json`.
    pub config: Option<Json>,
    /// Tensors of the state dict.
    pub weights: Vec<Weight>,
    /// Sequences of tokens and the predictions of the model.
    pub sequences: Vec<Predicted>,
}

/// Facts about the file of arrays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrays {
    /// Number of f32 in the file.
    pub length: u64,
}

/// Special tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Special {
    /// Beginning of a text.
    pub bos: Option<Token>,
    /// End of a text.
    pub eos: Option<Token>,
    /// Padding.
    pub pad: Option<Token>,
    /// Replacement of unknown text.
    pub unk: Option<Token>,
    /// Ids that the tokenizer adds before a text; `None` if unknown.
    pub before: Option<Vec<u32>>,
    /// Ids that the tokenizer adds after a text; `None` if unknown.
    pub after: Option<Vec<u32>>,
    /// Tokens that end a generation.
    pub ends: Vec<Token>,
}

/// A token with its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// Its text.
    pub text: String,
}

/// A text and its token ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// The text.
    pub text: String,
    /// Its ids, without added tokens.
    pub ids: Vec<u32>,
}

/// A conversation and its prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// Name of the conversation.
    pub name: String,
    /// Messages in OpenAI's format.
    pub messages: Json,
    /// Functions that the model may call, in OpenAI's format.
    #[serde(default)]
    pub tools: Option<Json>,
    /// Further variables of the template: an object.
    #[serde(default)]
    pub variables: Option<Json>,
    /// True if the beginning of the model's turn was added.
    pub generation_prompt: bool,
    /// The prompt; `None` if the template refused the conversation.
    #[serde(default)]
    pub text: Option<String>,
    /// The error of a template that refused the conversation.
    #[serde(default)]
    pub refused: Option<String>,
}

/// Facts about the original model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelFacts {
    /// Class name.
    pub class: String,
    /// Type of the computation, for example `bfloat16`.
    pub dtype: String,
    /// Versions of the libraries that ran it.
    pub versions: String,
}

/// A tensor of the state dict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weight {
    /// Its name.
    pub name: String,
    /// Its dimensions as torch counts them, row length last.
    pub shape: Vec<u64>,
    /// Product with signs and length of each row: (n_rows, 2).
    #[serde(default)]
    pub rows: Option<Array>,
}

/// A sequence of tokens and the predictions of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Predicted {
    /// The tokens, including special tokens.
    pub ids: Vec<u32>,
    /// Positions with logits.
    pub positions: Vec<usize>,
    /// (n_positions, n_vocab).
    pub logits: Array,
    /// Names of linear modules, in the order of the computation.
    #[serde(default)]
    pub modules: Vec<String>,
    /// Product with signs and length of the inputs of these modules: (n_modules, n_tokens, 2).
    #[serde(default)]
    pub inputs: Option<Array>,
}

/// Place of an array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Array {
    /// Index of its first element in the file of arrays.
    pub at: u64,
    /// Its dimensions, row length last.
    pub shape: Vec<u64>,
}

impl Record {
    /// Opens the record whose JSON part is at `path`. The file of arrays is mapped, not read.
    ///
    /// # Errors
    /// A file that cannot be read, JSON of another form or version, an array outside the file or of the wrong shape.
    ///
    /// # Examples
    /// ```no_run
    /// use gguf_toolkit::check_against::record::Record;
    ///
    /// # fn main() -> Result<(), gguf_toolkit::Error> {
    /// let record = Record::open("model.record.json".as_ref())?;
    /// println!("{} texts, {} prompts", record.facts.texts.len(), record.facts.prompts.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(path: &Path) -> Result<Record, Error> {
        let n_bytes = std::fs::metadata(path).map_err(|error| Error::cannot_open(path, error))?.len();
        if n_bytes > MAX_JSON_BYTES {
            return Err(Error::at(path, format_args!("{n_bytes} bytes, expected at most {MAX_JSON_BYTES}")));
        }
        let json = text_file::options(path)?;
        let arrays_path = arrays_path(path);
        let arrays = match std::fs::exists(&arrays_path) {
            Ok(false) => Mapped::from(Vec::new()),
            _ => Mapped::open(&arrays_path).map_err(|error| Error::cannot_open(&arrays_path, error))?,
        };
        Record::parse(&json, arrays).map_err(|problem| {
            Error::at(path, problem).hint(["make the record again with `gguf_tools.record`"])
        })
    }

    /// Parses a record from its JSON part and its arrays.
    ///
    /// # Errors
    /// A description of what is wrong.
    pub fn parse(json: &str, arrays: Mapped) -> Result<Record, String> {
        let facts: Facts = serde_json::from_str(json).map_err(|error| error.to_string())?;
        if facts.format != FORMAT {
            return Err(format!("`format`: expected `{FORMAT}`, found `{}`", facts.format));
        }
        if facts.version != VERSION {
            return Err(format!("`version`: expected {VERSION}, found {}", facts.version));
        }
        let expected = facts.arrays.length.checked_mul(4);
        if expected != Some(arrays.len() as u64) {
            let length = facts.arrays.length;
            return Err(format!("arrays: expected {length} f32, found {} bytes", arrays.len()));
        }
        let record = Record { facts, arrays };
        record.check()?;
        Ok(record)
    }

    /// Checks the shape of every array.
    fn check(&self) -> Result<(), String> {
        for Weight { name, shape, rows } in &self.facts.weights {
            let Some(rows) = rows else { continue };
            let dims = if shape.len() > 1 { &shape[..shape.len() - 1] } else { &shape[..] };
            let n_rows = product(dims).ok_or_else(|| format!("`{name}`: the shape is too large"))?;
            self.expect(rows, &[n_rows, 2], name)?;
        }
        for (index, sequence) in self.facts.sequences.iter().enumerate() {
            let subject = format!("sequence {}", index + 1);
            let Predicted { ids, positions, logits, modules, inputs } = sequence;
            if let Some(position) = positions.iter().find(|position| **position >= ids.len()) {
                return Err(format!("{subject}: position {position} of {} tokens", ids.len()));
            }
            let n_vocab = logits.shape.get(1).copied().unwrap_or(0);
            self.expect(logits, &[positions.len() as u64, n_vocab], &subject)?;
            if let Some(inputs) = inputs {
                self.expect(inputs, &[modules.len() as u64, ids.len() as u64, 2], &subject)?;
            }
        }
        Ok(())
    }

    /// Fails unless an array has this shape and lies in the file.
    fn expect(&self, array: &Array, shape: &[u64], subject: &str) -> Result<(), String> {
        if array.shape != shape {
            return Err(format!("{subject}: expected an array of shape {shape:?}, found {:?}", array.shape));
        }
        let end = product(shape).and_then(|n| n.checked_add(array.at));
        if end.is_some_and(|end| end <= self.facts.arrays.length) {
            Ok(())
        } else {
            Err(format!("{subject}: the array at {} is outside the file of arrays", array.at))
        }
    }

    /// All elements of an array; empty if it is not in the file.
    pub fn values(&self, array: &Array) -> Vec<f32> {
        let n = product(&array.shape).and_then(|n| usize::try_from(n).ok());
        n.map(|n| self.elements(array, 0, n)).unwrap_or_default()
    }

    /// Elements `from .. from + n` of an array; empty if they are outside the file.
    pub(super) fn elements(&self, array: &Array, from: u64, n: usize) -> Vec<f32> {
        let start = array.at.checked_add(from).and_then(|at| at.checked_mul(4));
        let start = start.and_then(|start| usize::try_from(start).ok());
        let range = start.and_then(|start| Some(start..start.checked_add(n.checked_mul(4)?)?));
        let bytes = range.and_then(|range| self.arrays.get(range)).unwrap_or_default();
        bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }
}

/// The file of arrays that belongs to a JSON part: the same name with the ending `.f32`.
pub fn arrays_path(path: &Path) -> PathBuf {
    path.with_extension("f32")
}

fn product(dims: &[u64]) -> Option<u64> {
    dims.iter().try_fold(1u64, |product, dim| product.checked_mul(*dim))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(parts: &str, n_floats: usize) -> Result<Record, String> {
        let json = format!(
            "{{\"format\": \"{FORMAT}\", \"version\": 1, \"arrays\": {{\"length\": {n_floats}}}{parts}}}"
        );
        Record::parse(&json, Mapped::from(vec![0; 4 * n_floats]))
    }

    #[test]
    fn arrays_outside_the_file_are_refused() {
        let sequence = |at: u64, positions: &str, shape: &str| {
            format!(
                ", \"sequences\": [{{\"ids\": [1, 2], \"positions\": {positions}, \"logits\": {{\"at\": {at}, \"shape\": {shape}}}}}]"
            )
        };
        assert!(parsed("", 0).is_ok());
        assert!(parsed(&sequence(2, "[0, 1]", "[2, 4]"), 10).is_ok());
        for (part, problem) in [
            (sequence(3, "[0, 1]", "[2, 4]"), "outside the file"),
            (sequence(u64::MAX, "[0, 1]", "[2, 4]"), "outside the file"),
            (sequence(0, "[0, 1]", "[2, 9223372036854775808]"), "outside the file"),
            (sequence(0, "[0, 1]", "[1, 4]"), "expected an array of shape"),
            (sequence(0, "[0, 2]", "[2, 4]"), "position 2 of 2 tokens"),
        ] {
            assert!(parsed(&part, 10).unwrap_err().contains(problem), "{part}");
        }
    }

    #[test]
    fn other_formats_are_refused() {
        let json = "{\"format\": \"gguf-tools record\", \"version\": 2}";
        assert!(Record::parse(json, Mapped::from(Vec::new())).unwrap_err().contains("`version`"));
        assert!(Record::parse("{}", Mapped::from(Vec::new())).unwrap_err().contains("`format`"));
        let json = "{\"format\": \"gguf-tools record\", \"version\": 1, \"arrays\": {\"length\": 2}}";
        assert!(Record::parse(json, Mapped::from(vec![0; 4])).unwrap_err().contains("expected 2 f32"));
    }
}
