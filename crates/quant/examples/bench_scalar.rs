//! Nanoseconds an element of every codec at one level, one thread, on 64 rows of 4096 bell-shaped values:
//! `bench_scalar [LEVEL [TYPE ...]]`, the level `scalar` when none is named. The best of at least five runs.

use std::{hint::black_box, process::ExitCode, time::Instant};

use quant::{CODECS, Level, Rows};
use testkit::{Data, Importance};

const ROW_ELEMS: usize = 4096;
const N_ROWS: usize = 64;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "scalar".to_owned());
    let types: Vec<String> = arguments.collect();
    let Some(level) = Level::from_name(&name) else {
        eprintln!("level `{name}` is not available here: {:?}", Level::available());
        return ExitCode::FAILURE;
    };
    let values = Data::Normal.values(1, N_ROWS * ROW_ELEMS);
    let weights = Importance::Mixed.weights(2, ROW_ELEMS);
    println!("level {name}, ns an element");
    println!("{:<8} {:>10} {:>10} {:>8}", "type", "unweighted", "weighted", "decode");
    for codec in CODECS {
        let dtype = codec.dtype;
        if !types.is_empty() && !types.iter().any(|name| dtype.name().eq_ignore_ascii_case(name)) {
            continue;
        }
        let mut blocks = vec![0; values.len() / dtype.block_elems() as usize * dtype.block_bytes() as usize];
        let mut encode = |weights: Option<&[f32]>| {
            let rows = Rows { values: &values, row_elems: ROW_ELEMS, weights };
            best_time(|| quant::encode(dtype, level, black_box(rows), &mut blocks).is_ok())
        };
        let unweighted = encode(None);
        let weighted = encode(Some(&weights));
        let mut decoded = vec![0.0; values.len()];
        let decode = best_time(|| quant::decode(dtype, level, black_box(&blocks), &mut decoded).is_ok());
        let text = |time: Option<f64>| time.map_or("-".to_owned(), |time| format!("{time:.2}"));
        println!("{dtype:<8} {:>10} {:>10} {:>8}", text(unweighted), text(weighted), text(decode));
    }
    ExitCode::SUCCESS
}

/// Nanoseconds an element of the fastest run; none where `work` fails.
fn best_time(mut work: impl FnMut() -> bool) -> Option<f64> {
    let mut best = f64::INFINITY;
    let start = Instant::now();
    let mut runs = 0;
    while runs < 5 || (runs < 50 && start.elapsed().as_millis() < 200) {
        let begin = Instant::now();
        if !work() {
            return None;
        }
        best = best.min(begin.elapsed().as_secs_f64());
        runs += 1;
    }
    Some(best * 1e9 / (N_ROWS * ROW_ELEMS) as f64)
}
