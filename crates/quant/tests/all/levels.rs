//! Every codec at every level of this machine compared with its scalar code: rows of one block and of many,
//! tails of every length, one row and several, ordinary, heavy-tailed and nasty values.
//!
//! The goldens compare with the reference; here the shapes vary, because a vector of blocks does not end at
//! the end of a row.

use gguf_quant::{CODECS, Codec, Level, Rows};
use gguf_testkit::{Data, Importance, compare_blocks};

/// `(blocks in a row, rows)` in addition to single rows of 1 to 17 blocks.
const SHAPES: [(usize, usize); 8] = [(1, 17), (1, 33), (2, 9), (3, 7), (5, 5), (7, 3), (16, 2), (32, 1)];
/// Elements from which the values of all shapes are taken.
const POOL_ELEMS: usize = 256 * 28 * 9;

#[test]
fn levels_match_scalar_bytes() {
    let levels = levels();
    let single_rows = (1..=17).map(|n| (n, 1));
    let shapes: Vec<(usize, usize)> = single_rows.chain(SHAPES).collect();
    let pools = Data::ALL.map(|data| (data.name(), data.values(11, POOL_ELEMS)));
    let mut differences = Vec::new();
    for codec in CODECS.iter().filter(|codec| codec.encode.is_some()) {
        for (at, &(row_blocks, n_rows)) in shapes.iter().enumerate() {
            let row_elems = row_blocks * codec.dtype.block_elems() as usize;
            let n_elems = row_elems * n_rows;
            // Two kinds of values and all kinds of weights per shape; successive shapes use different ones.
            for (name, pool) in [&pools[at % 5], &pools[(at + 2) % 5]] {
                let first = at * 1031 * 256 % (POOL_ELEMS - n_elems);
                let values = &pool[first / 32 * 32..][..n_elems];
                let importance = Importance::ALL[at % 2].weights(at as u64, row_elems);
                for weights in [None, Some(&importance[..])] {
                    if codec.needs_weights && weights.is_none() {
                        continue;
                    }
                    let rows = Rows { values, row_elems, weights };
                    let kind = if weights.is_some() { "weighted" } else { "unweighted" };
                    let case = format!("{} {name} {kind}, {n_rows} rows of {row_blocks}", codec.dtype);
                    compare(codec, &levels, rows, &case, &mut differences);
                }
            }
        }
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}

/// The sweeps of Q3_K skip steps that cannot change a level. Here levels move often or almost: ties, one
/// value that is nearly the entire sum, and sizes at which a sum is subnormal or a product overflows.
#[test]
fn q3_k_levels_move_as_in_scalar() {
    const N_BLOCKS: usize = 37;
    const ROUNDS: u64 = 100;
    let value = |seed: u64, i: u64| {
        let (of_sub, random) = (gguf_testkit::mix(seed, i / 16), gguf_testkit::mix(seed + ROUNDS, i));
        let unit = (random >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
        let whole = (random % 9) as f32;
        let size = [1e-12, 1e-10, 1.0, 1e8, 1e12, 3e12][of_sub as usize % 6];
        let value = match of_sub >> 8 & 7 {
            0 => unit,
            1 => unit * unit * unit,
            2 => whole - 4.5,
            3 => (whole - 5.0) * (1.0 + unit * 1e-7),
            4 if random % 3 > 0 => unit * 1e-3,
            5 => unit.signum() + (whole - 4.0) * 1e-7,
            6 if i % 16 != of_sub >> 16 & 15 => unit * 1e-2,
            6 => -8.0,
            _ => unit * 4.0,
        };
        size * value
    };
    let codec = CODECS.iter().find(|codec| codec.dtype == gguf_types::DType::Q3_K).expect("a codec");
    let mut differences = Vec::new();
    for seed in 0..ROUNDS {
        let values: Vec<f32> = (0..256 * N_BLOCKS as u64).map(|i| value(seed, i)).collect();
        let rows = Rows { values: &values, row_elems: values.len(), weights: None };
        compare(codec, &levels(), rows, &format!("seed {seed}"), &mut differences);
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}

/// All levels of this machine except scalar.
fn levels() -> Vec<Level> {
    let mut levels = Level::available();
    gguf_testkit::require_levels(&levels.iter().map(|level| level.name()).collect::<Vec<_>>());
    levels.retain(|level| *level != Level::Scalar);
    levels
}

fn compare(codec: &Codec, levels: &[Level], rows: Rows<'_>, case: &str, differences: &mut Vec<String>) {
    let dtype = codec.dtype;
    let block_bytes = dtype.block_bytes() as usize;
    let n_bytes = rows.values.len() / dtype.block_elems() as usize * block_bytes;
    let encode = |level: Level| {
        // Previous contents must not matter.
        let mut bytes = vec![0xa5; n_bytes];
        gguf_quant::encode(dtype, level, rows, &mut bytes).expect("lengths agree");
        bytes
    };
    let decode = |level: Level, bytes: &[u8]| {
        let mut values = vec![f32::MAX; rows.values.len()];
        gguf_quant::decode(dtype, level, bytes, &mut values).expect("lengths agree");
        values.iter().map(|x| if x.is_nan() { 0x7fc0_0000 } else { x.to_bits() }).collect::<Vec<u32>>()
    };
    let expected = encode(Level::Scalar);
    let decoded = decode(Level::Scalar, &expected);
    for &level in levels {
        let found = encode(level);
        if let Some(report) = compare_blocks(&expected, &found, block_bytes) {
            differences.push(format!("{case}, level {level:?}: {report}"));
        }
        if decode(level, &expected) != decoded {
            differences.push(format!("{case}, level {level:?}: decoded values differ"));
        }
    }
}
