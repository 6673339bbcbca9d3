//! Signal dispositions that the process inherited.
#![cfg_attr(unix, expect(unsafe_code, reason = "asking for the action of a signal is unsafe in libc"))]

/// Returns true if the process ignores a signal; `nohup`, for example, starts programs that ignore SIGHUP. Asks `sigaction`, which
/// works without `/proc`.
///
/// # Examples
/// ```
/// // Rust programs ignore SIGPIPE (13) from the start. SIGKILL (9) cannot be ignored.
/// assert!(gguf_container::is_signal_ignored(13));
/// assert!(!gguf_container::is_signal_ignored(9));
/// ```
#[cfg(unix)]
pub fn is_signal_ignored(signal: i32) -> bool {
    // SAFETY: a `sigaction` of zeros is a valid value: the default action, no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action the call only reads; the pointer is to a value that lives until the call
    // returns.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}
