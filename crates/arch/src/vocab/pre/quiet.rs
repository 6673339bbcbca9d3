//! Calling a library that panics on some input.

use std::cell::Cell;
use std::panic::{UnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread is expected, and its message nobody's concern.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// What `call` gives, or nothing if it panics. The message of such a panic is not printed.
///
/// Messages are printed by a hook of the whole process, before a panic can be caught. So the hook is wrapped once,
/// in one that passes on every panic but those of threads that are in here; whatever hook is there before stays
/// in effect for all others.
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
    fn a_panic_is_an_answer() {
        assert_eq!(without_panic(|| 7), Some(7));
        let empty: [u32; 0] = [];
        assert_eq!(without_panic(|| empty[std::hint::black_box(0)]), None);
        assert!(!QUIET.get());
    }
}
