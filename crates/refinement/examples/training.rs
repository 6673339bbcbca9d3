//! Trains block factors: `training BASE.gguf QUANTIZED.gguf TEXT N_WINDOWS PASSES RATE OUT.gguf [THREADS]`.
//!
//! Prints held-out divergences, and writes a copy of the quantized file with the trained factors.
#![expect(clippy::unwrap_used, reason = "a failed measurement has no result")]

use std::{path::Path, time::Instant};

use gguf_refinement::{TrainingOptions, moments::Texts, train};
use gguf_runtime::{Model, chunks::Settings};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [base, quantized, text, n_windows, passes, rate, out, rest @ ..] = &args[..] else {
        eprintln!("training BASE.gguf QUANTIZED.gguf TEXT N_WINDOWS PASSES RATE OUT.gguf [THREADS]");
        return;
    };
    let threads = rest.first().map(|threads| threads.parse().unwrap());
    let options = gguf_runtime::Options { threads, ..gguf_runtime::Options::new(gguf_models::GRAPHS) };
    let [base, student] = [base, quantized].map(|path| Model::open(Path::new(path), &options).unwrap());
    let settings = Settings { n_chunks: Some(n_windows.parse().unwrap()), ..Settings::default() };
    let texts = Texts::from_text(&base, &std::fs::read(text).unwrap(), &settings).unwrap();
    let options = TrainingOptions {
        passes: passes.parse().unwrap(),
        rate: rate.parse().unwrap(),
        ..TrainingOptions::default()
    };
    let began = Instant::now();
    let trained = train(&base, &student, &texts, &options, &mut |_, _| true).unwrap();
    println!("{:?}, best {}, {:.1} s", trained.held_out, trained.best, began.elapsed().as_secs_f64());
    let mut bytes = std::fs::read(quantized).unwrap();
    for (tensor, blocks) in &trained.blocks {
        let (file, info) = student.file().tensor(tensor).unwrap();
        bytes[file.range(info).unwrap()].copy_from_slice(blocks);
    }
    std::fs::write(out, bytes).unwrap();
}
