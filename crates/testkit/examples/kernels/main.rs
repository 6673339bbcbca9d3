//! Times every kernel of crate `quant` on one thread, and optionally the reference's:
//! `kernels [--reference-library FILE] [--runs N] [--rows N] [--only TYPE,TYPE] [--levels LEVEL,LEVEL] [--json FILE] [--about MACHINE COMMIT DATE COMMAND]`.
//! Called by `scripts/bench kernels`.
//!
//! Kernels take turns within a run, so that a slower phase of the machine affects all. Compares medians and
//! bytes.

mod reference;
mod table;

use std::{
    error::Error,
    hint::black_box,
    path::PathBuf,
    time::{Duration, Instant},
};

use gguf_quant::{CODECS, Codec, Level, Rows};
use reference::Reference;
use table::{Decode, Encode, Report};

const ROW_ELEMS: usize = 4096;
/// Minimum duration of one measurement.
const SHORTEST: Duration = Duration::from_millis(20);

struct Options {
    library: Option<PathBuf>,
    runs: usize,
    rows: usize,
    only: Option<Vec<String>>,
    levels: Vec<Level>,
    json: Option<PathBuf>,
    about: [String; 4],
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let reference = options.library.as_deref().map(Reference::open).transpose()?;
    let values: Vec<f32> =
        (0..(options.rows * ROW_ELEMS) as u64).map(|i| gguf_testkit::normal(1, i)).collect();
    // Squares, like sums of squared activations.
    let weights: Vec<f32> = (0..ROW_ELEMS as u64)
        .map(|i| {
            let activation = gguf_testkit::normal(2, i) * 50.0;
            activation * activation + 0.01
        })
        .collect();
    let [machine, commit, date, command] = options.about.clone();
    let mut report = Report {
        machine,
        commit,
        date,
        command,
        rows: options.rows,
        row_elems: ROW_ELEMS,
        runs: options.runs,
        levels: options.levels.iter().map(|level| level.name().to_owned()).collect(),
        encode: Vec::new(),
        decode: Vec::new(),
    };
    let wanted = |codec: &&Codec| {
        let named = |names: &Vec<String>| names.iter().any(|n| n.eq_ignore_ascii_case(codec.dtype.name()));
        codec.dtype.is_encodable() && options.only.as_ref().is_none_or(named)
    };
    for codec in CODECS.iter().filter(wanted) {
        for weights in [None, Some(&weights[..])] {
            if codec.needs_weights && weights.is_none() {
                continue;
            }
            let rows = Rows { values: &values, row_elems: ROW_ELEMS, weights };
            let row = time_encoders(codec, rows, &options, reference.as_ref())?;
            eprintln!(
                "{} {}: reference {:?}, ours {:?}, equal {:?}",
                row.dtype,
                if row.weighted { "weighted" } else { "unweighted" },
                row.reference,
                row.ours,
                row.equal
            );
            report.encode.push(row);
        }
        report.decode.push(time_decoders(codec, &values, &weights, &options)?);
    }
    if let Some(path) = &options.json {
        std::fs::write(path, serde_json::to_string_pretty(&report)?)?;
    }
    print!("{}", table::markdown(&report));
    Ok(())
}

fn time_encoders(
    codec: &Codec,
    rows: Rows<'_>,
    options: &Options,
    reference: Option<&Reference>,
) -> Result<Encode, Box<dyn Error>> {
    let n_elems = rows.values.len();
    let mut ours = vec![Vec::new(); options.levels.len()];
    let mut theirs = Vec::new();
    let mut found = vec![vec![0; n_bytes(codec, n_elems)]; options.levels.len()];
    let mut expected = vec![0; n_bytes(codec, n_elems)];
    if let Some(reference) = reference {
        reference.warm_up(codec.dtype)?;
    }
    for _ in 0..options.runs {
        for ((level, times), out) in options.levels.iter().zip(&mut ours).zip(&mut found) {
            times.push(time(n_elems, || Ok(gguf_quant::encode(codec.dtype, *level, black_box(rows), out)?))?);
        }
        if let Some(reference) = reference {
            let encode = || Ok(reference.encode(codec.dtype, black_box(rows), &mut expected)?);
            theirs.push(time(n_elems, encode)?);
        }
    }
    Ok(Encode {
        dtype: codec.dtype.name().to_owned(),
        weighted: rows.weights.is_some(),
        reference: reference.map(|_| median(&mut theirs)),
        ours: ours.iter_mut().map(|times| median(times)).collect(),
        equal: reference.map(|_| found.iter().all(|found| *found == expected)),
    })
}

fn time_decoders(
    codec: &Codec,
    values: &[f32],
    weights: &[f32],
    options: &Options,
) -> Result<Decode, Box<dyn Error>> {
    // A pipeline decodes pieces that fit the L2 cache; a longer run would measure memory instead.
    let values = &values[..values.len().min(64 * ROW_ELEMS)];
    let mut blocks = vec![0; n_bytes(codec, values.len())];
    let rows = Rows { values, row_elems: ROW_ELEMS, weights: Some(weights) };
    gguf_quant::encode(codec.dtype, options.levels[0], rows, &mut blocks)?;
    let mut decoded = vec![0.0; values.len()];
    let mut ours = vec![Vec::new(); options.levels.len()];
    for _ in 0..4 * options.runs {
        for (level, times) in options.levels.iter().zip(&mut ours) {
            let decode =
                || Ok(gguf_quant::decode(codec.dtype, *level, black_box(&blocks), black_box(&mut decoded))?);
            times.push(time(values.len(), decode)?);
        }
    }
    let ours = ours.iter_mut().map(|times| median(times)).collect();
    Ok(Decode { dtype: codec.dtype.name().to_owned(), ours })
}

fn n_bytes(codec: &Codec, n_elems: usize) -> usize {
    n_elems / codec.dtype.block_elems() as usize * codec.dtype.block_bytes() as usize
}

/// Nanoseconds per element; repeats work that is too short for the clock.
fn time(n_elems: usize, mut code: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let start = Instant::now();
    for n_times in 1.. {
        code()?;
        let elapsed = start.elapsed();
        if elapsed >= SHORTEST {
            return Ok(elapsed.as_secs_f64() * 1e9 / n_elems as f64 / f64::from(n_times));
        }
    }
    unreachable!("time goes on")
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        library: None,
        runs: 5,
        rows: 512,
        only: None,
        levels: Vec::new(),
        json: None,
        about: ["this machine", "-", "-", "kernels"].map(str::to_owned),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{option} needs a value"));
        match option.as_str() {
            "--reference-library" => options.library = Some(value()?.into()),
            "--runs" => options.runs = value()?.parse::<usize>()?.max(1),
            "--rows" => options.rows = value()?.parse::<usize>()?.max(1),
            "--only" => options.only = Some(value()?.split(',').map(str::to_owned).collect()),
            "--json" => options.json = Some(value()?.into()),
            "--levels" => {
                for name in value()?.split(',') {
                    let level = Level::from_name(name);
                    options.levels.push(level.ok_or_else(|| format!("no level `{name}` here"))?);
                }
            }
            "--about" => options.about = [value()?, value()?, value()?, value()?],
            _ => return Err(format!("unknown option {option}").into()),
        }
    }
    if options.levels.is_empty() {
        options.levels.push(Level::detect());
        options.levels.extend(Level::from_name("avx2").filter(|level| *level != Level::detect()));
    }
    Ok(options)
}
