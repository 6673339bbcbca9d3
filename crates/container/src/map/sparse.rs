//! A file of known length whose bytes arrive in pieces and can be released again, so that it never takes much
//! space.
//!
//! ```text
//! absent --fill--> present --(all of it is released, no announcement covers it, no thread may be reading it)--> absent
//! ```
//!
//! A thread may be reading everything that it got since it last released something. So it does not matter
//! whether it announced its reads.
//!
//! Bytes are written into a private file, with holes where nothing has arrived, and read through a map of it.
//! If the system can punch holes, released bytes take neither memory nor disk.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs, io,
    ops::Range,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, ThreadId},
};

use super::Advice;
use crate::output::write_all_at;

/// A sparse file that is filled by blocks of [`SparseFile::BLOCK_BYTES`], the last one being shorter.
pub struct SparseFile {
    file: fs::File,
    /// None where the file is empty: such a map is an error on some systems.
    map: Option<memmap2::Mmap>,
    n_bytes: u64,
    uses: Mutex<Uses>,
    /// True if holes are made.
    discards: AtomicBool,
}

#[derive(Debug, Default)]
struct Uses {
    /// Blocks that anybody has spoken of.
    blocks: BTreeMap<u64, Block>,
    /// Blocks that a thread may be reading.
    readers: Vec<(ThreadId, BTreeSet<u64>)>,
}

impl Uses {
    /// Blocks that this thread may be reading.
    fn this_thread(&mut self) -> &mut BTreeSet<u64> {
        let id = thread::current().id();
        let at = self.readers.iter().position(|(reader, _)| *reader == id).unwrap_or_else(|| {
            self.readers.push((id, BTreeSet::new()));
            self.readers.len() - 1
        });
        &mut self.readers[at].1
    }

    /// True if a block is unused.
    fn is_unused(&self, number: u64, n_bytes: u64) -> bool {
        self.blocks.get(&number).is_some_and(|block| {
            block.state == State::Present && block.pins == 0 && block.done_bytes >= n_bytes
        }) && !self.readers.iter().any(|(_, read)| read.contains(&number))
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Block {
    state: State,
    /// Announced uses that have not ended.
    pins: u32,
    /// Bytes whose announced use has ended, those that were used twice counted twice.
    done_bytes: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Absent,
    Arriving,
    Present,
}

impl SparseFile {
    /// Bytes of a block: many pages, but little compared with the bytes in flight.
    pub const BLOCK_BYTES: u64 = 256 << 10;

    /// Makes `file`, which is empty and written by nothing else, a file of `n_bytes` that have not arrived.
    /// Finished blocks are discarded if `discards`.
    ///
    /// # Errors
    /// The system's error; it may not have room for a file of this length.
    pub fn new(file: fs::File, n_bytes: u64, discards: bool) -> io::Result<SparseFile> {
        file.set_len(n_bytes)?;
        let map = match n_bytes {
            0 => None,
            // SAFETY: the map is read-only, and slices of it are handed out by `get` alone, for blocks that
            // are present. The file belongs to this value: only `fill` writes to it, and only to blocks that
            // are not present and that no other thread is filling; only `end_use` takes bytes away, and only
            // of blocks that no thread has got since it last called `end_use` itself. Callers must keep the
            // contract of `advise`: a thread that releases a range holds no slice of it. Otherwise bytes
            // would read as zeros, which are valid bytes; nothing outside of the map is ever reached.
            _ => Some(unsafe { memmap2::Mmap::map(&file)? }),
        };
        Ok(SparseFile { file, map, n_bytes, uses: Mutex::default(), discards: AtomicBool::new(discards) })
    }

    /// Its length in bytes.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// The blocks that `range` of bytes touches.
    pub fn blocks_of(&self, range: &Range<u64>) -> Range<u64> {
        let end = range.end.min(self.n_bytes);
        match range.start < end {
            true => range.start / Self::BLOCK_BYTES..end.div_ceil(Self::BLOCK_BYTES),
            false => 0..0,
        }
    }

    /// The bytes of a block.
    pub fn bytes_of(&self, block: u64) -> Range<u64> {
        let place = |block: u64| block.saturating_mul(Self::BLOCK_BYTES).min(self.n_bytes);
        place(block)..place(block.saturating_add(1))
    }

    /// True if a block is present.
    pub fn has(&self, block: u64) -> bool {
        self.lock().blocks.get(&block).is_some_and(|block| block.state == State::Present)
    }

    /// Writes a whole block that has arrived; one that is here already stays as it is.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::InvalidInput`] where `bytes` is not as long as the block.
    pub fn fill(&self, block: u64, bytes: &[u8]) -> io::Result<()> {
        let place = self.bytes_of(block);
        if place.end - place.start != bytes.len() as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        {
            let mut uses = self.lock();
            let entry = uses.blocks.entry(block).or_default();
            if entry.state != State::Absent {
                return Ok(());
            }
            entry.state = State::Arriving;
        }
        // Without the lock, which every reader takes.
        let written = write_all_at(&self.file, bytes, place.start);
        let state = if written.is_ok() { State::Present } else { State::Absent };
        self.lock().blocks.entry(block).or_default().state = state;
        written
    }

    /// Bytes `range`, if all of them are here and inside the file. They stay until this thread says by
    /// [`SparseFile::advise`] that it is done with something.
    pub fn get(&self, range: Range<u64>) -> Option<&[u8]> {
        if range.is_empty() {
            return Some(&[]);
        }
        let mut uses = self.lock();
        let touched = self.blocks_of(&range);
        let present = uses.blocks.range(touched.clone()).filter(|(_, block)| block.state == State::Present);
        if range.end > self.n_bytes || present.count() as u64 != touched.end - touched.start {
            return None;
        }
        uses.this_thread().extend(touched);
        self.map.as_ref()?.get(range.start as usize..range.end as usize)
    }

    /// [`Advice::WillNeed`] announces a use of the bytes `range`, [`Advice::DoneWith`] ends it: each
    /// announcement is followed by one end of the same range, from a thread that has no slice of this file
    /// left. Unused blocks whose bytes are all done with become absent again.
    pub fn advise(&self, advice: Advice, range: Range<u64>) {
        match advice {
            Advice::WillNeed => {
                let mut uses = self.lock();
                for block in self.blocks_of(&range) {
                    let entry = uses.blocks.entry(block).or_default();
                    entry.pins = entry.pins.saturating_add(1);
                }
            }
            Advice::DoneWith => self.end_use(range),
            Advice::Sequential => {}
        }
    }

    fn end_use(&self, range: Range<u64>) {
        if let Some(map) = &self.map {
            // Bytes that stay in the file need not stay in this process's memory.
            super::advise(map, Advice::DoneWith, range.start as usize..range.end as usize);
        }
        let mut uses = self.lock();
        // This thread may have read blocks that another thread finished earlier.
        let mut perhaps_unused = std::mem::take(uses.this_thread());
        for block in self.blocks_of(&range) {
            let place = self.bytes_of(block);
            let entry = uses.blocks.entry(block).or_default();
            entry.pins = entry.pins.saturating_sub(1);
            let done = range.end.min(place.end) - range.start.max(place.start);
            entry.done_bytes = entry.done_bytes.saturating_add(done);
            perhaps_unused.insert(block);
        }
        if !self.discards.load(Ordering::Relaxed) {
            return;
        }
        let n_bytes = |block| self.bytes_of(block).end - self.bytes_of(block).start;
        perhaps_unused.retain(|block| uses.is_unused(*block, n_bytes(*block)));
        let unused: Vec<u64> = perhaps_unused.into_iter().collect();
        // Under the lock, so that no thread gets a slice of a block that is being discarded.
        for run in unused.chunk_by(|a, b| a + 1 == *b) {
            let (first, last) = (run[0], run[run.len() - 1]);
            let place = self.bytes_of(first).start..self.bytes_of(last).end;
            if punch(&self.file, place).is_err() {
                // No holes on this file system: everything stays.
                self.discards.store(false, Ordering::Relaxed);
                return;
            }
            for block in run {
                uses.blocks.entry(*block).or_default().state = State::Absent;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes bytes out of a file, whose length stays.
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
    /// The length: blocks may be many.
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
        assert_eq!(file.get(0..1), None);
        fill(&file, 1);
        assert_eq!(file.get(BLOCK..BLOCK + 3).unwrap(), &content(1, BLOCK)[..3]);
        assert_eq!(file.get(BLOCK - 1..BLOCK + 1), None);
        fill(&file, 0);
        let across = file.get(BLOCK - 1..BLOCK + 1).unwrap();
        assert_eq!(across, [content(0, BLOCK)[BLOCK as usize - 1], content(1, BLOCK)[0]]);
        fill(&file, 2);
        assert_eq!(file.get(2 * BLOCK..file.n_bytes()).unwrap(), content(2, BLOCK / 2));
        assert_eq!(file.get(0..file.n_bytes() + 1), None);
        // Who comes second changes nothing.
        file.fill(1, &vec![9; BLOCK as usize]).unwrap();
        assert_eq!(file.get(BLOCK..2 * BLOCK).unwrap(), content(1, BLOCK));
        let short = file.fill(0, &[1]).unwrap_err();
        assert_eq!(short.kind(), io::ErrorKind::InvalidInput);
        assert!(file.fill(7, &[1]).is_err());
        assert_eq!((file.get(5..5), file.blocks_of(&(9 * BLOCK..10 * BLOCK))), (Some(&[][..]), 0..0));
        let empty = SparseFile::new(tempfile::tempfile().unwrap(), 0, true).unwrap();
        assert_eq!((empty.get(0..0), empty.get(0..1)), (Some(&[][..]), None));
    }

    #[test]
    fn released_blocks_are_freed() {
        let file = file(true);
        let parts = [0..BLOCK / 2, BLOCK / 2..2 * BLOCK];
        for part in &parts {
            file.advise(Advice::WillNeed, part.clone());
        }
        [0, 1, 2].iter().for_each(|block| fill(&file, *block));
        assert!(file.get(0..2 * BLOCK).is_some());
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
        // It may come again.
        fill(&file, 0);
        assert_eq!(file.get(0..BLOCK).unwrap(), content(0, BLOCK));
    }

    #[test]
    fn blocks_in_use_are_kept() {
        let file = file(true);
        let whole = 0..BLOCK;
        // Read without an announcement by one thread, announced and finished by another.
        fill(&file, 0);
        assert!(file.get(whole.clone()).is_some());
        file.advise(Advice::WillNeed, whole.clone());
        thread::scope(|scope| drop(scope.spawn(|| file.advise(Advice::DoneWith, whole.clone()))));
        assert!(file.has(0));
        // It goes when the reader is done, with whatever.
        file.advise(Advice::DoneWith, 2 * BLOCK..2 * BLOCK + 1);
        assert_eq!(file.has(0), cfg!(not(any(target_os = "linux", target_os = "android"))));
        // Wanted by two.
        let second = BLOCK..2 * BLOCK;
        file.advise(Advice::WillNeed, second.clone());
        file.advise(Advice::WillNeed, second.clone());
        fill(&file, 1);
        file.advise(Advice::DoneWith, second.clone());
        assert!(file.has(1));
        file.advise(Advice::DoneWith, second.clone());
        assert_eq!(file.has(1), cfg!(not(any(target_os = "linux", target_os = "android"))));
        // Not to be given up at all.
        let keeps = super::tests::file(false);
        fill(&keeps, 0);
        keeps.advise(Advice::WillNeed, whole.clone());
        keeps.advise(Advice::DoneWith, whole.clone());
        assert_eq!(keeps.get(whole).unwrap(), content(0, BLOCK));
    }
}
