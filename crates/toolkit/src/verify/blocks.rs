//! Checks that blocks could be the output of an encoder.

use std::{
    num::NonZeroUsize,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use gguf_container::{Advice, File, Model, TensorInfo};
use gguf_quant::{Level, first_bad_block, first_large_value};
use gguf_types::DType;

use super::{
    holes::{self, Run},
    keys::other_kind,
    report::{Check, Finding},
};
use crate::{error::Error, events::Events, threads::useful_threads};

/// Bytes that a thread takes at a time.
const PIECE_BYTES: u64 = 4 << 20;

/// Magnitude that no weight of a matrix has. Those of trained models are below 100, with outliers in norms only.
const MAX_WEIGHT: f32 = 1e4;

/// Findings in the pieces, each with the number of its tensor.
#[derive(Debug, Default)]
struct Found {
    /// The first bad block of each piece that has one.
    bad: Vec<(usize, usize, String)>,
    /// The first large weight of each piece that has one.
    large: Vec<(usize, usize, String)>,
    /// Zero bytes.
    zeros: Vec<Run>,
}

/// A run of blocks of one tensor.
struct Piece<'a> {
    tensor: usize,
    file: &'a File,
    info: &'a TensorInfo,
    /// In the data of the tensor.
    from: u64,
    to: u64,
}

/// Looks at every block.
///
/// # Errors
/// An interruption, and a file that changes meanwhile.
pub fn check(model: &Model, threads: Option<NonZeroUsize>, events: &dyn Events) -> Result<Check, Error> {
    let mut pieces = Vec::new();
    for (tensor, (file, info)) in model.tensors().enumerate() {
        // Whole blocks, so that each piece stands for itself.
        let step = info.dtype.whole_blocks(PIECE_BYTES);
        let starts = (0..info.n_bytes).step_by(step as usize);
        pieces.extend(starts.map(|from| {
            let to = (from + step).min(info.n_bytes);
            Piece { tensor, file, info, from, to }
        }));
    }
    let cancel = events.cancel();
    let progress = events.progress(model.tensor_bytes());
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Found::default());
    // Importance matrices hold sums of squares.
    let has_weights = other_kind(model.metadata()) != Some("imatrix");
    // True for each tensor with a nonzero value, and for those that may be zero.
    let has_value: Vec<AtomicBool> = model
        .tensors()
        .map(|(_, info)| {
            let may_be_zero =
                !gguf_conversion::is_nonzero_by_nature(&info.name, info.shape.n_dims_effective());
            AtomicBool::new(may_be_zero || info.n_bytes == 0 || gguf_quant::codec(info.dtype).is_none())
        })
        .collect();
    let work = || {
        while !cancel.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(piece) = pieces.get(index) else { break };
            let (bad, large, zeros) = look(piece, has_weights, &has_value[piece.tensor]);
            if bad.is_some() || large.is_some() || !zeros.is_empty() {
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found.bad.extend(bad.map(|message| (piece.tensor, index, message)));
                found.large.extend(large.map(|message| (piece.tensor, index, message)));
                let room = holes::MAX_RUNS.saturating_sub(found.zeros.len());
                found.zeros.extend(zeros.into_iter().take(room));
            }
            progress.add(piece.to - piece.from);
        }
    };
    gguf_container::run_in_threads(useful_threads(threads), work);
    drop(progress);
    if cancel.load(Ordering::Relaxed) {
        return Err(Error::interrupted());
    }
    for (_, file) in model.shards() {
        file.bytes().check_unchanged().map_err(Error::new)?;
    }
    let Found { mut bad, mut large, zeros } = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    // The first of each tensor.
    for messages in [&mut bad, &mut large] {
        messages.sort_unstable();
        messages.dedup_by_key(|(tensor, ..)| *tensor);
    }
    let mut check = Check::new("blocks");
    check.summary = format!("{} tensors", model.tensors().count());
    check.findings.extend(bad.into_iter().map(|(.., message)| Finding::error("bad_block", message)));
    check.findings.extend(holes::findings(model, zeros));
    check.findings.extend(large.into_iter().map(|(.., message)| Finding::warning("large_value", message)));
    let is_zero: Vec<bool> = has_value.iter().map(|value| !value.load(Ordering::Relaxed)).collect();
    check.findings.extend(zero_tensors(model, &is_zero));
    Ok(check)
}

/// Tensors at the end of a file that must be zero for an incomplete download, if no others are.
const MIN_TAIL: usize = 3;

/// Findings about tensors that are entirely zero: one error for an incomplete file, otherwise a warning for each run of them.
fn zero_tensors(model: &Model, is_zero: &[bool]) -> Vec<Finding> {
    let all = || model.tensors().zip(is_zero);
    let has_value =
        |info: &TensorInfo| gguf_conversion::is_nonzero_by_nature(&info.name, info.shape.n_dims_effective());
    let n_expected = all().filter(|((_, info), _)| has_value(info)).count();
    let n_zero = is_zero.iter().filter(|is_zero| **is_zero).count();
    // A download fills a file from its start; tensors of a model may be in any order.
    let mut by_place: Vec<_> = all().filter(|((_, info), _)| has_value(info)).collect();
    by_place.sort_by_key(|((file, info), _)| (file.bytes().as_ptr() as usize, info.offset));
    let n_last = by_place.iter().rev().take_while(|(_, is_zero)| **is_zero).count();
    if n_zero >= MIN_TAIL && (n_zero * 2 >= n_expected || n_last == n_zero) {
        let which = if n_last == n_zero && n_zero < n_expected { "the last " } else { "" };
        return vec![Finding::error(
            "zeros",
            format!(
                "{which}{n_zero} of {n_expected} tensors are entirely zero: the file is an incomplete download or copy"
            ),
        )];
    }
    let runs = by_place.chunk_by(|a, b| a.1 == b.1).filter(|run| *run[0].1);
    let finding = |run: &[((&File, &TensorInfo), &bool)]| {
        let name =
            |((_, info), _): ((&File, &TensorInfo), &bool)| format!("`{}` ({})", info.name, info.dtype);
        let message = match *run {
            [first, .., last] => format!(
                "{} consecutive tensors are entirely zero, from {} to {}; part of the file may be missing",
                run.len(),
                name(first),
                name(last)
            ),
            _ => format!("tensor {} is entirely zero", name(run[0])),
        };
        Finding::warning("zeros", message)
    };
    runs.map(finding).collect()
}

/// Problem of the first bad block of a piece, its first large value, and its runs of zeros.
fn look(
    piece: &Piece<'_>,
    has_weights: bool,
    has_value: &AtomicBool,
) -> (Option<String>, Option<String>, Vec<Run>) {
    let Piece { tensor, file, info, from, to } = *piece;
    let nothing = (None, None, Vec::new());
    let Ok(range) = file.range(info) else { return nothing };
    let range = range.start + from as usize..range.start + to as usize;
    let Some(bytes) = file.bytes().get(range.clone()) else { return nothing };
    let zeros = holes::zero_runs(bytes).into_iter();
    let zeros = zeros.map(|run| Run { tensor, from: from + run.start as u64, to: from + run.end as u64 });
    let zeros = zeros.collect();
    let blocks = file.endian().to_little(info.dtype, bytes);
    let bad = first_bad_block(info.dtype, &blocks);
    let is_matrix = info.shape.n_dims_effective() > 1;
    let large = (has_weights && is_matrix && bad.is_none())
        .then(|| first_large_value(info.dtype, Level::detect(), &blocks, MAX_WEIGHT))
        .flatten();
    if !has_value.load(Ordering::Relaxed) && any_value(info.dtype, &blocks) {
        has_value.store(true, Ordering::Relaxed);
    }
    file.bytes().advise(Advice::DoneWith, range);
    let place = |block: usize| {
        let block = from / info.dtype.block_bytes() + block as u64;
        let row = block * info.dtype.block_elems() / info.shape.row_elems().max(1);
        let what = if info.dtype.is_quantized() { "block" } else { "element" };
        format!("tensor `{}` ({}): {what} {block} (row {row})", info.name, info.dtype)
    };
    let bad = bad.map(|bad| format!("{}: {}", place(bad.block), bad.problem));
    let large = large.map(|(block, value)| {
        format!("{}: the weight {value} is implausibly large; the data may be damaged", place(block))
    });
    (bad, large, zeros)
}

/// Blocks that are decoded at a time.
const DECODED_BLOCKS: usize = 64;

/// True if a value of these blocks is not zero. Blocks that cannot be decoded count as such.
fn any_value(dtype: DType, blocks: &[u8]) -> bool {
    let (block_bytes, block_elems) = (dtype.block_bytes() as usize, dtype.block_elems() as usize);
    let mut values = vec![0.0; DECODED_BLOCKS * block_elems];
    blocks.chunks(DECODED_BLOCKS * block_bytes).any(|blocks| {
        let values = &mut values[..blocks.len() / block_bytes * block_elems];
        let decoded = gguf_quant::decode(dtype, Level::detect(), blocks, values);
        decoded.is_err() || values.iter().any(|value| *value != 0.0)
    })
}
