//! Calling a library that panics on some input.

use std::cell::Cell;
use std::panic::{UnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// True while a panic of this thread is expected and its message is suppressed.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Returns the result of `call`, or `None` if it panics. The panic message is not printed.
///
/// A process-wide hook prints messages before a panic can be caught. So the hook is wrapped once in one that
/// forwards all panics except those of threads that are in here; the previous hook stays in effect for all
/// others.
pub(super) fn without_panic<T>(call: impl FnOnce() -> T + UnwindSafe) -> Option<T> {
    static WRAP: Once = Once::new();
    WRAP.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                before(panic);
            }
        }));
    });
    let outer = QUIET.replace(true);
    let result = catch_unwind(call);
    QUIET.set(outer);
    result.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_becomes_none() {
        assert_eq!(without_panic(|| 7), Some(7));
        let empty: [u32; 0] = [];
        assert_eq!(without_panic(|| empty[std::hint::black_box(0)]), None);
        assert!(!QUIET.get());
    }
}
