//! Blocks with fixed scales compared with the codecs: levels survive packing, and values are those of the
//! decoder, bit for bit.

use gguf_quant::{
    Level, Rows,
    frozen::{FROZEN, FrozenCodec, Points, frozen},
};
use gguf_testkit::{Data, Importance};
use gguf_types::DType;

const N_BLOCKS: usize = 32;

/// Encoded blocks of every kind of values, and blocks of any bytes.
fn blocks_of(row: &FrozenCodec) -> Vec<(String, Vec<u8>)> {
    let block_elems = row.dtype.block_elems() as usize;
    let n_bytes = N_BLOCKS * row.dtype.block_bytes() as usize;
    // Eight times the elements for small blocks, so that all nasty stretches are included.
    let n = (N_BLOCKS * 256 / block_elems).max(N_BLOCKS);
    let mut all = vec![("bytes".to_owned(), gguf_testkit::bytes(5, n_bytes))];
    for data in Data::ALL {
        let values = data.values(3, n * block_elems);
        let weights = Importance::ALL[0].weights(4, block_elems);
        for weights in [None, Some(&weights[..])] {
            let mut blocks = vec![0; n * row.dtype.block_bytes() as usize];
            let rows = Rows { values: &values, row_elems: block_elems, weights };
            gguf_quant::encode(row.dtype, Level::detect(), rows, &mut blocks).expect("lengths agree");
            all.push((format!("{} {}", data.name(), weights.is_some()), blocks));
        }
    }
    all
}

/// Values of levels by scale, point and offset, as bits; NaN is one value.
fn values(row: &FrozenCodec, blocks: &[u8], levels: &[u8]) -> Vec<u32> {
    let n_groups = levels.len() / row.group;
    let (mut scales, mut offsets) = (vec![0.0; n_groups], vec![0.0; n_groups]);
    (row.scales)(blocks, &mut scales, &mut offsets);
    let value = |(at, level): (usize, &u8)| {
        bits(scales[at / row.group] * row.points.point(*level) + offsets[at / row.group])
    };
    levels.iter().enumerate().map(value).collect()
}

fn decoded(row: &FrozenCodec, blocks: &[u8], n: usize) -> Vec<u32> {
    let mut values = vec![0.0; n];
    gguf_quant::decode(row.dtype, Level::Scalar, blocks, &mut values).expect("lengths agree");
    values.into_iter().map(bits).collect()
}

fn bits(value: f32) -> u32 {
    if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() }
}

#[test]
fn levels_round_trip_and_match_decoder() {
    for row in FROZEN {
        for (name, blocks) in blocks_of(row) {
            let n = blocks.len() / row.dtype.block_bytes() as usize * row.dtype.block_elems() as usize;
            let mut levels = vec![0xff; n];
            (row.levels)(&blocks, &mut levels);
            assert!(
                values(row, &blocks, &levels) == decoded(row, &blocks, n),
                "{} {name}: values",
                row.dtype
            );
            let mut again = blocks.clone();
            (row.put_levels)(&levels, &mut again);
            assert!(again == blocks, "{} {name}: the same levels change bytes", row.dtype);
            // Any other levels: scales stay, and levels are read as written.
            let (lowest, highest) = match row.points {
                Points::Steps { lowest, highest, .. } => (lowest, highest),
                Points::Table(_) => (0, 15),
            };
            let other: Vec<u8> = gguf_testkit::bytes(9, n)
                .into_iter()
                .map(|byte| lowest + (u16::from(byte) % (u16::from(highest - lowest) + 1)) as u8)
                .collect();
            (row.put_levels)(&other, &mut again);
            (row.levels)(&again, &mut levels);
            assert!(levels == other, "{} {name}: levels", row.dtype);
            assert!(values(row, &blocks, &other) == decoded(row, &again, n), "{} {name}: others", row.dtype);
        }
    }
}

#[test]
fn points_are_levels_and_increase() {
    for row in FROZEN {
        let highest = match row.points {
            Points::Steps { highest, .. } => highest,
            Points::Table(_) => 15,
        };
        for level in 0..=highest {
            assert_eq!(row.points.level(row.points.point(level)), level, "{}", row.dtype);
            assert!(level == 0 || row.points.point(level - 1) < row.points.point(level), "{}", row.dtype);
        }
    }
}

#[test]
fn types_have_at_most_one_row() {
    for (i, row) in FROZEN.iter().enumerate() {
        assert!(FROZEN[i + 1..].iter().all(|other| other.dtype != row.dtype), "{} twice", row.dtype);
        assert_eq!(frozen(row.dtype).map(|row| row.dtype), Some(row.dtype));
    }
    assert!(frozen(DType::F16).is_none());
    assert!(frozen(DType::IQ2_XS).is_none());
}
