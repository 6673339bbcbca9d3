//! Codebook types compared with their decoders: choices survive packing, and values are those of the decoder.

use gguf_quant::{
    Level,
    codebook::{CODEBOOK_CODECS, COLUMNS, Choice, Codebook, CodebookCodec, codebook_codec},
};
use gguf_types::DType;

const N_BLOCKS: usize = 40;

fn read(row: &CodebookCodec, blocks: &[u8]) -> (Vec<f32>, Vec<Choice>) {
    let mut scales = vec![0.0; N_BLOCKS * 256 / row.group];
    let mut choices = vec![Choice::default(); N_BLOCKS * 256 / COLUMNS];
    (row.scales)(blocks, &mut scales);
    (row.choices)(blocks, &mut choices);
    (scales, choices)
}

fn values(row: &CodebookCodec, scales: &[f32], choices: &[Choice]) -> Vec<u32> {
    let of_eight = |(eight, choice): (usize, &Choice)| {
        let (scale, signs) = (scales[eight * COLUMNS / row.group], choice.signs);
        let magnitudes = row.codebook.magnitudes(choice.points);
        (0..COLUMNS)
            .map(|i| bits(scale * f32::from(magnitudes[i]) * [1.0, -1.0][usize::from(signs >> i & 1)]))
            .collect()
    };
    choices.iter().enumerate().flat_map(|(at, choice)| -> Vec<u32> { of_eight((at, choice)) }).collect()
}

fn decoded(row: &CodebookCodec, blocks: &[u8]) -> Vec<u32> {
    let mut values = vec![0.0; N_BLOCKS * 256];
    gguf_quant::decode(row.dtype, Level::Scalar, blocks, &mut values).expect("lengths agree");
    values.into_iter().map(bits).collect()
}

fn bits(value: f32) -> u32 {
    if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() }
}

#[test]
fn choices_round_trip_and_match_decoder() {
    assert_eq!(CODEBOOK_CODECS.len(), 5);
    for row in CODEBOOK_CODECS {
        let dtype = row.dtype;
        let blocks = gguf_testkit::bytes(6, N_BLOCKS * dtype.block_bytes() as usize);
        let (scales, choices) = read(row, &blocks);
        assert!(values(row, &scales, &choices) == decoded(row, &blocks), "{dtype}: values");
        let mut again = blocks.clone();
        (row.put_choices)(&choices, &mut again);
        assert!(again == blocks, "{dtype}: the same choices change bytes");
        // Any other choices.
        let (n_points, is_fours) = match row.codebook {
            Codebook::Eights(points) => (points.len(), false),
            Codebook::Fours(points) => (points.len(), true),
        };
        let other: Vec<Choice> = (0..choices.len() as u64)
            .map(|i| {
                let random = gguf_testkit::mix(7, i);
                let signs = random as u8;
                let points = [random >> 8, random >> 32].map(|random| (random % n_points as u64) as u16);
                Choice {
                    points: [points[0], if is_fours { points[1] } else { 0 }],
                    signs: if row.even {
                        signs & 127 | ((signs & 127).count_ones() as u8 & 1) << 7
                    } else {
                        signs
                    },
                }
            })
            .collect();
        (row.put_choices)(&other, &mut again);
        let (same, found) = read(row, &again);
        assert!(found == other, "{dtype}: choices");
        assert!(same.iter().zip(&scales).all(|(a, b)| bits(*a) == bits(*b)), "{dtype}: scales");
        assert!(values(row, &scales, &other) == decoded(row, &again), "{dtype}: others");
        assert_eq!(codebook_codec(dtype).map(|row| row.dtype), Some(dtype));
    }
    assert!(codebook_codec(DType::Q4_K).is_none());
}
