//! Numbers of threads.

use std::{num::NonZeroUsize, thread};

/// The threads to start: as many as are wanted, but no more than the machine runs at once. More than that only
/// wait for each other: on 2 cores 512 threads take 30 times as long as 2.
pub fn useful_threads(wanted: Option<NonZeroUsize>) -> usize {
    let available = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    wanted.map_or(available, |wanted| wanted.get().min(available))
}
