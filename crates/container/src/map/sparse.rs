//! A file of known length whose bytes arrive in pieces and can be released again, so that it never takes much
//! space.
//!
//! ```text
//! absent --fill--> present --(entirely released, no announcement covers it)--> absent
//! ```
//!
//! Bytes are written to a private file, with holes for missing blocks, and read by copying, so releasing a
//! block cannot change bytes that a reader has. If the system can punch holes, released bytes take neither
//! memory nor disk.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    ops::Range,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::Advice;
use crate::output::{read_exact_at, write_all_at};

/// A sparse file that is filled by blocks of [`SparseFile::BLOCK_BYTES`]; the last one may be shorter.
pub struct SparseFile {
    file: fs::File,
    n_bytes: u64,
    /// Blocks that were announced or filled.
    blocks: Mutex<BTreeMap<u64, Block>>,
    /// True if unused blocks are discarded.
    discards: AtomicBool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Block {
    state: State,
    /// Announced uses that have not ended.
    pins: u32,
    /// Bytes whose announced use has ended; counted twice if used twice.
    done_bytes: u64,
}

impl Block {
    /// True for a block of `n_bytes` that can be discarded.
    fn is_unused(&self, n_bytes: u64) -> bool {
        self.state == State::Present && self.pins == 0 && self.done_bytes >= n_bytes
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Absent,
    Arriving,
    Present,
}

impl SparseFile {
    /// Bytes per block: many pages, but little compared with the bytes in flight.
    pub const BLOCK_BYTES: u64 = 256 << 10;

    /// Turns the empty private `file` into a file of `n_bytes` absent bytes. Finished blocks are discarded if
    /// `discards`.
    ///
    /// # Errors
    /// The system's error; it may not have room for a file of this length.
    pub fn new(file: fs::File, n_bytes: u64, discards: bool) -> io::Result<SparseFile> {
        file.set_len(n_bytes)?;
        Ok(SparseFile { file, n_bytes, blocks: Mutex::default(), discards: AtomicBool::new(discards) })
    }

    /// Length in bytes.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// Blocks that contain bytes of `range`.
    pub fn blocks_of(&self, range: &Range<u64>) -> Range<u64> {
        let end = range.end.min(self.n_bytes);
        if range.start < end {
            range.start / Self::BLOCK_BYTES..end.div_ceil(Self::BLOCK_BYTES)
        } else {
            0..0
        }
    }

    /// The bytes of a block.
    pub fn bytes_of(&self, block: u64) -> Range<u64> {
        let place = |block: u64| block.saturating_mul(Self::BLOCK_BYTES).min(self.n_bytes);
        place(block)..place(block.saturating_add(1))
    }

    /// True if a block is present.
    pub fn has(&self, block: u64) -> bool {
        self.lock().get(&block).is_some_and(|block| block.state == State::Present)
    }

    /// Writes a complete block. A block that is present stays unchanged.
    ///
    /// # Errors
    /// System errors; [`io::ErrorKind::InvalidInput`] if `bytes` does not have the length of the block.
    pub fn fill(&self, block: u64, bytes: &[u8]) -> io::Result<()> {
        let place = self.bytes_of(block);
        if place.end - place.start != bytes.len() as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        {
            let mut blocks = self.lock();
            let entry = blocks.entry(block).or_default();
            if entry.state != State::Absent {
                return Ok(());
            }
            entry.state = State::Arriving;
        }
        // Without the lock, which every reader takes.
        let written = write_all_at(&self.file, bytes, place.start);
        let state = if written.is_ok() { State::Present } else { State::Absent };
        self.lock().entry(block).or_default().state = state;
        written
    }

    /// Copies bytes `range`; `None` if some are absent or outside the file.
    ///
    /// # Errors
    /// The system's error.
    pub fn read(&self, range: Range<u64>) -> io::Result<Option<Vec<u8>>> {
        let touched = self.blocks_of(&range);
        // Under the lock, so that no block is discarded meanwhile.
        let blocks = self.lock();
        let present = blocks.range(touched.clone()).filter(|(_, block)| block.state == State::Present);
        if range.end > self.n_bytes || present.count() as u64 != touched.end - touched.start {
            return Ok(None);
        }
        let mut bytes = vec![0; (range.end - range.start.min(range.end)) as usize];
        read_exact_at(&self.file, &mut bytes, range.start)?;
        Ok(Some(bytes))
    }

    /// [`Advice::WillNeed`] announces a use of the bytes `range`, [`Advice::DoneWith`] ends it: each
    /// announcement must be followed by one end of the same range. Unused blocks whose bytes are all done
    /// become absent again.
    pub fn advise(&self, advice: Advice, range: Range<u64>) {
        match advice {
            Advice::WillNeed => {
                let mut blocks = self.lock();
                for block in self.blocks_of(&range) {
                    let entry = blocks.entry(block).or_default();
                    entry.pins = entry.pins.saturating_add(1);
                }
            }
            Advice::DoneWith => self.end_use(range),
            Advice::Sequential => {}
        }
    }

    fn end_use(&self, range: Range<u64>) {
        let mut blocks = self.lock();
        for block in self.blocks_of(&range) {
            let place = self.bytes_of(block);
            let entry = blocks.entry(block).or_default();
            entry.pins = entry.pins.saturating_sub(1);
            let done = range.end.min(place.end) - range.start.max(place.start);
            entry.done_bytes = entry.done_bytes.saturating_add(done);
        }
        if !self.discards.load(Ordering::Relaxed) {
            return;
        }
        let n_bytes = |block| self.bytes_of(block).end - self.bytes_of(block).start;
        let is_unused = |block: &u64| blocks.get(block).is_some_and(|found| found.is_unused(n_bytes(*block)));
        let unused: Vec<u64> = self.blocks_of(&range).filter(is_unused).collect();
        // Under the lock, so that no thread reads a block that is being discarded.
        for run in unused.chunk_by(|a, b| a + 1 == *b) {
            let (first, last) = (run[0], run[run.len() - 1]);
            let place = self.bytes_of(first).start..self.bytes_of(last).end;
            if punch(&self.file, place).is_err() {
                // This file system does not support holes: everything stays.
                self.discards.store(false, Ordering::Relaxed);
                return;
            }
            for block in run {
                blocks.entry(*block).or_default().state = State::Absent;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Block>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Punches a hole into a file, whose length stays.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn punch(file: &fs::File, range: Range<u64>) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(fallocate(file, flags, range.start, range.end - range.start)?)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn punch(_file: &fs::File, _range: Range<u64>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

impl fmt::Debug for SparseFile {
    /// Only the length: there may be many blocks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SparseFile({} bytes)", self.n_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = SparseFile::BLOCK_BYTES;

    /// A file of two and a half blocks.
    fn file(discards: bool) -> SparseFile {
        SparseFile::new(tempfile::tempfile().unwrap(), 2 * BLOCK + BLOCK / 2, discards).unwrap()
    }

    fn read(file: &SparseFile, range: Range<u64>) -> Option<Vec<u8>> {
        file.read(range).unwrap()
    }

    fn content(block: u64, n_bytes: u64) -> Vec<u8> {
        (0..n_bytes).map(|i| (block + 1) as u8 ^ (i >> 7) as u8).collect()
    }

    fn fill(file: &SparseFile, block: u64) {
        let place = file.bytes_of(block);
        file.fill(block, &content(block, place.end - place.start)).unwrap();
    }

    #[test]
    fn bytes_are_available_with_all_blocks() {
        let file = file(true);
        assert_eq!(read(&file, 0..1), None);
        fill(&file, 1);
        assert_eq!(read(&file, BLOCK..BLOCK + 3).unwrap(), &content(1, BLOCK)[..3]);
        assert_eq!(read(&file, BLOCK - 1..BLOCK + 1), None);
        fill(&file, 0);
        let across = read(&file, BLOCK - 1..BLOCK + 1).unwrap();
        assert_eq!(across, [content(0, BLOCK)[BLOCK as usize - 1], content(1, BLOCK)[0]]);
        fill(&file, 2);
        assert_eq!(read(&file, 2 * BLOCK..file.n_bytes()).unwrap(), content(2, BLOCK / 2));
        assert_eq!(read(&file, 0..file.n_bytes() + 1), None);
        // The second writer has no effect.
        file.fill(1, &vec![9; BLOCK as usize]).unwrap();
        assert_eq!(read(&file, BLOCK..2 * BLOCK).unwrap(), content(1, BLOCK));
        let short = file.fill(0, &[1]).unwrap_err();
        assert_eq!(short.kind(), io::ErrorKind::InvalidInput);
        assert!(file.fill(7, &[1]).is_err());
        assert_eq!((read(&file, 5..5), file.blocks_of(&(9 * BLOCK..10 * BLOCK))), (Some(Vec::new()), 0..0));
        let empty = SparseFile::new(tempfile::tempfile().unwrap(), 0, true).unwrap();
        assert_eq!((read(&empty, 0..0), read(&empty, 0..1)), (Some(Vec::new()), None));
    }

    #[test]
    fn released_blocks_are_freed() {
        let file = file(true);
        let parts = [0..BLOCK / 2, BLOCK / 2..2 * BLOCK];
        for part in &parts {
            file.advise(Advice::WillNeed, part.clone());
        }
        [0, 1, 2].iter().for_each(|block| fill(&file, *block));
        assert!(read(&file, 0..2 * BLOCK).is_some());
        file.advise(Advice::DoneWith, parts[0].clone());
        assert!(file.has(0), "the second half has not been used");
        file.advise(Advice::DoneWith, parts[1].clone());
        let is_released = cfg!(any(target_os = "linux", target_os = "android"));
        assert_eq!([0, 1, 2].map(|block| file.has(block)), [!is_released, !is_released, true]);
        #[cfg(target_os = "linux")]
        {
            use std::os::unix::fs::MetadataExt;
            assert!(file.file.metadata().unwrap().blocks() * 512 < BLOCK);
        }
        // It may be filled again.
        fill(&file, 0);
        assert_eq!(read(&file, 0..BLOCK).unwrap(), content(0, BLOCK));
    }

    #[test]
    fn blocks_in_use_are_kept() {
        let file = file(true);
        let whole = 0..BLOCK;
        // Announced twice.
        let second = BLOCK..2 * BLOCK;
        file.advise(Advice::WillNeed, second.clone());
        file.advise(Advice::WillNeed, second.clone());
        fill(&file, 1);
        file.advise(Advice::DoneWith, second.clone());
        assert!(file.has(1));
        file.advise(Advice::DoneWith, second.clone());
        assert_eq!(file.has(1), cfg!(not(any(target_os = "linux", target_os = "android"))));
        // Nothing is discarded.
        let keeps = super::tests::file(false);
        fill(&keeps, 0);
        keeps.advise(Advice::WillNeed, whole.clone());
        keeps.advise(Advice::DoneWith, whole.clone());
        assert_eq!(read(&keeps, whole).unwrap(), content(0, BLOCK));
    }
}
