//! `gguf-inspect diff A B`: differences between two files.

mod lines;

use std::{fmt::Write as _, ops::Range, path::PathBuf, sync::atomic::Ordering};

use clap::{Args, ValueHint};
use gguf::{Advice, File, Model, TensorInfo, Value};
use serde_json::{Value as Json, json};

use crate::{
    commands::{
        Command,
        shared::{
            copy_files::open_model,
            cpu_level::cpu_level,
            metadata_json::{Sides, entry, is_same, short, side_by_side},
        },
    },
    failure::Failure,
    ui::{Ui, cancel_on_interrupt, pretty_json, printable},
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("diff"),
    about: "Compare the keys, chat templates and tensors of two files",
    examples: EXAMPLES,
    define: DiffArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

const EXAMPLES: &str = "\
Examples:
  gguf-inspect diff old.gguf new.gguf
  gguf-inspect diff a.gguf b.gguf --headers
  gguf-inspect diff model-BF16.gguf model-Q4_K_M.gguf --json | jq .tensors

A line starts with - if only A has the item, + if only B has it, ~ if it differs. The error of a
tensor is sqrt(sum (b - a)^2 / sum a^2). Chat templates and other long strings are compared line by
line. The order of keys and tensors, the division into shards and the byte order are ignored.

Exit codes: 0 no difference, 1 differences found, 2 usage error.";

#[derive(Debug, Args)]
struct DiffArgs {
    /// GGUF file, or any shard of a split model.
    #[arg(value_hint = ValueHint::FilePath)]
    a: PathBuf,
    /// The file to compare it with.
    #[arg(value_hint = ValueHint::FilePath)]
    b: PathBuf,
    /// Compare only keys, names, shapes and types, without tensor data.
    #[arg(long)]
    headers: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Print only errors.
    #[arg(short, long)]
    quiet: bool,
}

/// Change of one tensor.
enum Change<'a> {
    OnlyA(&'a TensorInfo),
    OnlyB(&'a TensorInfo),
    Both {
        a: &'a TensorInfo,
        b: &'a TensorInfo,
        /// Relative error of the values; none if shapes differ, data were not read or no decoder exists.
        error: Option<f64>,
    },
}

fn run(args: DiffArgs, ui: &Ui) -> Result<(), Failure> {
    let (a, b) = (open_model(&args.a)?, open_model(&args.b)?);
    let keys = keys(&a, &b);
    let tensors = tensors(&a, &b, &args, ui)?;
    let text = if args.json { json_of(&keys, &tensors)? } else { text_of(&keys, &tensors) };
    ui.data(&text)?;
    match (keys.len(), tensors.len()) {
        (0, 0) => Ok(()),
        (n_keys, n_tensors) => Err(Failure::new(format_args!(
            "{} and {} differ in {n_keys} keys and {n_tensors} tensors",
            args.a.display(),
            args.b.display()
        ))),
    }
}

/// Keys whose values differ. Keys that describe shards are ignored.
fn keys<'a>(a: &'a Model, b: &'a Model) -> Vec<Sides<'a>> {
    let is_of_shards = |key: &str| key.starts_with("split.") || key == gguf::SLACK_KEY;
    let both = side_by_side(a.metadata(), b.metadata());
    both.filter(|(key, a, b)| !is_same(*a, *b) && !is_of_shards(key)).collect()
}

fn tensors<'a>(a: &'a Model, b: &'a Model, args: &DiffArgs, ui: &Ui) -> Result<Vec<Change<'a>>, Failure> {
    let cancel = cancel_on_interrupt();
    let progress = ui.progress(match args.headers {
        true => 0,
        false => a.tensors().map(|(_, info)| info.n_bytes).sum(),
    });
    let mut changes = Vec::new();
    for (file_a, info_a) in a.tensors() {
        if cancel.load(Ordering::Relaxed) {
            return Err(Failure::interrupted());
        }
        let Some((file_b, info_b)) = b.tensor(&info_a.name) else {
            changes.push(Change::OnlyA(info_a));
            continue;
        };
        let same_shape = info_a.shape.without_trailing_ones() == info_b.shape.without_trailing_ones();
        let error = match same_shape && !args.headers {
            true => error_of((file_a, info_a), (file_b, info_b))?,
            false => None,
        };
        progress.add(info_a.n_bytes);
        let same_type = info_a.dtype == info_b.dtype;
        // Values may be equal in types that are not.
        if !same_shape || !same_type || error.is_some() {
            changes.push(Change::Both { a: info_a, b: info_b, error });
        }
    }
    let only_b = b.tensors().filter(|(_, info)| a.tensor(&info.name).is_none());
    changes.extend(only_b.map(|(_, info)| Change::OnlyB(info)));
    Ok(changes)
}

/// Elements that are compared at a time: whole blocks of every type.
const PIECE_ELEMS: u64 = 1 << 20;

/// Relative error of the values of `b`; none if the bytes of one type are equal, NaN if a type has no
/// decoder.
fn error_of<'a>(
    a: (&'a File, &'a TensorInfo),
    b: (&'a File, &'a TensorInfo),
) -> Result<Option<f64>, Failure> {
    let level = cpu_level()?;
    let n_elems = a.1.shape.n_elems();
    let same_type = a.1.dtype == b.1.dtype;
    let has_codecs = quant::codec(a.1.dtype).is_some() && quant::codec(b.1.dtype).is_some();
    let pieces = || (0..n_elems).step_by(PIECE_ELEMS as usize).map(|at| at..(at + PIECE_ELEMS).min(n_elems));
    // The blocks of a run of elements, and where they lie.
    let piece = |(file, info): (&'a File, &TensorInfo), elems: &Range<u64>| {
        let bytes = |elems: u64| (elems / info.dtype.block_elems() * info.dtype.block_bytes()) as usize;
        let from = file.range(info).map_err(Failure::new)?.start;
        let range = from + bytes(elems.start)..from + bytes(elems.end);
        Ok::<_, Failure>((range.clone(), file.endian().to_little(info.dtype, &file.bytes()[range])))
    };
    let done = |range_a, range_b| {
        a.0.bytes().advise(Advice::DoneWith, range_a);
        b.0.bytes().advise(Advice::DoneWith, range_b);
    };
    // Most tensors of two files that are compared are equal, and comparing bytes is much faster than decoding them.
    let mut is_equal = same_type;
    for elems in pieces() {
        if !is_equal {
            break;
        }
        let ((range_a, blocks_a), (range_b, blocks_b)) = (piece(a, &elems)?, piece(b, &elems)?);
        is_equal = blocks_a == blocks_b;
        done(range_a, range_b);
    }
    if is_equal {
        return Ok(None);
    }
    if !has_codecs {
        return Ok(Some(f64::NAN));
    }
    let (mut difference, mut size) = (0f64, 0f64);
    for elems in pieces() {
        let decoded = |dtype, blocks: &[u8]| {
            let mut values = vec![0.0; (elems.end - elems.start) as usize];
            quant::decode(dtype, level, blocks, &mut values).map_err(Failure::new)?;
            Ok::<_, Failure>(values)
        };
        let ((range_a, blocks_a), (range_b, blocks_b)) = (piece(a, &elems)?, piece(b, &elems)?);
        let values_a = decoded(a.1.dtype, &blocks_a)?;
        size += values_a.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>();
        if !(same_type && blocks_a == blocks_b) {
            let values_b = decoded(b.1.dtype, &blocks_b)?;
            let pairs = values_a.iter().zip(&values_b);
            difference += pairs.map(|(a, b)| (f64::from(*b) - f64::from(*a)).powi(2)).sum::<f64>();
        }
        done(range_a, range_b);
    }
    Ok(Some(if difference == 0.0 { 0.0 } else { (difference / size).sqrt() }))
}

fn described(info: &TensorInfo) -> String {
    format!("{} {}", info.dtype, info.shape)
}

fn text_of(keys: &[Sides<'_>], tensors: &[Change<'_>]) -> String {
    let mut text = String::new();
    for (key, a, b) in keys {
        // Writing to a string cannot fail.
        let _ = match (a, b) {
            (Some(a), None) => writeln!(text, "- {}: {}", printable(key), short(a)),
            (None, Some(b)) => writeln!(text, "+ {}: {}", printable(key), short(b)),
            (Some(a), Some(b)) => {
                let texts = a.as_str().zip(b.as_str()).filter(|(a, b)| a.contains('\n') || b.contains('\n'));
                match texts {
                    Some((a, b)) => write!(text, "~ {}:\n{}", printable(key), lines::unified(a, b)),
                    None => writeln!(
                        text,
                        "~ {}: {}{} -> {}",
                        printable(key),
                        first_item(a, b),
                        short(a),
                        short(b)
                    ),
                }
            }
            (None, None) => Ok(()),
        };
    }
    for change in tensors {
        let _ = match change {
            Change::OnlyA(a) => writeln!(text, "- {}: {}", printable(&a.name), described(a)),
            Change::OnlyB(b) => writeln!(text, "+ {}: {}", printable(&b.name), described(b)),
            Change::Both { a, b, error } => {
                let error = error.map_or(String::new(), |error| format!(", error {error:.6}"));
                let what = match described(a) == described(b) {
                    true => described(a),
                    false => format!("{} -> {}", described(a), described(b)),
                };
                writeln!(text, "~ {}: {what}{error}", printable(&a.name))
            }
        };
    }
    text
}

/// The first item in which two lists of texts differ.
fn first_item(a: &Value, b: &Value) -> String {
    use gguf::Array::String as Texts;
    let (Some(Texts(a)), Some(Texts(b))) = (a.as_array(), b.as_array()) else { return String::new() };
    match a.iter().zip(b.iter()).position(|(a, b)| a != b) {
        Some(at) => {
            let text = |bytes: &[u8]| format!("{:?}", String::from_utf8_lossy(bytes));
            format!("item {at} {} -> {}; ", text(&a[at]), text(&b[at]))
        }
        None => String::new(),
    }
}

fn json_of(keys: &[Sides<'_>], tensors: &[Change<'_>]) -> Result<String, Failure> {
    let key = |(key, a, b): &Sides<'_>| json!({"key": key, "a": a.map(entry), "b": b.map(entry)});
    let side = |info: &TensorInfo| json!({"dtype": info.dtype.name(), "shape": info.shape.dims()});
    let tensor = |change: &Change<'_>| match change {
        Change::OnlyA(a) => json!({"name": a.name, "a": side(a), "b": Json::Null}),
        Change::OnlyB(b) => json!({"name": b.name, "a": Json::Null, "b": side(b)}),
        Change::Both { a, b, error } => json!({"name": a.name, "a": side(a), "b": side(b), "error": error}),
    };
    let report = json!({
        "equal": keys.is_empty() && tensors.is_empty(),
        "keys": keys.iter().map(key).collect::<Vec<_>>(),
        "tensors": tensors.iter().map(tensor).collect::<Vec<_>>(),
    });
    pretty_json(&report)
}
