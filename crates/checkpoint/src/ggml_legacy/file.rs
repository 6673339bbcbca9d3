//! One file: header, vocabulary, and the positions of its tensors.
//!
//! ```text
//! u32 magic, version (ggmf, ggjt)
//! u32 n_vocab, n_embd, n_mult, n_head, n_layer, n_rot, file type (and 1000 times a version, of some writers)
//! n_vocab times: u32 length, text, f32 score (ggmf, ggjt)
//! to the end:    u32 n_dims (1, 2), name length, type; u32 dims, row length first; name;
//!                zeros up to a multiple of 32 of the file (ggjt); data
//! ```
//!
//! Source: `llama_file_loader` of `llama.cpp` in llama.cpp of March to June 2023 and `GGMLModel.load` in
//! `convert_llama_ggml_to_gguf.py` (llama-cpp-python 0.3.36).

use std::collections::HashSet;

use gguf_container::Strings;

use super::{Blocks, LegacyError};

/// Magics in file byte order.
const GGML: [u8; 4] = *b"lmgg";
const GGMF: [u8; 4] = *b"fmgg";
const GGJT: [u8; 4] = *b"tjgg";
const GGLA: [u8; 4] = *b"algg";

/// True if these first bytes are those of a format before GGUF, readable or not.
pub(super) fn is_legacy(start: &[u8]) -> bool {
    [GGML, GGMF, GGJT, GGLA].iter().any(|magic| start.starts_with(magic))
}

/// Description of a whisper.cpp model by the first [`MAX_START`] bytes of its file, `None` for any other
/// file. All these formats have the magic `ggml` and no version.
///
/// Source: `whisper_model_load` and `whisper_vad_init_with_params` in `src/whisper.cpp`,
/// `models/convert-parakeet-to-ggml.py` of ggml-org/whisper.cpp@233fe1f.
pub(super) fn whisper_cpp_model(start: &[u8]) -> Option<&'static str> {
    let rest = start.strip_prefix(&GGML)?;
    let number = |index: usize| {
        let bytes = rest.get(4 * index..4 * index + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    // Eleven numbers, then the mel filters: bands and 201 frequencies.
    let is_whisper = || {
        let (n_state, n_mels) = (number(2)?, number(9)?);
        Some(n_mels > 0 && n_state == number(6)? && n_mels == number(11)? && number(12)? == 201)
    };
    // Fifteen numbers, then the mel filters.
    let is_parakeet = || {
        let (n_mels, n_fft) = (number(5)?, number(7)?);
        Some(n_mels > 0 && n_fft > 1 && n_mels == number(15)? && number(16)? == n_fft / 2 + 1)
    };
    match () {
        () if is_whisper() == Some(true) => Some("a Whisper model of whisper.cpp"),
        () if is_parakeet() == Some(true) => Some("a Parakeet model of whisper.cpp"),
        // A string with its length: the name of the model.
        () if rest.get(4..10) == Some(b"silero") => Some("a Silero VAD model of whisper.cpp"),
        () => None,
    }
}

const FOR_WHISPER_CPP: &str = "run it with whisper.cpp; for another type, convert the original checkpoint";

/// Number of bytes that [`whisper_cpp_model`] reads.
pub(super) const MAX_START: usize = 4 + 17 * 4;

/// Container of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Container {
    /// `ggml`, `ggmf` or `ggjt`.
    pub name: &'static str,
    /// Container version; 1 for ggml, which does not store one.
    pub version: u32,
}

impl std::fmt::Display for Container {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

impl Container {
    /// Version of the blocks in such a file: 2 is the current one.
    fn blocks_version(self) -> u32 {
        if self.name == "ggjt" { self.version - 1 } else { 0 }
    }
}

/// Hyperparameters in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hyperparameters {
    /// Number of tokens.
    pub n_vocab: u32,
    /// Embedding length.
    pub n_embd: u32,
    /// The feed-forward length was rounded up to a multiple of this.
    pub n_mult: u32,
    /// Number of heads.
    pub n_head: u32,
    /// Number of layers.
    pub n_layer: u32,
    /// RoPE dimensions per head.
    pub n_rot: u32,
    /// File type, without a version.
    pub file_type: u32,
}

/// Location of a tensor in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileTensor {
    pub name: String,
    /// Row length first.
    pub dims: Vec<u64>,
    pub blocks: Blocks,
    /// First byte in the file.
    pub begin: u64,
    pub n_bytes: u64,
}

#[derive(Debug)]
pub(super) struct Header {
    pub container: Container,
    pub hyperparameters: Hyperparameters,
    pub tokens: Strings,
    pub scores: Vec<f32>,
    pub tensors: Vec<FileTensor>,
}

/// A position in the bytes of a file.
struct Cursor<'a> {
    file: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    fn take(&mut self, needed: u64, item: &'static str) -> Result<&'a [u8], LegacyError> {
        let (offset, left) = (self.at as u64, self.left());
        if needed > left {
            return Err(LegacyError::Truncated { file: self.file.to_owned(), item, offset, needed, left });
        }
        let taken = &self.bytes[self.at..self.at + needed as usize];
        self.at += needed as usize;
        Ok(taken)
    }

    fn u32(&mut self, item: &'static str) -> Result<u32, LegacyError> {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(4, item)?);
        Ok(u32::from_le_bytes(bytes))
    }
}

pub(super) fn parse(file: &str, bytes: &[u8]) -> Result<Header, LegacyError> {
    let mut cursor = Cursor { file, bytes, at: 0 };
    let container = container(&mut cursor)?;
    let hyperparameters = hyperparameters(&mut cursor)?;
    let (tokens, scores) = vocabulary(&mut cursor, container, hyperparameters.n_vocab)?;
    let (mut tensors, mut names) = (Vec::new(), HashSet::new());
    while cursor.left() > 0 {
        let found = tensor(&mut cursor, container, tensors.len() as u64)?;
        if !names.insert(found.name.clone()) {
            return Err(LegacyError::Duplicate { file: file.to_owned(), tensor: found.name });
        }
        tensors.push(found);
    }
    Ok(Header { container, hyperparameters, tokens, scores, tensors })
}

fn container(cursor: &mut Cursor<'_>) -> Result<Container, LegacyError> {
    let mut magic = [0; 4];
    magic.copy_from_slice(cursor.take(4, "the magic")?);
    let file = || cursor.file.to_owned();
    let (name, max) = match magic {
        GGML => {
            return match whisper_cpp_model(cursor.bytes) {
                Some(item) => Err(LegacyError::Foreign { file: file(), item, advice: FOR_WHISPER_CPP }),
                None => Ok(Container { name: "ggml", version: 1 }),
            };
        }
        GGMF => ("ggmf", 1),
        GGJT => ("ggjt", 3),
        GGLA => {
            let item = "a LoRA adapter of llama.cpp before GGUF (magic `ggla`)";
            let advice = "convert the original PEFT adapter, `adapter_model.safetensors`";
            return Err(LegacyError::Foreign { file: file(), item, advice });
        }
        found => return Err(LegacyError::Magic { file: file(), found }),
    };
    let file = file();
    match cursor.u32("the version")? {
        version @ (100 | 101) if name == "ggmf" => {
            let _ = version;
            let item = "a file of rwkv.cpp (magic `ggmf`, version 100 or 101)";
            let advice = "convert the original RWKV 4, 6 or 7 checkpoint";
            Err(LegacyError::Foreign { file, item, advice })
        }
        version if version == 0 || version > max => {
            Err(LegacyError::Version { file, container: name, version, max })
        }
        version => Ok(Container { name, version }),
    }
}

fn hyperparameters(cursor: &mut Cursor<'_>) -> Result<Hyperparameters, LegacyError> {
    let mut numbers = [0; 7];
    for number in &mut numbers {
        *number = cursor.u32("the hyperparameters")?;
    }
    let [n_vocab, n_embd, n_mult, n_head, n_layer, n_rot, file_type] = numbers;
    let wrong = |item, found: u32, expected: String| {
        Err(LegacyError::Header { file: cursor.file.to_owned(), item, found: found.into(), expected })
    };
    // Rules out files of other models with the same magic.
    if n_vocab == 0 || n_embd == 0 || n_layer == 0 {
        return wrong("a size", 0, "a value above 0".to_owned());
    }
    if n_head == 0 || !n_embd.is_multiple_of(n_head) {
        return wrong("the number of heads", n_head, format!("a divisor of {n_embd}"));
    }
    if n_rot != n_embd / n_head {
        return wrong("the rotated part of a head", n_rot, format!("{}", n_embd / n_head));
    }
    // Some writers add 1000 times the version of their blocks, which is independent of the container's
    // version and not needed.
    let file_type = file_type % 1000;
    if file_type > 18 {
        return wrong("the file type", file_type, "0 to 18".to_owned());
    }
    Ok(Hyperparameters { n_vocab, n_embd, n_mult, n_head, n_layer, n_rot, file_type })
}

fn vocabulary(
    cursor: &mut Cursor<'_>,
    container: Container,
    n_vocab: u32,
) -> Result<(Strings, Vec<f32>), LegacyError> {
    let has_scores = container.name != "ggml";
    let least = if has_scores { 8 } else { 4 };
    if u64::from(n_vocab) > cursor.left() / least {
        let (found, expected) =
            (n_vocab.into(), format!("at most {}, the space left", cursor.left() / least));
        let (file, item) = (cursor.file.to_owned(), "the number of tokens");
        return Err(LegacyError::Header { file, item, found, expected });
    }
    let (mut tokens, mut scores) = (Strings::new(), Vec::new());
    for index in 0..n_vocab {
        // GPT4All's first model states 32001 tokens but contains 32000: the last was added for padding.
        if !has_scores && (index, n_vocab) == (32000, 32001) && is_tensor(cursor, container) {
            tokens.push(b"");
            scores.push(0.0);
            break;
        }
        let len = cursor.u32("the length of a token")?;
        tokens.push(cursor.take(len.into(), "a token")?);
        let score = if has_scores { cursor.u32("the score of a token")? } else { 0 };
        scores.push(f32::from_bits(score));
    }
    Ok((tokens, scores))
}

/// True if a tensor begins here.
fn is_tensor(cursor: &Cursor<'_>, container: Container) -> bool {
    let mut ahead = Cursor { ..*cursor };
    tensor(&mut ahead, container, 0).is_ok()
}

fn tensor(cursor: &mut Cursor<'_>, container: Container, index: u64) -> Result<FileTensor, LegacyError> {
    const HEADER: &str = "a tensor's header";
    let [n_dims, name_len, id] = [cursor.u32(HEADER)?, cursor.u32(HEADER)?, cursor.u32(HEADER)?];
    let file = || cursor.file.to_owned();
    let wrong = |item, found: u32, expected: &str| {
        let (found, expected) = (found.into(), expected.to_owned());
        Err(LegacyError::TensorHeader { file: file(), index, item, found, expected })
    };
    if !(1..=2).contains(&n_dims) {
        return wrong("the number of dimensions", n_dims, "1 or 2");
    }
    // Longer than any name of a LLaMA model, so the file is something else.
    if name_len == 0 || name_len > 256 {
        return wrong("the length of the name", name_len, "1 to 256");
    }
    let mut dims = Vec::with_capacity(2);
    for _ in 0..n_dims {
        dims.push(u64::from(cursor.u32("a tensor's dimensions")?));
    }
    let name = cursor.take(name_len.into(), "a tensor's name")?;
    let Ok(name) = std::str::from_utf8(name) else {
        return Err(LegacyError::Name { file: cursor.file.to_owned(), index });
    };
    let (file, name) = (cursor.file.to_owned(), name.to_owned());
    let Some(blocks) = Blocks::of(id, container.blocks_version()) else {
        return Err(LegacyError::Type { file, tensor: name, id, container: container.to_string() });
    };
    let (row_elems, n_rows) = (dims[0], dims.get(1).copied().unwrap_or(1));
    if row_elems == 0 || n_rows == 0 {
        let (item, expected) = ("a dimension", "a value above 0".to_owned());
        return Err(LegacyError::TensorHeader { file, index, item, found: 0, expected });
    }
    if !row_elems.is_multiple_of(blocks.n_elems()) {
        let (type_name, block_elems) = (blocks.name(), blocks.n_elems());
        return Err(LegacyError::RowLength { file, tensor: name, row_elems, type_name, block_elems });
    }
    if container.name == "ggjt" {
        let padding = (cursor.at as u64).next_multiple_of(32) - cursor.at as u64;
        cursor.take(padding, "the padding before a tensor")?;
    }
    // The product of two 32-bit numbers fits 64 bits; the number of bytes may not.
    let n_blocks = row_elems / blocks.n_elems() * n_rows;
    let n_bytes = n_blocks.saturating_mul(blocks.n_bytes());
    let begin = cursor.at as u64;
    cursor.take(n_bytes, "a tensor's data")?;
    Ok(FileTensor { name, dims, blocks, begin, n_bytes })
}
