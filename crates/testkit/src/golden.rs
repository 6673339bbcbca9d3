//! Golden files of codecs: what they say, and how a difference is reported.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use crate::{Data, Importance};

/// What a golden line asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Encode these values, then decode the bytes.
    Encode(Data, Option<Importance>),
    /// Decode random bytes.
    Decode,
}

/// A line of `golden/quant/TYPE.txt`:
/// `encode DATA WEIGHTS ROW_ELEMS N_ROWS SHA256_OF_BYTES SHA256_OF_DECODED SAMPLE`, or `decode - - ...` where
/// the bytes are random and their hash shows that both sides made the same.
///
/// The sample is the hex of the first bytes, or `-`.
#[derive(Debug, Clone)]
pub struct QuantCase {
    /// What to do.
    pub task: Task,
    /// Elements in a row.
    pub row_elems: usize,
    /// Number of rows.
    pub n_rows: usize,
    /// Hash of the encoded bytes.
    pub bytes_sha256: String,
    /// Hash of the decoded values, see [`decoded_sha256`].
    pub decoded_sha256: String,
    /// The first of the encoded bytes.
    pub sample: Vec<u8>,
}

impl QuantCase {
    /// Reads a line. `None` when it is not one.
    pub fn parse(line: &str) -> Option<QuantCase> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [task, data, weights, row_elems, n_rows, bytes, decoded, sample] = fields[..] else {
            return None;
        };
        let task = match task {
            "encode" => Task::Encode(
                Data::ALL.into_iter().find(|kind| kind.name() == data)?,
                match weights {
                    "none" => None,
                    _ => Some(Importance::ALL.into_iter().find(|kind| kind.name() == weights)?),
                },
            ),
            "decode" if data == "-" && weights == "-" => Task::Decode,
            _ => return None,
        };
        Some(QuantCase {
            task,
            row_elems: row_elems.parse().ok()?,
            n_rows: n_rows.parse().ok()?,
            bytes_sha256: bytes.to_owned(),
            decoded_sha256: decoded.to_owned(),
            sample: if sample == "-" { Vec::new() } else { from_hex(sample)? },
        })
    }

    /// Elements in all.
    pub fn n_elems(&self) -> usize {
        self.row_elems * self.n_rows
    }

    /// The seed of the values: the row length and the position of the kind.
    pub fn seed(&self) -> u64 {
        let position = match self.task {
            Task::Encode(data, _) => Data::ALL.iter().position(|kind| *kind == data).unwrap_or(0),
            Task::Decode => 7,
        };
        self.row_elems as u64 * 16 + position as u64
    }

    /// The values to encode, `(n_rows, row_elems)` row-major; none for [`Task::Decode`].
    pub fn values(&self) -> Option<Vec<f32>> {
        match self.task {
            Task::Encode(data, _) => Some(data.values(self.seed(), self.n_elems())),
            Task::Decode => None,
        }
    }

    /// The importance weights of a row, if there are any.
    pub fn weights(&self) -> Option<Vec<f32>> {
        match self.task {
            Task::Encode(_, Some(kind)) => {
                let position = Importance::ALL.iter().position(|other| *other == kind).unwrap_or(0) as u64;
                Some(kind.weights(self.row_elems as u64 * 16 + 8 + position, self.row_elems))
            }
            _ => None,
        }
    }

    /// What the case is called in reports.
    pub fn name(&self) -> String {
        let (task, weights) = match self.task {
            Task::Encode(data, weights) => (data.name(), weights.map_or("none", Importance::name)),
            Task::Decode => ("random bytes", "-"),
        };
        format!("{task}, weights {weights}, {} rows of {}", self.n_rows, self.row_elems)
    }
}

/// The hash in lower-case hex.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The hash of decoded values, little endian, every NaN written as 0x7fc00000: which NaN an operation on two
/// of them gives is up to the compiler.
pub fn decoded_sha256(values: &[f32]) -> String {
    let mut hasher = Sha256::new();
    for value in values {
        let bits = if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() };
        hasher.update(bits.to_le_bytes());
    }
    hex(&hasher.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Bytes from hex.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

/// Compares blocks over the common length. `None` when they are equal; else a report: how many blocks
/// differ, which one differs most, and both dumps of it.
pub fn compare_blocks(expected: &[u8], found: &[u8], block_bytes: usize) -> Option<String> {
    let differences = |(a, b): (&[u8], &[u8])| a.iter().zip(b).filter(|(a, b)| a != b).count();
    let blocks = || expected.chunks(block_bytes).zip(found.chunks(block_bytes));
    let n_blocks = blocks().count();
    let bad = blocks().filter(|pair| differences(*pair) > 0).count();
    if bad == 0 {
        return None;
    }
    let first = blocks().position(|pair| differences(pair) > 0).unwrap_or(0);
    // The last of equals would be what `max_by_key` gives; the first is easier to work on.
    let worst = (0..n_blocks).rev().max_by_key(|i| blocks().nth(*i).map(differences)).unwrap_or(0);
    let (a, b) = blocks().nth(worst).unwrap_or((&[], &[]));
    Some(format!(
        "{bad} of {n_blocks} blocks differ, the first is {first}; in block {worst} {} of {block_bytes} bytes \
         differ\n  expected {}\n  found    {}",
        differences((a, b)),
        hex(a),
        hex(b)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_reports() {
        let case = QuantCase::parse("encode heavy gaps 256 3 aa bb 0102ff").unwrap();
        assert_eq!(case.task, Task::Encode(Data::Heavy, Some(Importance::Gaps)));
        assert_eq!((case.n_elems(), case.sample.clone()), (768, vec![1, 2, 255]));
        assert!(QuantCase::parse("decode - - 256 3 aa bb -").is_some());
        for bad in
            ["encode heavy gaps 256 3 aa bb", "encode odd gaps 256 3 aa bb -", "decode - - 256 x aa bb -"]
        {
            assert!(QuantCase::parse(bad).is_none(), "{bad}");
        }
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(decoded_sha256(&[-f32::NAN]), sha256(&[0, 0, 0xc0, 0x7f]));

        assert_eq!(compare_blocks(&[1, 2, 3, 4], &[1, 2, 3, 4], 2), None);
        let report = compare_blocks(&[1, 2, 3, 4, 5, 6], &[1, 0, 3, 4, 9, 9], 2).unwrap();
        assert!(report.starts_with("2 of 3 blocks differ, the first is 0; in block 2 2 of 2"), "{report}");
        assert!(report.ends_with("expected 0506\n  found    0909"), "{report}");
    }
}
