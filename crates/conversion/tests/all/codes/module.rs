//! Modules of integers for tests: unordered codes, zeros and scales, in the layouts of two libraries.

use std::{fs, path::Path};

use gguf_checkpoint::Checkpoint;
use serde_json::{Value as Json, json};

/// A module of packed integers (32, 1024): unordered codes, zeros and scales, unless given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Module {
    pub(crate) bits: u32,
    pub(crate) group: u64,
    pub(crate) zeros: Zeros,
    pub(crate) largest: u8,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Zeros {
    /// Not stored: half of all codes.
    None,
    Any,
    One,
    /// Half of all codes, stored.
    Middle,
}

pub(crate) const ROWS: u64 = 32;
pub(crate) const COLUMNS: u64 = 1024;

/// Packs each row of codes as one dense bit stream, in words.
fn stream(rows: impl Iterator<Item = Vec<u8>>, bits: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for row in rows {
        let mut bit_stream: Vec<bool> =
            row.iter().flat_map(|code| (0..bits).map(move |bit| code >> bit & 1 == 1)).collect();
        bit_stream.resize(bit_stream.len().next_multiple_of(32), false);
        bytes.extend(bit_stream.chunks(8).map(|bits| {
            bits.iter().enumerate().fold(0u8, |byte, (place, bit)| byte | u8::from(*bit) << place)
        }));
    }
    bytes
}

/// Tensors of a file: name, type, shape, bytes.
type Tensors = Vec<(&'static str, &'static str, Vec<u64>, Vec<u8>)>;

/// Transposes words (rows, columns).
fn turned(words: &[u8], n_columns: usize) -> Vec<u8> {
    let words: Vec<&[u8]> = words.chunks(4).collect();
    let columns = (0..n_columns).flat_map(|column| words.iter().skip(column).step_by(n_columns));
    columns.flat_map(|word| word.iter().copied()).collect()
}

impl Module {
    /// The codes, (ROWS, COLUMNS).
    fn codes(self) -> impl Iterator<Item = Vec<u8>> {
        let Module { bits, largest, .. } = self;
        let mask = ((1u32 << bits) - 1) as u8;
        let codes = gguf_testkit::bytes(u64::from(bits), (ROWS * COLUMNS) as usize);
        let rows = codes.chunks(COLUMNS as usize).map(<[u8]>::to_vec).collect::<Vec<_>>().into_iter();
        rows.map(move |row| row.iter().map(|code| (code & mask).min(largest)).collect())
    }

    /// Zero of each row, shared by its groups.
    fn zeros(self) -> Vec<u8> {
        let mask = ((1u32 << self.bits) - 1) as u8;
        match self.zeros {
            Zeros::One => vec![1; ROWS as usize],
            Zeros::Any => gguf_testkit::bytes(9, ROWS as usize).iter().map(|zero| zero & mask).collect(),
            Zeros::None | Zeros::Middle => vec![1 << (self.bits - 1); ROWS as usize],
        }
    }

    /// Finite numbers of f16, (ROWS, groups) or (groups, ROWS).
    fn scales(self) -> Vec<u8> {
        let scales = gguf_testkit::bytes(7, (2 * ROWS * COLUMNS / self.group) as usize);
        scales.chunks(2).flat_map(|two| [two[0], two[1] & 0xbf]).collect()
    }

    pub(crate) fn packed(self, folder: &Path) -> Checkpoint {
        let Module { bits, group, zeros, .. } = self;
        let n_groups = COLUMNS / group;
        let mut tensors: Tensors = vec![
            ("weight_packed", "I32", vec![ROWS, COLUMNS * u64::from(bits) / 32], stream(self.codes(), bits)),
            ("weight_scale", "F16", vec![ROWS, n_groups], self.scales()),
            ("weight_shape", "I64", vec![2], [ROWS, COLUMNS].iter().flat_map(|n| n.to_le_bytes()).collect()),
        ];
        if !matches!(zeros, Zeros::None) {
            let n_words = (ROWS * u64::from(bits)).div_ceil(32);
            // All groups have the same zeros: words of a row, then of the next.
            let words = stream(std::iter::once(self.zeros()), bits);
            let words = words.chunks(4).flat_map(|word| word.repeat(n_groups as usize)).collect();
            tensors.push(("weight_zero_point", "I32", vec![n_words, n_groups], words));
        }
        let config = json!({"quant_method": "compressed-tensors", "format": "pack-quantized",
            "config_groups": {"group_0": {"weights": {"num_bits": bits}}}});
        write(folder, tensors, &config)
    }

    /// Packs like AutoGPTQ: streams down columns, zeros minus one.
    pub(crate) fn gptq(self, folder: &Path) -> Checkpoint {
        let Module { bits, group, .. } = self;
        let (n_groups, n_words) = (COLUMNS / group, COLUMNS * u64::from(bits) / 32);
        let mask = ((1u32 << bits) - 1) as u8;
        let zeros: Vec<u8> = self.zeros().iter().map(|zero| zero.wrapping_sub(1) & mask).collect();
        let zeros = stream(std::iter::once(zeros), bits);
        let n_zero_words = zeros.len() as u64 / 4;
        let tensors: Tensors = vec![
            ("qweight", "I32", vec![n_words, ROWS], turned(&stream(self.codes(), bits), n_words as usize)),
            ("qzeros", "I32", vec![n_groups, n_zero_words], zeros.repeat(n_groups as usize)),
            ("scales", "F16", vec![n_groups, ROWS], self.scales()),
        ];
        write(folder, tensors, &json!({"quant_method": "gptq", "bits": bits, "group_size": group}))
    }
}

/// Writes and opens a checkpoint of the module `a`.
fn write(folder: &Path, tensors: Tensors, config: &Json) -> Checkpoint {
    let named: Vec<String> = tensors.iter().map(|(name, ..)| format!("a.{name}")).collect();
    let tensors =
        named.iter().zip(tensors).map(|(name, (_, dtype, shape, bytes))| (&name[..], dtype, shape, bytes));
    fs::write(folder.join("model.safetensors"), gguf_testkit::safetensors(tensors)).unwrap();
    fs::write(folder.join("config.json"), json!({"quantization_config": config}).to_string()).unwrap();
    gguf_checkpoint::open(crate::folder(folder)).unwrap()
}
