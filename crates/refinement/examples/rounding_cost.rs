//! Measures gain and cost of rounding for each type, on matrices of a model: `rounding_cost MODEL.gguf TEXT
//! N_TOKENS N_LAYERS [TYPE...]`.
//!
//! Hessians are collected over the text; every eighth chunk is held out. Some rows of matrices after the
//! first layer are encoded with the Hessian's diagonal as importance and rounded again, on one thread. Prints
//! the geometric mean of `tr(E G E^T)` on held-out tokens relative to the encoder's, and the time.
#![expect(clippy::unwrap_used, reason = "a measurement that cannot continue has failed")]

use std::{collections::BTreeMap, fs, path::Path, time::Instant};

use gguf_quant::{Level, Rows};
use gguf_refinement::{
    Error, Gram, Rounding, RoundingOptions, is_refinable,
    moments::{Found, Options, Plan, Texts, Watch, gather},
    output_error,
};
use gguf_runtime::Model;
use gguf_types::DType;

const N_ROWS: usize = 128;

/// Options that are applied in order, each to the previous result.
type Passes = Vec<RoundingOptions>;

struct Measured {
    file: gguf_container::Model,
    n_layers: usize,
    types: Vec<String>,
    variants: Vec<(&'static str, Passes)>,
    /// By type and variant: logarithm of the ratio, and seconds per weight, for each matrix.
    found: BTreeMap<(String, usize), Vec<(f64, f64)>>,
}

impl Watch for Measured {
    fn found(&mut self, found: Found) -> Result<(), Error> {
        // Step 0 is before the layers, and the first layer is unlike the others.
        if found.step < 2 {
            return Ok(());
        }
        for input in found.inputs {
            let (tensor, _) = input.of.first().unwrap();
            let (file, info) = self.file.tensor(tensor).unwrap();
            let (n, n_all) = (info.shape.row_elems() as usize, info.shape.dim(1) as usize);
            let bytes = file.data(info).unwrap();
            let row_bytes = bytes.len() / n_all;
            let n_rows = N_ROWS.min(n_all);
            let mut weights = vec![0.0; n_rows * n];
            for (row, out) in weights.chunks_exact_mut(n).enumerate() {
                let at = row * n_all / n_rows * row_bytes;
                gguf_quant::decode(info.dtype, Level::detect(), &bytes[at..at + row_bytes], out).unwrap();
            }
            self.measure(&weights, n, &input.fit, &input.held);
            eprintln!(
                "{tensor}: {n} columns, {} tokens, {} held out",
                input.fit.n_tokens(),
                input.held.n_tokens()
            );
        }
        Ok(())
    }

    fn progress(&mut self, _done: usize, _of: usize) -> bool {
        let n = self.found.values().map(Vec::len).max().unwrap_or(0);
        // Four inputs per layer.
        n < 4 * self.n_layers
    }
}

impl Measured {
    fn measure(&mut self, weights: &[f32], n: usize, fit: &Gram, held: &Gram) {
        let diagonal: Vec<f32> = (0..n).map(|j| fit.sums()[j * (n + 1)] / fit.n_tokens() as f32).collect();
        for codec in gguf_quant::CODECS.iter().filter(|codec| is_refinable(codec.dtype)) {
            let dtype: DType = codec.dtype;
            let wanted = self.types.is_empty() || self.types.iter().any(|name| name == dtype.name());
            if !wanted || !n.is_multiple_of(dtype.block_elems() as usize) {
                continue;
            }
            let n_bytes = weights.len() / dtype.block_elems() as usize * dtype.block_bytes() as usize;
            let mut stock = vec![0; n_bytes];
            let rows = Rows { values: weights, row_elems: n, weights: Some(&diagonal) };
            gguf_quant::encode(dtype, Level::detect(), rows, &mut stock).unwrap();
            let error = |blocks: &[u8]| output_error(held, dtype, weights, blocks, n).unwrap();
            let before = error(&stock);
            for (at, (_, passes)) in self.variants.iter().enumerate() {
                let (mut blocks, mut seconds) = (stock.clone(), 0.0);
                for options in passes {
                    let rounding = Rounding::for_type(fit, options, dtype).unwrap();
                    let start = Instant::now();
                    rounding.refine(dtype, weights, &mut blocks).unwrap();
                    seconds += start.elapsed().as_secs_f64();
                }
                let found = ((error(&blocks) / before).ln(), seconds / weights.len() as f64);
                self.found.entry((dtype.name().to_owned(), at)).or_default().push(found);
            }
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, text, n_tokens, n_layers, types @ ..] = &args[..] else {
        eprintln!("rounding_cost MODEL.gguf TEXT N_TOKENS N_LAYERS [TYPE...]");
        return;
    };
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global().unwrap();
    let model = Model::open(
        Path::new(path),
        &gguf_runtime::Options { threads: Some(1), ..gguf_runtime::Options::new(gguf_models::GRAPHS) },
    )
    .unwrap();
    let text = fs::read(text).unwrap();
    let all = Texts::from_text(
        &model,
        &text[..400_000.min(text.len())],
        &gguf_runtime::chunks::Settings::default(),
    )
    .unwrap();
    let n_windows = n_tokens.parse::<usize>().unwrap() / 512;
    let texts = Texts::from_chunks(all.chunks()[..n_windows.min(all.chunks().len())].to_vec());
    let base = RoundingOptions::default();
    let frozen = RoundingOptions { scale_sweeps: 0, sweeps: 2, ..base };
    let before = RoundingOptions { feedback: false, sweeps: 0, ..base };
    let variants = vec![
        ("descent", vec![RoundingOptions { feedback: false, ..frozen }]),
        ("feedback", vec![RoundingOptions { sweeps: 0, ..frozen }]),
        ("feedback, descent", vec![frozen]),
        ("and scales", vec![RoundingOptions { fit: false, ..base }]),
        ("and fit", vec![base]),
        ("and fit, 2 sweeps", vec![RoundingOptions { scale_sweeps: 2, ..base }]),
        ("and fit, 4 sweeps", vec![RoundingOptions { scale_sweeps: 4, ..base }]),
        ("scales before, too", vec![before, base]),
        ("scales before, 2 after", vec![before, RoundingOptions { scale_sweeps: 2, ..base }]),
        ("L .1", vec![RoundingOptions { shrinkage: 0.1, ..base }]),
        ("L .6", vec![RoundingOptions { shrinkage: 0.6, ..base }]),
        ("L .8", vec![RoundingOptions { shrinkage: 0.8, ..base }]),
        ("damping .001", vec![RoundingOptions { damping: 0.001, ..base }]),
        ("damping .1", vec![RoundingOptions { damping: 0.1, ..base }]),
    ];
    let options = Options::default();
    let plan = Plan::new(&model, &texts, &options).unwrap();
    let mut measured = Measured {
        file: gguf_container::Model::open(Path::new(path)).unwrap(),
        n_layers: n_layers.parse().unwrap(),
        types: types.to_vec(),
        variants,
        found: BTreeMap::new(),
    };
    // Ends early, which the caller sees as an error.
    let ended = gather(&model, &texts, &options, &plan, None, &mut measured);
    eprintln!("{:?}", ended.map(|_| ()));
    for ((dtype, variant), found) in &measured.found {
        let n = found.len() as f64;
        let (ratio, seconds) =
            found.iter().fold((0.0, 0.0), |sums, found| (sums.0 + found.0, sums.1 + found.1));
        let name = measured.variants[*variant].0;
        println!(
            "{dtype:8} {name:22} {:.3}  {:6.0} ns a weight, {n} matrices",
            (ratio / n).exp(),
            seconds / n * 1e9
        );
    }
}
