//! Threads that share one kind of work.

use std::thread::{Builder, Scope, scope};

/// Runs `work` in `n_threads` threads, including this one, and waits for all. Each call of `work` should take
/// pieces until all are taken, so that fewer threads can do all the work if the system refuses to start more
/// (container limits, little memory).
///
/// # Examples
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// let (next, sum) = (AtomicUsize::new(0), AtomicUsize::new(0));
/// gguf_container::run_in_threads(4, || {
///     while let Some(piece) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|piece| *piece < 100) {
///         sum.fetch_add(piece, Ordering::Relaxed);
///     }
/// });
/// assert_eq!(sum.into_inner(), 4950);
/// ```
pub fn run_in_threads(n_threads: usize, work: impl Fn() + Sync) {
    let work = &work;
    scope(|scope| {
        start_threads(scope, n_threads.saturating_sub(1), || work);
        work();
    });
}

/// Starts up to `n_threads` threads, each with a closure from `work`. Stops at the first one that the system refuses.
pub fn start_threads<'scope, W: FnOnce() + Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    n_threads: usize,
    mut work: impl FnMut() -> W,
) {
    for _ in 0..n_threads {
        // `Scope::spawn` would panic.
        if Builder::new().spawn_scoped(scope, work()).is_err() {
            return;
        }
    }
}
