//! Files that are being written: headers are complete, tensor data arrives in order.

use std::{
    mem,
    path::{Path, PathBuf},
};

use gguf_container::{Endian, Output, Plan, PlannedTensor, check_open_files, swap_blocks};

use crate::{cause::Cause, error::Error};

/// GGUF files under temporary names, which receive the data of their tensors in the order of the plan.
///
/// [`OpenFiles::finish`] gives them their final names; dropping this instead removes them.
#[derive(Debug)]
pub struct OpenFiles {
    files: Vec<OpenFile>,
    /// The file and the tensor in it that come next.
    next: Position,
    /// The tensor whose data is incomplete.
    current: Option<Current>,
}

#[derive(Debug)]
struct OpenFile {
    path: PathBuf,
    output: Output,
    plan: Plan,
}

/// A tensor by its place.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    file: usize,
    tensor: usize,
}

/// A tensor of which some bytes are written.
#[derive(Debug)]
struct Current {
    tensor: PlannedTensor,
    file: usize,
    written: u64,
    /// Bytes after the last whole block, which are needed before it can be swapped.
    rest: Vec<u8>,
}

impl OpenFiles {
    /// Creates the files, reserves their space and writes their headers.
    ///
    /// # Errors
    /// A file that exists without `force`, or that cannot be created.
    pub(super) fn create(plans: Vec<Plan>, paths: Vec<PathBuf>, force: bool) -> Result<OpenFiles, Error> {
        check_open_files(plans.len())?;
        let mut files = Vec::with_capacity(plans.len());
        for (plan, path) in plans.into_iter().zip(paths) {
            let failed = |error| Error::at(&path, error);
            let output = Output::create(&path, plan.file_len(), force).map_err(failed)?;
            output.write_at(0, plan.header_bytes()).map_err(failed)?;
            files.push(OpenFile { path, output, plan });
        }
        let mut open = OpenFiles { files, next: Position::default(), current: None };
        open.skip_complete_files();
        Ok(open)
    }

    /// The tensor that the next bytes belong to; `None` if all data is complete.
    pub fn next_tensor(&self) -> Option<&PlannedTensor> {
        match &self.current {
            Some(current) => Some(&current.tensor),
            None => self.files.get(self.next.file)?.plan.tensors().get(self.next.tensor),
        }
    }

    /// Writes the next bytes of the next tensor, in little-endian order. After its last byte, the following tensor is
    /// next.
    ///
    /// # Errors
    /// More bytes than the tensor has; an error of the operating system.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut current = match self.current.take() {
            Some(current) => current,
            None => {
                let Some(tensor) = self.next_tensor().cloned() else {
                    return Err(Error::new("data after the last tensor"));
                };
                Current { tensor, file: self.next.file, written: 0, rest: Vec::new() }
            }
        };
        let found = current.written.saturating_add(current.rest.len() as u64 + bytes.len() as u64);
        if found > current.tensor.n_bytes {
            return Err(wrong_length(&current.tensor.name, current.tensor.n_bytes, found));
        }
        let file = &self.files[current.file];
        file.write(&mut current, bytes)?;
        if current.written == current.tensor.n_bytes {
            self.next.tensor += 1;
            self.skip_complete_files();
        } else {
            self.current = Some(current);
        }
        Ok(())
    }

    /// Syncs the files and gives them their final names, the first one last.
    ///
    /// # Errors
    /// A tensor without all of its data; an error of the operating system.
    pub fn finish(self) -> Result<Vec<PathBuf>, Error> {
        if let Some(tensor) = self.next_tensor() {
            let found =
                self.current.as_ref().map_or(0, |current| current.written + current.rest.len() as u64);
            return Err(wrong_length(&tensor.name, tensor.n_bytes, found));
        }
        for OpenFile { path, output, .. } in &self.files {
            output.sync_so_far().map_err(|error| Error::at(path, error))?;
        }
        let mut paths = Vec::with_capacity(self.files.len());
        for OpenFile { path, output, .. } in self.files.into_iter().rev() {
            output.finish().map_err(|error| Error::at(&path, error))?;
            paths.push(path);
        }
        paths.reverse();
        Ok(paths)
    }

    /// Moves on to the next tensor with data.
    fn skip_complete_files(&mut self) {
        while let Some(file) = self.files.get(self.next.file) {
            match file.plan.tensors().get(self.next.tensor) {
                Some(tensor) if tensor.n_bytes > 0 => return,
                Some(_) => self.next.tensor += 1,
                None => self.next = Position { file: self.next.file + 1, tensor: 0 },
            }
        }
    }
}

impl OpenFile {
    fn write(&self, current: &mut Current, bytes: &[u8]) -> Result<(), Error> {
        let dtype = current.tensor.dtype;
        if self.plan.endian() == Endian::Little || dtype.swap_fields().is_empty() {
            return self.put(current, bytes);
        }
        let mut blocks = mem::take(&mut current.rest);
        blocks.extend_from_slice(bytes);
        let whole = blocks.len() - blocks.len() % dtype.block_bytes() as usize;
        current.rest = blocks.split_off(whole);
        swap_blocks(dtype, &mut blocks);
        self.put(current, &blocks)
    }

    fn put(&self, current: &mut Current, bytes: &[u8]) -> Result<(), Error> {
        let at = current.tensor.offset + current.written;
        self.output.write_at(at, bytes).map_err(|error| Error::at(&self.path, error))?;
        current.written += bytes.len() as u64;
        Ok(())
    }
}

/// The error of a tensor whose number of bytes is not the expected one.
pub(super) fn wrong_length(tensor: &str, expected: u64, found: u64) -> Error {
    Cause::TensorBytes { tensor: tensor.to_owned(), expected, found }.into()
}

/// Paths of `count` files: `path` itself, or shards that are named after it.
pub(crate) fn shard_paths(path: &Path, count: usize) -> Vec<PathBuf> {
    if count == 1 {
        return vec![path.to_owned()];
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let count = count as u32;
    let shard = |no| path.with_file_name(gguf_container::shard_file_name(&stem, no, count));
    (1..=count).map(shard).collect()
}
