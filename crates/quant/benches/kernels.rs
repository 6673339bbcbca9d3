//! Benchmarks every kernel at one level on one thread, in elements per second:
//! `cargo bench -p gguf-quant [-- FILTER]`. The filter is part of a name such as `encode_weighted::q4_K`.
//! `GGUF_CPU_LEVEL` forces the level.
//!
//! Divan instead of criterion: types are a table of arguments of one function, throughput is counted in
//! elements, and it has few dependencies. Criterion's statistics over time are not needed, because results
//! are compared with the reference in the same run (`scripts/bench kernels`).
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot continue has failed")]

use divan::{Bencher, counter::ItemsCount};
use gguf_quant::{CODECS, Level, Rows};
use gguf_types::DType;

const ROW_ELEMS: usize = 4096;
const N_ROWS: usize = 64;

fn main() {
    let forced = std::env::var(gguf_quant::LEVEL_VARIABLE).ok().and_then(|name| Level::from_name(&name));
    if let Some(level) = forced {
        Level::choose(level).expect("nothing has used a level yet");
    }
    println!("level: {}", Level::detect().name());
    divan::main();
}

fn dtypes(which: fn(&gguf_quant::Codec) -> bool) -> impl Iterator<Item = DType> {
    CODECS.iter().filter(move |codec| which(codec)).map(|codec| codec.dtype)
}

fn values() -> Vec<f32> {
    (0..(N_ROWS * ROW_ELEMS) as u64).map(|i| gguf_testkit::normal(1, i)).collect()
}

/// Squares, like sums of squared activations.
fn weights() -> Vec<f32> {
    (0..ROW_ELEMS as u64)
        .map(|i| {
            let activation = gguf_testkit::normal(2, i) * 50.0;
            activation * activation + 0.01
        })
        .collect()
}

fn blocks(dtype: DType) -> Vec<u8> {
    vec![0; N_ROWS * ROW_ELEMS / dtype.block_elems() as usize * dtype.block_bytes() as usize]
}

fn encode(bencher: Bencher<'_, '_>, dtype: DType, weights: Option<&[f32]>) {
    let (values, mut blocks) = (values(), blocks(dtype));
    bencher.counter(ItemsCount::new(values.len())).bench_local(|| {
        let rows = Rows { values: divan::black_box(&values), row_elems: ROW_ELEMS, weights };
        gguf_quant::encode(dtype, Level::detect(), rows, divan::black_box(&mut blocks)).unwrap();
    });
}

#[divan::bench(args = dtypes(|codec| codec.encode.is_some() && !codec.needs_weights))]
fn encode_plain(bencher: Bencher<'_, '_>, dtype: DType) {
    encode(bencher, dtype, None);
}

#[divan::bench(args = dtypes(|codec| codec.encode.is_some()))]
fn encode_weighted(bencher: Bencher<'_, '_>, dtype: DType) {
    encode(bencher, dtype, Some(&weights()));
}

#[divan::bench(args = dtypes(|_| true))]
fn decode(bencher: Bencher<'_, '_>, dtype: DType) {
    let (values, mut blocks) = (values(), blocks(dtype));
    let rows = Rows { values: &values, row_elems: ROW_ELEMS, weights: Some(&weights()) };
    gguf_quant::encode(dtype, Level::detect(), rows, &mut blocks).unwrap();
    let mut decoded = values;
    bencher.counter(ItemsCount::new(decoded.len())).bench_local(|| {
        gguf_quant::decode(dtype, Level::detect(), divan::black_box(&blocks), divan::black_box(&mut decoded))
            .unwrap();
    });
}
