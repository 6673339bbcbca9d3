//! Products on one thread, in multiply-adds per second: `cargo bench -p gguf-products [-- FILTER]`.
//! `GGUF_CPU_LEVEL` forces the level. For the reasons to use Divan see crates/quant/benches/kernels.rs.

use divan::{Bencher, counter::ItemsCount};
use gguf_products::{
    Right, gram,
    integers::{BlockForm, Quants, Weights, matmul_integers},
    matmul, matmul_packed,
};
use gguf_quant::Level;
use ndarray::Array2;

/// Rows, columns and terms: matrices of SmolLM2-135M with the rows of a window, scores and values of
/// attention, a wide matrix.
const SHAPES: &[(usize, usize, usize)] =
    &[(512, 576, 576), (512, 192, 1536), (128, 512, 64), (128, 64, 512), (512, 192, 4096), (1, 576, 576)];

fn main() {
    let forced = std::env::var(gguf_quant::LEVEL_VARIABLE).ok().and_then(|name| Level::from_name(&name));
    if let Some(level) = forced {
        Level::choose(level).expect("nothing has used a level yet");
    }
    println!("level: {}", Level::detect().name());
    divan::main();
}

fn matrix(seed: u64, n_rows: usize, n_columns: usize) -> Array2<f32> {
    Array2::from_shape_fn((n_rows, n_columns), |(i, j)| {
        gguf_testkit::normal(seed, (i * n_columns + j) as u64)
    })
}

/// `x @ w^T` with both in their stored layout.
#[divan::bench(args = SHAPES)]
fn with_transpose(bencher: Bencher<'_, '_>, (m, n, k): (usize, usize, usize)) {
    let (x, w, mut out) = (matrix(1, m, k), matrix(2, n, k), Array2::zeros((m, n)));
    bencher.counter(ItemsCount::new(m * n * k)).bench_local(|| {
        matmul(Level::detect(), false, 1.0, divan::black_box(x.view()), w.t(), out.view_mut());
    });
}

#[divan::bench(args = SHAPES)]
fn packed(bencher: Bencher<'_, '_>, (m, n, k): (usize, usize, usize)) {
    let (x, w, mut out) = (matrix(1, m, k), matrix(2, n, k), Array2::zeros((m, n)));
    let mut right = Right::default();
    right.pack(Level::detect(), w.t());
    bencher.counter(ItemsCount::new(m * n * k)).bench_local(|| {
        matmul_packed(false, 1.0, divan::black_box(x.view()), &right, out.view_mut());
    });
}

/// Counts the full square, of which half is computed.
#[divan::bench(args = [(512, 576), (512, 1536)])]
fn second_moments(bencher: Bencher<'_, '_>, (n_rows, n): (usize, usize)) {
    let (x, mut out) = (matrix(1, n_rows, n), Array2::zeros((n, n)));
    bencher.counter(ItemsCount::new(n_rows * n * n)).bench_local(|| {
        gram(Level::detect(), true, divan::black_box(x.view()), out.view_mut());
    });
}

/// Blocks of Q8_0, Q4_K, Q6_K and Q4_0; rows, columns and terms.
const INTEGERS: &[(BlockForm, (usize, usize, usize))] = &[
    (BlockForm { elems: 32, n_minima: 0, n_scales: 0, offset: 128, max_level: 255 }, (512, 576, 576)),
    (BlockForm { elems: 256, n_minima: 8, n_scales: 8, offset: 0, max_level: 15 }, (512, 576, 1536)),
    (BlockForm { elems: 256, n_minima: 8, n_scales: 8, offset: 0, max_level: 15 }, (5, 576, 1536)),
    (BlockForm { elems: 256, n_minima: 0, n_scales: 16, offset: 32, max_level: 63 }, (512, 576, 1536)),
    (BlockForm { elems: 32, n_minima: 0, n_scales: 0, offset: 8, max_level: 15 }, (512, 576, 576)),
];

/// Rows of 8 bits with packed quantized weights.
#[divan::bench(args = 0..INTEGERS.len())]
fn integers(bencher: Bencher<'_, '_>, case: usize) {
    let (form, (m, n, k)) = INTEGERS[case];
    let level = Level::detect();
    let mut x = Quants::zeros(level, form, m, k);
    for part in x.parts_mut(m) {
        let bytes = gguf_testkit::bytes(1, part.values.len());
        part.values.iter_mut().zip(bytes).for_each(|(value, byte)| *value = byte.cast_signed());
        part.scales.fill(0.01);
        part.finish();
    }
    let mut weights = Weights::default();
    let packed = weights.pack_rows(level, form, n, k, |rows, out| {
        out.levels.copy_from_slice(&gguf_testkit::bytes(rows.start as u64, out.levels.len()));
        // The largest level is all ones.
        out.levels.iter_mut().for_each(|level| *level &= form.max_level);
        out.scales.fill(0.01);
        out.int_scales.fill(33);
        out.minima.fill(21);
        out.min_scales.fill(0.02);
        Ok::<(), ()>(())
    });
    packed.expect("nothing fails");
    let mut out = Array2::zeros((m, n));
    bencher.counter(ItemsCount::new(m * n * k)).bench_local(|| {
        matmul_integers(divan::black_box(&x), 0..m, &weights, out.view_mut());
    });
}
