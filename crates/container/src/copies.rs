//! Files with tensors copied from other files: split, merged, or in the other byte order.
//!
//! Source: `split_strategy` and `gguf_merge` in `tools/gguf-split/gguf-split.cpp`, `gguf-py/gguf/scripts/gguf_convert_endian.py`
//! (llama-cpp-python 0.3.36).

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use gguf_types::{DType, Shape};

use crate::{
    Endian, Error, Metadata, Model, Output, Plan, SPLIT_COUNT_KEY, SPLIT_NO_KEY, SPLIT_TENSORS_KEY, Value,
    check_open_files, swap_blocks,
};

/// Limits of a shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SplitLimits {
    /// Maximum bytes of tensor data, padding included. A larger tensor gets its own shard.
    pub max_bytes: Option<u64>,
    /// Maximum number of tensors.
    pub max_tensors: Option<u64>,
    /// True if the first shard has only metadata.
    pub no_tensor_first: bool,
}

/// Number of dimensions of a copied tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranks {
    /// Number of stored dimensions: ComfyUI and diffusers distinguish (1, 6, n) from (6, n), the order of torch.
    Stored,
    /// Without trailing ones, like in `gguf.cpp`.
    Ggml,
}

impl Ranks {
    /// Shape as written.
    pub fn of(self, shape: Shape) -> Shape {
        match self {
            Ranks::Stored => shape,
            Ranks::Ggml => shape.without_trailing_ones(),
        }
    }
}

/// A file whose tensor data is copied from existing files.
#[derive(Debug, Clone)]
pub struct CopyPlan {
    /// Header and offsets.
    pub plan: Plan,
    /// For each tensor, its file in the model and its offset there, in bytes.
    from: Vec<(usize, u64)>,
    /// True if the byte order of numbers changes.
    swaps: bool,
}

type Tensor = ((String, Shape, DType), (usize, u64));

/// All tensors of a model, in file order.
fn tensors(model: &Model) -> Vec<Tensor> {
    let shards = model.shards().iter().enumerate();
    let tensors = shards.flat_map(|(shard, (_, file))| {
        let place = move |offset| (shard, file.data_offset() + offset);
        file.tensors()
            .iter()
            .map(move |tensor| ((tensor.name.clone(), tensor.shape, tensor.dtype), place(tensor.offset)))
    });
    tensors.collect()
}

fn plan(metadata: &Metadata, tensors: Vec<Tensor>, endian: Endian, swaps: bool) -> Result<CopyPlan, Error> {
    let alignment = Plan::alignment_of(metadata);
    let (tensors, from): (Vec<_>, Vec<_>) = tensors.into_iter().unzip();
    Ok(CopyPlan { plan: Plan::new(metadata, tensors, endian, alignment)?, from, swaps })
}

fn endian_of(model: &Model) -> Endian {
    model.first().endian()
}

impl CopyPlan {
    /// The shards of a model, like in `llama-gguf-split --split`, with keys in its order. It truncates texts
    /// at a zero byte; here they are kept.
    ///
    /// # Errors
    /// [`Error::TooManyShards`], and those of [`Plan::new`].
    pub fn split(model: &Model, limits: SplitLimits, ranks: Ranks) -> Result<Vec<CopyPlan>, Error> {
        let all = tensors(model);
        let n_tensors = all.len();
        let mut groups: Vec<Vec<Tensor>> = vec![Vec::new()];
        if limits.no_tensor_first {
            groups.push(Vec::new());
        }
        let mut n_bytes = 0u64;
        for ((name, shape, dtype), place) in all {
            let size = match shape.n_bytes(dtype) {
                Ok(size) => size.checked_next_multiple_of(crate::DEFAULT_ALIGNMENT.into()).unwrap_or(size),
                Err(source) => return Err(Error::Shape { tensor: name, source }),
            };
            let group = groups.last().map_or(0, Vec::len) as u64;
            let is_full = limits.max_bytes.is_some_and(|max| n_bytes.saturating_add(size) > max)
                || limits.max_tensors.is_some_and(|max| group >= max);
            if is_full && group > 0 {
                groups.push(Vec::new());
                n_bytes = 0;
            }
            n_bytes = n_bytes.saturating_add(size);
            if let Some(group) = groups.last_mut() {
                group.push(((name, ranks.of(shape), dtype), place));
            }
        }
        let count = groups.len();
        let too_many = || Error::TooManyShards { count };
        let shard = |(no, group): (usize, Vec<Tensor>)| {
            // Only the first shard contains metadata of the model.
            let mut metadata = if no == 0 { model.metadata().clone() } else { Metadata::new() };
            metadata.set_last(SPLIT_NO_KEY, Value::U16(u16::try_from(no).map_err(|_| too_many())?));
            metadata
                .set_last(SPLIT_TENSORS_KEY, Value::I32(i32::try_from(n_tensors).map_err(|_| too_many())?));
            // Last: setting a key again moves it to the end.
            metadata.set_last(SPLIT_COUNT_KEY, Value::U16(u16::try_from(count).map_err(|_| too_many())?));
            plan(&metadata, group, endian_of(model), false)
        };
        groups.into_iter().enumerate().map(shard).collect()
    }

    /// Merges all shards into one file, without the keys of shards. Restores a file that was split.
    pub fn merge(model: &Model) -> Result<CopyPlan, Error> {
        let mut metadata = model.metadata().clone();
        metadata.retain(|key, _| ![SPLIT_NO_KEY, SPLIT_COUNT_KEY, SPLIT_TENSORS_KEY].contains(&key));
        plan(&metadata, tensors(model), endian_of(model), false)
    }

    /// Copies in another byte order, including tensor data; for a split model, one for each file.
    pub fn in_order(model: &Model, endian: Endian) -> Result<Vec<CopyPlan>, Error> {
        let mut all = tensors(model).into_iter().peekable();
        let files = model.shards().iter().enumerate().map(|(shard, (_, file))| {
            let own = std::iter::from_fn(|| all.next_if(|(_, (of, _))| *of == shard)).collect();
            plan(file.metadata(), own, endian, endian != file.endian())
        });
        files.collect()
    }

    /// Writes header and data of a planned file. `done` receives the number of bytes written.
    fn write(
        &self,
        sources: &[(&Path, fs::File)],
        output: &Output,
        cancel: &AtomicBool,
        done: &dyn Fn(u64),
    ) -> Result<(), Error> {
        output.write_at(0, self.plan.header_bytes())?;
        for (tensor, (shard, from)) in self.plan.tensors().iter().zip(&self.from) {
            let (path, source) = &sources[*shard];
            // Complete blocks at a time, small enough to react to signals quickly.
            let step = tensor.dtype.whole_blocks(64 << 20);
            for start in (0..tensor.n_bytes).step_by(step as usize) {
                if cancel.load(Ordering::Relaxed) {
                    return Err(Error::Interrupted);
                }
                let len = step.min(tensor.n_bytes - start);
                let (from, to) = (from + start, tensor.offset + start);
                if self.swaps && !tensor.dtype.swap_fields().is_empty() {
                    swap_range(path, source, from, len, tensor.dtype, output, to)?
                } else {
                    output.copy_range(source, from, len, to)?
                }
                done(len);
            }
        }
        Ok(())
    }
}

/// Bytes of blocks that are swapped at a time.
const SWAP_BYTES: u64 = 1 << 20;

fn swap_range(
    path: &Path,
    source: &fs::File,
    from: u64,
    len: u64,
    dtype: DType,
    output: &Output,
    to: u64,
) -> Result<(), Error> {
    let step = dtype.whole_blocks(SWAP_BYTES);
    let mut buffer = vec![0; step.min(len) as usize];
    for start in (0..len).step_by(step as usize) {
        let piece = &mut buffer[..step.min(len - start) as usize];
        crate::output::read_exact_at(source, piece, from + start).map_err(|source| Error::Io {
            action: "read",
            path: path.to_owned(),
            offset: Some(from + start),
            source,
        })?;
        swap_blocks(dtype, piece);
        output.write_at(to + start, piece)?;
    }
    Ok(())
}

/// Writes planned files, each to the path of the same index. Files are renamed when all are complete, the
/// first one last, because readers open it.
///
/// # Errors
/// [`Error::Interrupted`], and those of [`Output`]; [`Error::Changed`] if the model changed in the meantime.
pub fn write_copies(
    plans: &[CopyPlan],
    paths: &[PathBuf],
    model: &Model,
    force: bool,
    cancel: &AtomicBool,
    done: &dyn Fn(u64),
) -> Result<(), Error> {
    let open = |path: &Path| fs::File::open(path).map_err(|source| Error::io("open", path, source));
    let sources = model.shards().iter().map(|(path, _)| Ok((path.as_path(), open(path)?)));
    let sources: Vec<(&Path, fs::File)> = sources.collect::<Result<_, Error>>()?;
    check_open_files(plans.len())?;
    // Space for all files is reserved before the first byte is copied.
    let outputs =
        plans.iter().zip(paths).map(|(plan, path)| Output::create(path, plan.plan.file_len(), force));
    let outputs: Vec<Output> = outputs.collect::<Result<_, _>>()?;
    for (plan, output) in plans.iter().zip(&outputs) {
        plan.write(&sources, output, cancel, done)?;
    }
    outputs.iter().try_for_each(Output::sync_so_far)?;
    model.shards().iter().try_for_each(|(_, file)| file.bytes().check_unchanged())?;
    outputs.into_iter().rev().try_for_each(Output::finish)
}
