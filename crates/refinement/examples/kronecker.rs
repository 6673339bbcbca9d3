//! Measures the gain from output statistics: `kronecker BASE.gguf TYPES.gguf TEXT VERIFY_TEXT N_TOKENS FOLDER [THREADS]`.
//!
//! Every matrix gets its type in `TYPES.gguf`: as encoded, rounded with input statistics, and rounded with input and output statistics. All
//! three are compared with the base on the second text. Prints mean KL divergences, and ratios with standard errors over chunks.
//! Statistics are kept in `FOLDER`.
#![expect(clippy::unwrap_used, reason = "a failed measurement has no result")]

use std::{path::Path, time::Instant};

use gguf_quant::Level;
use gguf_refinement::{
    Error, Refiner, Steps, StockRows,
    moments::{Found, MomentsCache, Options, Plan, Texts, Watch, gather, gather_outputs},
};
use gguf_runtime::{
    Model,
    chunks::{Chunk, Settings},
    compare::{Base, run},
};

/// Maximum number of windows that are compared.
const WINDOWS: usize = 20;

struct Silent;

impl Watch for Silent {
    fn found(&mut self, _found: Found) -> Result<(), Error> {
        Ok(())
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [base, types, text, verify, n_tokens, folder, rest @ ..] = &args[..] else {
        eprintln!("kronecker BASE.gguf TYPES.gguf TEXT VERIFY_TEXT N_TOKENS FOLDER [THREADS]");
        return;
    };
    let n_threads = rest.first().map_or(2, |threads| threads.parse().unwrap());
    let (level, folder) = (Level::detect(), Path::new(folder));
    let open = || {
        let options = gguf_runtime::Options {
            threads: Some(n_threads),
            ..gguf_runtime::Options::new(gguf_models::GRAPHS)
        };
        Model::open(Path::new(base), &options).unwrap()
    };
    let model = open();
    let windows = |path: &str, most: usize| -> Vec<Vec<u32>> {
        let text = std::fs::read(path).unwrap();
        let all = Texts::from_text(&model, &text, &Settings::default()).unwrap();
        all.chunks()[..most.min(all.chunks().len())].to_vec()
    };
    let texts = Texts::from_chunks(windows(text, n_tokens.parse::<usize>().unwrap() / 512));
    let options = Options::default();
    let plan = Plan::new(&model, &texts, &options).unwrap();
    let inputs = || MomentsCache::open(folder, &model, &texts, &options, &plan).unwrap();
    let begun = Instant::now();
    gather(&model, &texts, &options, &plan, Some(&mut inputs()), &mut Silent).unwrap();
    println!("{} tokens of inputs in {:.1} s", texts.n_tokens(), begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    let back = plan.plan_outputs(&model, &options).unwrap();
    let path = folder.join("outputs");
    let mut outputs = MomentsCache::open(&path, &model, &texts, &options, &back).unwrap();
    gather_outputs(&model, &texts, &options, &back, Some(&mut outputs), &mut Silent).unwrap();
    println!(
        "gradients in {:.1} s; {:.0} MB of memory, {:.0} MB of statistics",
        begun.elapsed().as_secs_f64(),
        back.memory_bytes() as f64 / 1e6,
        back.file_bytes as f64 / 1e6
    );

    let file = || gguf_container::Model::open(Path::new(base)).unwrap();
    let one = Refiner::new(file(), inputs(), Steps::Full.candidates(level), n_threads).unwrap();
    let both = Refiner::new(file(), inputs(), Steps::Full.candidates(level), n_threads)
        .unwrap()
        .with_outputs(outputs);
    let others = [open(), open(), open()];
    let (moments, wanted) = (inputs(), gguf_container::Model::open(Path::new(types)).unwrap());
    let mut seconds = [0.0; 2];
    for (_, info) in wanted.tensors().filter(|(_, info)| info.dtype.is_quantized()) {
        let tensor = info.name.as_str();
        // The importance matrix of the same text.
        let weights = moments.gram(tensor, None).unwrap().map(|(mut fit, held)| {
            fit.add(&held);
            let n = fit.n_columns();
            (0..n).map(|j| fit.sums()[j * (n + 1)] / fit.n_tokens() as f32).collect::<Vec<_>>()
        });
        let weights = weights.as_deref();
        let stock = one.stock(tensor, info.dtype, weights, level).unwrap();
        others[0].replace(tensor, info.dtype, stock.blocks.clone()).unwrap();
        let values = decoded(&file(), tensor);
        let n_rows = info.shape.n_elems() / info.shape.row_elems();
        for (at, refiner) in [&one, &both].into_iter().enumerate() {
            let mut blocks = stock.blocks.clone();
            if refiner.applies_to(tensor, info.dtype) {
                let begun = Instant::now();
                let (dtype, values) = (info.dtype, &values[..]);
                let rows = StockRows { tensor, dtype, rows: 0..n_rows, values, weights, level };
                refiner.refine(&rows, &mut blocks).unwrap();
                seconds[at] += begun.elapsed().as_secs_f64();
            }
            others[at + 1].replace(tensor, info.dtype, blocks).unwrap();
        }
    }
    let outcomes = both.outcomes();
    let n_both = outcomes.iter().filter(|outcome| outcome.both_sides).count();
    let [of_one, of_both] = seconds;
    let n_all = outcomes.len();
    println!("one side in {of_one:.1} s, both in {of_both:.1} s; {n_both} of {n_all} matrices by both");
    print_divergences(&model, &others, windows(verify, WINDOWS));
}

/// Prints divergences of the others from the model, and their ratios.
fn print_divergences(model: &Model, others: &[Model], windows: Vec<Vec<u32>>) {
    let chunk = |tokens: Vec<u32>| {
        let counted = 256..511;
        let targets = tokens[counted.start + 1..=counted.end].to_vec();
        Chunk { tokens, counted, targets }
    };
    let chunks: Vec<Chunk> = windows.into_iter().map(chunk).collect();
    let found =
        run(&Base::Model(model), others, (&chunks, 0..chunks.len()), 10, None, &mut |_| true).unwrap();
    let by_window: Vec<Vec<f64>> = found
        .iter()
        .map(|all| all.chunks(255).map(|window| window.iter().map(|it| it.kl).sum::<f64>() / 255.0).collect())
        .collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let [stock, one, both] = [0, 1, 2].map(|at| mean(&by_window[at]));
    println!("divergence: stock {stock:.5}, one side {one:.5}, both {both:.5}");
    for (what, a, b) in [("one side by stock", 1, 0), ("both by stock", 2, 0), ("both by one side", 2, 1)] {
        // With R = sum a / sum b the variance of R is n / (n - 1) * sum (a_i - R b_i)^2 / (sum b)^2.
        let (a, b) = (&by_window[a], &by_window[b]);
        let (ratio, n) = (mean(a) / mean(b), a.len() as f64);
        let residuals: f64 = a.iter().zip(b).map(|(a, b)| (a - ratio * b).powi(2)).sum();
        let error = (residuals * n / (n - 1.0)).sqrt() / b.iter().sum::<f64>();
        println!("{what}: {ratio:.3} +- {error:.3}");
    }
}

fn decoded(file: &gguf_container::Model, tensor: &str) -> Vec<f32> {
    let (file, info) = file.tensor(tensor).unwrap();
    let mut values = vec![0.0; info.shape.n_elems() as usize];
    gguf_quant::decode(info.dtype, Level::detect(), file.data(info).unwrap(), &mut values).unwrap();
    values
}
