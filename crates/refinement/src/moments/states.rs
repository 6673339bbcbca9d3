//! State of batches between two steps, in memory or on disk.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufReader, BufWriter, Seek, SeekFrom, Write},
    mem,
};

use gguf_runtime::{Between, BetweenShapes};

use crate::Error;

pub(super) fn spill(source: io::Error) -> Error {
    Error::Io { action: "spill to", path: "a temporary file".to_owned(), source }
}

/// Layer inputs of each batch, for the backward pass.
pub(super) enum Stack {
    Held(BTreeMap<(usize, usize), Between>),
    Spilled { file: File, end: u64, places: BTreeMap<(usize, usize), (BetweenShapes, u64)> },
}

impl Stack {
    pub fn new(is_spilled: bool) -> io::Result<Stack> {
        Ok(if is_spilled {
            Stack::Spilled { file: tempfile::tempfile()?, end: 0, places: BTreeMap::new() }
        } else {
            Stack::Held(BTreeMap::new())
        })
    }

    /// Stores the input of a step of a batch.
    pub fn put(&mut self, at: (usize, usize), between: Between) -> io::Result<()> {
        match self {
            Stack::Held(all) => {
                all.insert(at, between);
            }
            Stack::Spilled { file, end, places } => {
                file.seek(SeekFrom::Start(*end))?;
                let mut writer = BufWriter::with_capacity(1 << 20, &*file);
                between.write(&mut writer)?;
                writer.flush()?;
                drop(writer);
                places.insert(at, (between.shapes(), *end));
                *end = file.stream_position()?;
            }
        }
        Ok(())
    }

    /// The input of a step of a batch; empty if it is unknown.
    pub fn get(&mut self, at: (usize, usize)) -> io::Result<Between> {
        match self {
            Stack::Held(all) => Ok(all.get(&at).cloned().unwrap_or_default()),
            Stack::Spilled { file, places, .. } => {
                let Some((shapes, offset)) = places.get(&at) else { return Ok(Between::default()) };
                file.seek(SeekFrom::Start(*offset))?;
                Between::read(shapes, &mut BufReader::with_capacity(1 << 20, file))
            }
        }
    }

    pub fn forget(&mut self, step: usize) {
        if let Stack::Held(all) = self {
            all.retain(|(of, _), _| *of != step);
        }
    }
}

/// State of each batch after the last step.
pub(super) enum States {
    Held(Vec<Between>),
    Spilled(Spilled),
}

/// Unnamed temporary files, which disappear however a run ends.
pub(super) struct Spilled {
    /// State after the previous step, and the offset of each batch.
    read: (File, Vec<(BetweenShapes, u64)>),
    written: (File, Vec<(BetweenShapes, u64)>),
}

impl States {
    /// State before the first step.
    pub fn new(n_batches: usize, is_spilled: bool) -> io::Result<States> {
        if !is_spilled {
            return Ok(States::Held(vec![Between::default(); n_batches]));
        }
        let none = vec![(BetweenShapes::default(), 0); n_batches];
        Ok(States::Spilled(Spilled {
            read: (tempfile::tempfile()?, none),
            written: (tempfile::tempfile()?, Vec::new()),
        }))
    }

    /// State of batch `index`. It is read again unless `is_last`.
    pub fn get(&mut self, index: usize, is_last: bool) -> io::Result<Between> {
        match self {
            States::Held(batches) if is_last => Ok(mem::take(&mut batches[index])),
            States::Held(batches) => Ok(batches[index].clone()),
            States::Spilled(Spilled { read: (file, places), .. }) => {
                let (shapes, offset) = &places[index];
                file.seek(SeekFrom::Start(*offset))?;
                Between::read(shapes, &mut BufReader::with_capacity(1 << 20, file))
            }
        }
    }

    /// Stores the state of batch `index`; batches come in order.
    pub fn put(&mut self, index: usize, between: Between) -> io::Result<()> {
        match self {
            States::Held(batches) => batches[index] = between,
            States::Spilled(Spilled { written: (file, places), .. }) => {
                places.push((between.shapes(), file.stream_position()?));
                let mut writer = BufWriter::with_capacity(1 << 20, file);
                between.write(&mut writer)?;
                writer.flush()?;
            }
        }
        Ok(())
    }

    /// Ends a step; the next one reads its state.
    pub fn end_step(&mut self) -> io::Result<()> {
        if let States::Spilled(Spilled { read, written }) = self {
            mem::swap(read, written);
            written.1.clear();
            written.0.set_len(0)?;
            written.0.rewind()?;
        }
        Ok(())
    }
}
