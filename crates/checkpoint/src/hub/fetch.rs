//! Weights files that are fetched while they are read.
//!
//! The reader announces its reads in order. Several threads fetch blocks in that order, many neighbors per
//! request, into a sparse file; a read waits until its blocks have arrived. Finished blocks are released, so
//! that memory and disk use stay within the announced reads.

use std::{
    collections::{HashSet, VecDeque},
    fmt,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use gguf_container::{Advice, SparseFile};

use super::{HubError, transfer::RemoteFile};
use crate::{ReadError, part::Fetched};

/// Number of concurrent requests. One connection seldom fills the bandwidth, and while one request waits for
/// its first byte others transfer data.
const N_THREADS: usize = 4;
/// Maximum number of blocks per request. 8 MiB take a good part of a second at a gigabit per second, so waits
/// for the first byte are rare.
const REQUEST_BLOCKS: usize = 32;
/// Maximum time between two checks for cancellation.
const PATIENCE: Duration = Duration::from_millis(100);

/// Fetches blocks of any files, in the order of requests.
pub(super) struct Fetcher {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(Arc<File>, u64)>,
    n_threads: usize,
    is_over: bool,
    /// Reason that fetching has stopped.
    failed: Option<ReadError>,
}

/// A file and its fetched blocks.
struct File {
    remote: RemoteFile,
    sparse: SparseFile,
    /// Location of the bytes, for messages.
    path: PathBuf,
    /// Blocks that are queued or being fetched. Taken after the lock of the queue.
    requested: Mutex<HashSet<u64>>,
    /// Held by the one thread that reads the complete file if ranges are ignored.
    whole: Mutex<()>,
}

/// A weights file that is fetched.
pub(super) struct FetchedFile {
    fetcher: Arc<Fetcher>,
    file: Arc<File>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fetcher {
    pub fn new() -> Arc<Fetcher> {
        Arc::new(Fetcher { shared: Arc::default() })
    }

    /// Adds the unrequested blocks of `range` to the queue, at the front if `urgent`.
    fn ask(&self, state: &mut State, file: &Arc<File>, range: &Range<u64>, urgent: bool) {
        let blocks: Vec<u64> = {
            let mut requested = lock(&file.requested);
            file.sparse
                .blocks_of(range)
                .filter(|block| !file.sparse.has(*block) && requested.insert(*block))
                .collect()
        };
        if blocks.is_empty() {
            return;
        }
        if urgent {
            blocks.iter().rev().for_each(|block| state.queue.push_front((Arc::clone(file), *block)))
        } else {
            state.queue.extend(blocks.iter().map(|block| (Arc::clone(file), *block)))
        }
        while state.n_threads < N_THREADS {
            let shared = Arc::clone(&self.shared);
            match thread::Builder::new().spawn(move || shared.work()) {
                Ok(_) => state.n_threads += 1,
                // The running threads fetch everything.
                Err(_) if state.n_threads > 0 => break,
                Err(error) => {
                    let error = HubError::Io { path: file.path.clone(), error };
                    state.failed.get_or_insert(read_error(file, &error));
                    self.shared.changed.notify_all();
                    return;
                }
            }
        }
        self.shared.work.notify_all();
    }
}

impl Drop for Fetcher {
    /// Threads stop at their next check; those that wait for the network are not joined.
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.is_over = true;
        state.queue.clear();
        self.shared.work.notify_all();
    }
}

impl Shared {
    fn work(&self) {
        while let Some((file, blocks)) = self.next() {
            let result = if file.remote.ignores_ranges() {
                self.fetch_whole(&file, &blocks)
            } else {
                self.fetch(&file, &blocks)
            };
            let mut state = lock(&self.state);
            // Blocks that arrived may be released and requested again.
            lock(&file.requested).retain(|block| !blocks.contains(block));
            if let Err(error) = result {
                state.failed.get_or_insert(read_error(&file, &error));
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Waits for work: neighboring blocks of one file.
    fn next(&self) -> Option<(Arc<File>, Range<u64>)> {
        let mut state = lock(&self.state);
        loop {
            if state.is_over || state.failed.is_some() {
                return None;
            }
            if let Some((file, first)) = state.queue.pop_front() {
                let mut end = first + 1;
                let is_next =
                    |(next, block): &(Arc<File>, u64), end| Arc::ptr_eq(next, &file) && *block == end;
                while (end - first) < REQUEST_BLOCKS as u64
                    && state.queue.front().is_some_and(|next| is_next(next, end))
                {
                    state.queue.pop_front();
                    end += 1;
                }
                return Some((file, first..end));
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Fetches blocks, with several requests if necessary.
    fn fetch(&self, file: &File, blocks: &Range<u64>) -> Result<(), HubError> {
        let bytes = file.sparse.bytes_of(blocks.start).start..file.sparse.bytes_of(blocks.end - 1).end;
        let mut filler = Filler::new(self, file, blocks.start);
        file.remote.read(bytes, &mut |_, piece| {
            // The rest comes with the complete file.
            filler.take(piece)
        })
    }

    /// Fetches the complete file, unless another thread does; `blocks` are available afterwards.
    fn fetch_whole(&self, file: &File, blocks: &Range<u64>) -> Result<(), HubError> {
        let _guard = lock(&file.whole);
        if blocks.clone().all(|block| file.sparse.has(block)) {
            return Ok(());
        }
        let mut filler = Filler::new(self, file, 0);
        file.remote.read(0..file.sparse.n_bytes(), &mut |_, piece| filler.take(piece))
    }
}

/// Assembles blocks from the bytes of a file that arrive in order.
struct Filler<'a> {
    shared: &'a Shared,
    file: &'a File,
    block: u64,
    bytes: Vec<u8>,
}

impl<'a> Filler<'a> {
    fn new(shared: &'a Shared, file: &'a File, block: u64) -> Filler<'a> {
        Filler { shared, file, block, bytes: Vec::with_capacity(SparseFile::BLOCK_BYTES as usize) }
    }

    fn take(&mut self, mut piece: &[u8]) -> Result<(), HubError> {
        while !piece.is_empty() {
            let place = self.file.sparse.bytes_of(self.block);
            let missing = (place.end - place.start) as usize - self.bytes.len();
            let (head, tail) = piece.split_at(missing.min(piece.len()));
            self.bytes.extend_from_slice(head);
            piece = tail;
            if head.len() < missing {
                break;
            }
            let io = |error| HubError::Io { path: self.file.path.clone(), error };
            self.file.sparse.fill(self.block, &self.bytes).map_err(io)?;
            self.bytes.clear();
            self.block += 1;
            // Taking the lock ensures that no waiter misses the notification.
            drop(lock(&self.shared.state));
            self.shared.changed.notify_all();
        }
        Ok(())
    }
}

impl FetchedFile {
    /// Creates a file whose bytes go into `storage`, which is empty and located at `path`; with `discards`,
    /// finished bytes are released.
    pub fn new(
        fetcher: &Arc<Fetcher>,
        remote: RemoteFile,
        storage: std::fs::File,
        path: PathBuf,
        discards: bool,
    ) -> Result<FetchedFile, HubError> {
        let io = |error| HubError::Io { path: path.clone(), error };
        let sparse = SparseFile::new(storage, remote.entry().n_bytes, discards).map_err(io)?;
        let (requested, whole) = (Mutex::default(), Mutex::default());
        let file = Arc::new(File { remote, sparse, path, requested, whole });
        Ok(FetchedFile { fetcher: Arc::clone(fetcher), file })
    }

    /// Path of the fetched bytes, or of the folder of a file without a name.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Description of the file on the Hub.
    pub fn remote(&self) -> &RemoteFile {
        &self.file.remote
    }

    /// Waits until the complete file is available.
    pub fn complete(&self) -> Result<(), ReadError> {
        let n_bytes = self.file.sparse.n_bytes();
        self.wait_for(0..n_bytes, || {
            self.file.sparse.blocks_of(&(0..n_bytes)).all(|block| self.file.sparse.has(block)).then_some(())
        })
    }

    /// Waits for bytes `range` until `find` succeeds.
    fn wait_for<T>(&self, range: Range<u64>, find: impl Fn() -> Option<T>) -> Result<T, ReadError> {
        // The path of nearly every read, without the lock of the queue.
        if let Some(found) = find() {
            return Ok(found);
        }
        let shared = &self.fetcher.shared;
        let mut state = lock(&shared.state);
        loop {
            if let Some(found) = find() {
                return Ok(found);
            }
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if self.file.remote.is_cancelled() {
                return Err(ReadError::Interrupted);
            }
            self.fetcher.ask(&mut state, &self.file, &range, true);
            state = shared.changed.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Fetched for FetchedFile {
    fn n_bytes(&self) -> u64 {
        self.file.sparse.n_bytes()
    }

    fn read(&self, range: Range<u64>) -> Result<Vec<u8>, ReadError> {
        let read = self.wait_for(range.clone(), || self.file.sparse.read(range.clone()).transpose())?;
        read.map_err(|error| read_error(&self.file, &HubError::Io { path: self.file.path.clone(), error }))
    }

    fn advise(&self, advice: Advice, range: Range<u64>) {
        self.file.sparse.advise(advice, range.clone());
        if advice == Advice::WillNeed {
            let mut state = lock(&self.fetcher.shared.state);
            self.fetcher.ask(&mut state, &self.file, &range, false);
        }
    }
}

fn read_error(file: &File, error: &HubError) -> ReadError {
    match error {
        HubError::Interrupted => ReadError::Interrupted,
        error => ReadError::NotFetched {
            file: file.remote.entry().path.clone(),
            cause: error.to_string(),
            advice: gguf_types::Problem::hint(error),
        },
    }
}

impl fmt::Debug for FetchedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FetchedFile({:?}, {:?})", self.file.remote.entry(), self.file.sparse)
    }
}
