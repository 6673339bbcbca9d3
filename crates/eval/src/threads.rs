//! The threads that a model computes with.

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::Error;

/// A pool of `threads` threads, 0 for as many as there are cores; of fewer where the system does not start so many.
///
/// # Errors
/// [`Error::Threads`] where it starts none.
///
/// # Examples
/// ```
/// assert_eq!(eval::thread_pool(2).unwrap().current_num_threads(), 2);
/// ```
pub fn thread_pool(threads: usize) -> Result<ThreadPool, Error> {
    let build = |threads| ThreadPoolBuilder::new().num_threads(threads).build();
    let mut pool = build(threads);
    let mut fewer = match threads {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get),
        threads => threads,
    };
    while pool.is_err() && fewer > 1 {
        fewer /= 2;
        pool = build(fewer);
    }
    pool.map_err(|error| Error::Threads { threads, problem: error.to_string() })
}
