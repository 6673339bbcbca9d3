//! The reference's file of a base model's predictions: `llama-perplexity --kl-divergence-base`.
//!
//! ```text
//! "_logits_"
//! u32 context                  tokens in a window
//! i32 n_vocab
//! i32 n_windows
//! i32 tokens[n_windows][context]           as tokenized: no BOS put in
//! n_windows times, for the positions context/2 .. context-1:
//!   f32 scale, f32 least                   ln p = scale * step + least
//!   u16 steps[n_vocab], one more where n_vocab is odd
//! ```
//!
//! Little-endian. The last position of a window predicts a token of the next one and is not
//! there. Log-probabilities more than 16 below the largest are stored as 16 below.
//!
//! Source: `perplexity`, `log_softmax` of four arguments and `kl_divergence` in
//! `tools/perplexity/perplexity.cpp` of llama.cpp as vendored in llama-cpp-python 0.3.36.

use std::path::Path;

use gguf_container::{Mapped, Output};
use gguf_quant::round::nearest_int;

use crate::{Error, stats::LogSoftmax};

/// The first eight bytes.
pub const MAGIC: [u8; 8] = *b"_logits_";
const HEADER_BYTES: usize = 20;
/// Range below the largest log-probability that is resolved.
const SPREAD: f32 = 16.0;

/// Header of a file, before its predictions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Tokens in a window.
    pub context: usize,
    /// Tokens that are predicted.
    pub n_vocab: usize,
    /// Windows.
    pub n_chunks: usize,
}

impl Layout {
    /// Predictions per chunk: those of its second half.
    pub fn n_positions(&self) -> usize {
        self.context.saturating_sub(1 + self.context / 2)
    }

    fn position_bytes(&self) -> Option<usize> {
        // Two f32 are four u16: the header of a position counts as 4 more steps of 2 bytes each.
        self.n_vocab.checked_next_multiple_of(2)?.checked_add(4)?.checked_mul(2)
    }

    fn tokens_bytes(&self) -> Option<usize> {
        self.n_chunks.checked_mul(self.context)?.checked_mul(4)
    }

    /// Start of the predictions of chunk `index`.
    fn chunk_at(&self, index: usize) -> Option<usize> {
        // Every product is checked: the three counts are read from the file and may multiply beyond usize.
        let before = self.position_bytes()?.checked_mul(self.n_positions())?.checked_mul(index)?;
        HEADER_BYTES.checked_add(self.tokens_bytes()?)?.checked_add(before)
    }

    /// Bytes of the entire file; `None` where that is more than a machine addresses.
    pub fn file_bytes(&self) -> Option<usize> {
        self.chunk_at(self.n_chunks)
    }
}

/// A file, mapped.
pub struct LogitsFile {
    bytes: Mapped,
    layout: Layout,
}

impl LogitsFile {
    /// True if the file at `path` starts like one.
    pub fn is_one(path: &Path) -> bool {
        Mapped::open(path).is_ok_and(|bytes| bytes.starts_with(&MAGIC))
    }

    /// Maps the file at `path` and checks that it is as long as it says.
    ///
    /// # Errors
    /// [`Error::Gguf`] when it cannot be mapped, [`Error::LogitsFile`] when it is no such file.
    pub fn open(path: &Path) -> Result<LogitsFile, Error> {
        let bytes = Mapped::open(path).map_err(|source| gguf_container::Error::Io {
            action: "open",
            path: path.to_owned(),
            offset: None,
            source,
        })?;
        LogitsFile::parse(bytes)
    }

    /// Reads a file that is mapped or in memory.
    ///
    /// # Errors
    /// [`Error::LogitsFile`].
    pub fn parse(bytes: impl Into<Mapped>) -> Result<LogitsFile, Error> {
        let bytes = bytes.into();
        let bad = |field, expected: String, found: String| Error::LogitsFile { field, expected, found };
        if !bytes.starts_with(&MAGIC) {
            let start = bytes[..bytes.len().min(MAGIC.len())].escape_ascii().to_string();
            return Err(bad("the first bytes", "_logits_".into(), start));
        }
        if bytes.len() < HEADER_BYTES {
            return Err(bad("the length", format!("at least {HEADER_BYTES}"), bytes.len().to_string()));
        }
        let number = |at: usize| {
            let mut number = [0; 4];
            number.copy_from_slice(&bytes[at..at + 4]);
            i32::from_le_bytes(number)
        };
        let count = |field, at, least: i32| match usize::try_from(number(at)) {
            Ok(count) if number(at) >= least => Ok(count),
            _ => Err(bad(field, format!("a number from {least}"), number(at).to_string())),
        };
        // Two tokens are needed for a prediction of one, and the counts are i32 in the reference.
        let layout = Layout {
            context: count("the number of tokens in a chunk", 8, 2)?,
            n_vocab: count("the number of predicted tokens", 12, 1)?,
            n_chunks: count("the number of chunks", 16, 0)?,
        };
        match layout.file_bytes() {
            Some(expected) if expected == bytes.len() => Ok(LogitsFile { bytes, layout }),
            expected => {
                let expected = expected.map_or("less".to_owned(), |expected| expected.to_string());
                Err(bad("the length in bytes", expected, bytes.len().to_string()))
            }
        }
    }

    /// Header of the file.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The tokens of all windows, (n_windows, context).
    ///
    /// # Errors
    /// [`Error::LogitsFile`] for a token that is not in the vocabulary.
    pub fn tokens(&self) -> Result<Vec<u32>, Error> {
        let end = self.layout.chunk_at(0).expect("the length was checked");
        let tokens = self.bytes[HEADER_BYTES..end].as_chunks::<4>().0;
        let checked = |token: &[u8; 4]| {
            let id = i32::from_le_bytes(*token);
            u32::try_from(id).ok().filter(|id| (*id as usize) < self.layout.n_vocab).ok_or_else(|| {
                let expected = format!("from 0 to {}", self.layout.n_vocab - 1);
                Error::LogitsFile { field: "a token", expected, found: id.to_string() }
            })
        };
        tokens.iter().map(checked).collect()
    }

    /// Prediction after token `context / 2 + index` of a chunk.
    ///
    /// # Panics
    /// If there is no such chunk or position.
    pub fn position(&self, chunk: usize, index: usize) -> PackedLogProbs<'_> {
        assert!(chunk < self.layout.n_chunks && index < self.layout.n_positions());
        let size = self.layout.position_bytes().expect("the length was checked");
        let at = self.layout.chunk_at(chunk).expect("the length was checked") + index * size;
        PackedLogProbs { bytes: &self.bytes[at..at + size], n_vocab: self.layout.n_vocab }
    }
}

/// Log-probabilities of one position, 16 bits each.
#[derive(Debug, Clone, Copy)]
pub struct PackedLogProbs<'a> {
    bytes: &'a [u8],
    n_vocab: usize,
}

impl PackedLogProbs<'_> {
    /// All log-probabilities, (n_vocab).
    pub fn decode(&self) -> Vec<f32> {
        let (floats, steps) = self.bytes.split_at(8);
        let float = |at: usize| f32::from_bits(u32::from_le_bytes([0, 1, 2, 3].map(|i| floats[at + i])));
        let (scale, least) = (float(0), float(4));
        let steps = steps.as_chunks::<2>().0.iter().take(self.n_vocab);
        steps.map(|step| scale * f32::from(u16::from_le_bytes(*step)) + least).collect()
    }
}

/// Packs the logits of one position, (n_vocab), as the reference does.
///
/// Source: `log_softmax` of four arguments.
pub fn pack(logits: &[f32], out: &mut Vec<u8>) {
    let softmax = LogSoftmax::of(logits);
    let (max, log_sum) = (softmax.max, softmax.log_sum as f32);
    // ln p = scale * step + least, with the steps 0 to 65535 over the range from the smallest logit to the largest, but at
    // most over 16 below the largest: then a step is 16 / 65535 nats, about 0.00024.
    let min = softmax.min.max(max - SPREAD);
    let scale = (max - min) / 65535.0;
    out.extend(scale.to_le_bytes());
    out.extend((min - max - log_sum).to_le_bytes());
    // All logits equal: every step is 0 and `least` alone says ln p.
    let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    let steps = logits.iter().map(|&logit| {
        if scale > 0.0 && logit > min { nearest_int(inverse * (logit - min)) as u16 } else { 0 }
    });
    out.extend(steps.flat_map(u16::to_le_bytes));
    // Positions are as long as their floats need to stay aligned to 4 bytes in the reference's array of u16.
    if !logits.len().is_multiple_of(2) {
        out.extend([0, 0]);
    }
}

/// A file being written: under a temporary name until it is complete.
#[derive(Debug)]
pub struct Writer {
    output: Output,
    layout: Layout,
}

impl Writer {
    /// Creates the file with its tokens, (n_windows, context), and room for the predictions.
    ///
    /// # Errors
    /// [`Error::Gguf`] when it cannot be created; [`Error::LogitsFile`] for numbers beyond what
    /// the file can say, and for tokens of another number.
    pub fn create(path: &Path, layout: Layout, tokens: &[u32], force: bool) -> Result<Writer, Error> {
        let bad = |field, expected: String, found: usize| Error::LogitsFile {
            field,
            expected,
            found: found.to_string(),
        };
        if tokens.len() != layout.n_chunks * layout.context {
            let expected = (layout.n_chunks * layout.context).to_string();
            return Err(bad("the number of tokens", expected, tokens.len()));
        }
        let mut header = MAGIC.to_vec();
        for (field, number) in [
            ("the number of tokens in a chunk", layout.context),
            ("the number of predicted tokens", layout.n_vocab),
            ("the number of chunks", layout.n_chunks),
        ] {
            let number =
                i32::try_from(number).map_err(|_| bad(field, format!("at most {}", i32::MAX), number))?;
            header.extend(number.to_le_bytes());
        }
        header.extend(tokens.iter().flat_map(|token| token.to_le_bytes()));
        // The entire length is reserved now, so that a full disk is found before the model runs.
        let Some(n_bytes) = layout.file_bytes() else {
            return Err(bad("the number of chunks", "less".into(), layout.n_chunks));
        };
        let output = Output::create(path, n_bytes as u64, force)?;
        output.write_at(0, &header)?;
        Ok(Writer { output, layout })
    }

    /// Writes one prediction, after token `context / 2 + index` of a chunk: logits (n_vocab). Threads may
    /// call this concurrently.
    ///
    /// # Errors
    /// [`Error::Gguf`] if it cannot be written.
    ///
    /// # Panics
    /// If there is no such chunk or position, or for another number of logits.
    pub fn position(&self, chunk: usize, index: usize, logits: &[f32]) -> Result<(), Error> {
        let Layout { n_vocab, n_chunks, .. } = self.layout;
        assert!(chunk < n_chunks && index < self.layout.n_positions() && logits.len() == n_vocab);
        let mut bytes = Vec::new();
        pack(logits, &mut bytes);
        // Every position has its own place, so that threads write in any order.
        let at = self.layout.chunk_at(chunk).expect("checked when the file was created");
        Ok(self.output.write_at((at + index * bytes.len()) as u64, &bytes)?)
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// [`Error::Gguf`].
    pub fn finish(self) -> Result<(), Error> {
        Ok(self.output.finish()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout { context: 4, n_vocab: 3, n_chunks: 2 }
    }

    fn whole() -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([4i32, 3, 2].iter().flat_map(|n| n.to_le_bytes()));
        bytes.extend([0i32, 1, 2, 0, 1, 1, 1, 1].iter().flat_map(|n| n.to_le_bytes()));
        for _ in 0..2 {
            pack(&[0.0, 1.0, -30.0], &mut bytes);
        }
        bytes
    }

    #[test]
    fn written_logits_are_read_back() {
        let folder = std::env::temp_dir().join(format!("gguf-tools-logits-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("logits");
        let tokens = [0, 1, 2, 0, 1, 1, 1, 1];
        let writer = Writer::create(&path, layout(), &tokens, true).unwrap();
        writer.position(1, 0, &[0.0, 1.0, -30.0]).unwrap();
        writer.position(0, 0, &[0.0, 1.0, -30.0]).unwrap();
        writer.finish().unwrap();
        assert!(std::fs::read(&path).unwrap() == whole());
        let file = LogitsFile::open(&path).unwrap();
        assert_eq!((file.layout(), file.tokens().unwrap()), (&layout(), tokens.to_vec()));
        let log_probs = file.position(1, 0).decode();
        let sum = 1.0 + 1f64.exp();
        for (found, expected) in
            log_probs.iter().zip([(1.0 / sum).ln(), 1.0 - sum.ln(), 1.0 - 16.0 - sum.ln()])
        {
            assert!((f64::from(*found) - expected).abs() < 16.0 / 65535.0, "{found} {expected}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn equal_logits_have_no_scale() {
        let mut bytes = Vec::new();
        pack(&[3.0; 4], &mut bytes);
        let log_probs = PackedLogProbs { bytes: &bytes, n_vocab: 4 }.decode();
        assert!(log_probs.iter().all(|log_p| (log_p + 4f32.ln()).abs() < 1e-6), "{log_probs:?}");
    }

    #[test]
    fn truncation_and_wrong_numbers_are_detected() {
        let bytes = whole();
        LogitsFile::parse(bytes.clone()).unwrap();
        for end in 0..bytes.len() {
            assert!(
                matches!(LogitsFile::parse(bytes[..end].to_vec()), Err(Error::LogitsFile { .. })),
                "{end}"
            );
        }
        for (at, value) in [(8, 1i32), (8, i32::MAX), (12, 0), (12, i32::MAX), (16, -1), (16, i32::MAX)] {
            let mut bad = bytes.clone();
            bad[at..at + 4].copy_from_slice(&value.to_le_bytes());
            assert!(LogitsFile::parse(bad).is_err(), "{value} at {at}");
        }
        let mut bad = bytes.clone();
        bad[HEADER_BYTES] = 3;
        assert!(LogitsFile::parse(bad).unwrap().tokens().is_err());
    }
}
