//! Thread pools for models.

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::Error;

/// Builds a pool of `threads` threads, or one per core for 0. Halves the number until the system can start them.
///
/// # Errors
/// [`Error::Threads`] if not even one thread starts.
///
/// # Examples
/// ```
/// assert_eq!(gguf_runtime::thread_pool(2).unwrap().current_num_threads(), 2);
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
