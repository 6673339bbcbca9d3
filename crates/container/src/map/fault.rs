//! Handles mapped files that shrink or fail while they are read.
//!
//! The system then has no page for a mapped address and sends SIGBUS, which by default ends the process
//! silently and leaves temporary files. A failing disk raises the same signal. A program that calls
//! [`exit_on_bus_error`] ends with a message that names the file, exit code 1, and without temporary files.
//! Files that a later process could continue stay if a disk failed, and are removed if the source became
//! shorter, because their contents are worthless then. The handler cannot recover: the reader can neither get
//! the bytes nor receive an error, so ending the process is the only correct response.
#![cfg_attr(unix, expect(unsafe_code, reason = "installing a signal handler is unsafe in libc"))]

use super::slots::{Held, Slots};

/// Every mapped file: its addresses and its path, which ends with a zero byte.
static MAPS: Slots = Slots::new();
/// Every temporary file that is being written, as a path that ends with a zero byte.
static TEMPORARY_FILES: Slots = Slots::new();
/// Files that a later process could continue, in the same form.
static RESUMABLE_FILES: Slots = Slots::new();

/// Registers a mapped file with the handler until the result is dropped.
pub(super) fn know_map(bytes: &[u8], path: &std::path::Path) -> Option<Held> {
    let start = bytes.as_ptr() as usize;
    MAPS.hold(start..start + bytes.len(), &with_zero(path))
}

fn with_zero(path: &std::path::Path) -> Vec<u8> {
    [path.as_os_str().as_encoded_bytes(), b"\0"].concat()
}

/// Registers a temporary file for removal by the handler until the result is dropped.
pub(crate) fn know_temporary_file(path: &std::path::Path) -> Option<Held> {
    // The addresses are unused; an end of 0 would mark the slot as free.
    TEMPORARY_FILES.hold(0..1, &with_zero(path))
}

/// Registers a resumable file, which the handler removes if its source became invalid.
pub(crate) fn know_resumable_file(path: &std::path::Path) -> Option<Held> {
    RESUMABLE_FILES.hold(0..1, &with_zero(path))
}

/// Removes the temporary file of every [`crate::Output`] that is neither finished nor resumable. For a
/// program that ends without dropping them.
pub fn remove_temporary_files() {
    TEMPORARY_FILES.for_each(|_, path| {
        let path = path.strip_suffix(b"\0").unwrap_or(path);
        #[cfg(unix)]
        let path = std::path::Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(path));
        #[cfg(not(unix))]
        let Ok(path) = std::str::from_utf8(path) else { return };
        let _ = std::fs::remove_file(path);
    });
}

/// From now on, a mapped file that becomes shorter or cannot be read ends the process with exit code 1, a
/// message on stderr that names the file, and without the temporary files of [`crate::Output`]. For programs,
/// not for libraries: a process has one handler of SIGBUS. Has no effect on systems without this signal.
pub fn exit_on_bus_error() {
    #[cfg(unix)]
    unix::install();
}

#[cfg(unix)]
mod unix {
    use std::{
        ffi::CStr,
        sync::{
            OnceLock,
            atomic::{AtomicBool, Ordering},
        },
    };

    use super::{MAPS, RESUMABLE_FILES, Slots, TEMPORARY_FILES};

    static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

    /// True if the message was written.
    static SAID: AtomicBool = AtomicBool::new(false);

    pub(super) fn install() {
        // SAFETY: a `sigaction` of zeros is a valid value: the default action, no flags, an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_bus_error as *const () as usize;
        // Not on the alternate stack: that one is for stack overflows, which send another signal on Linux,
        // and is too small for the buffers of `Slots::for_each`.
        action.sa_flags = libc::SA_SIGINFO;
        let mut before = action;
        // SAFETY: both pointers are to values that live until the call returns. The handler has the signature
        // that SA_SIGINFO requires. It calls only what POSIX lists as async-signal-safe (write, stat, unlink,
        // sigaction, _exit) and reads atomics: no lock, no allocation, no panic.
        let result = unsafe { libc::sigaction(libc::SIGBUS, &action, &mut before) };
        if result == 0 {
            let _ = BEFORE.set(before);
        }
    }

    extern "C" fn on_bus_error(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: the system calls a handler with SA_SIGINFO with a pointer to a `siginfo_t`, and that of SIGBUS has an
        // address.
        let address = unsafe { (*info).si_addr() } as usize;
        let (mut is_ours, mut is_shorter) = (false, false);
        MAPS.for_each(|addresses, path| {
            if addresses.contains(&address) && !is_ours {
                is_ours = true;
                is_shorter = ends_before(path, address - addresses.start);
                // Several threads may reach the end of the file at once; only one prints the message.
                if !SAID.swap(true, Ordering::Relaxed) {
                    print_error(path.strip_suffix(b"\0").unwrap_or(path), is_shorter);
                }
            }
        });
        if is_ours {
            remove(&TEMPORARY_FILES);
            if is_shorter {
                remove(&RESUMABLE_FILES);
            }
            // SAFETY: ends the process at once, without destructors and without `atexit`, so no code runs
            // afterwards.
            unsafe { libc::_exit(1) }
        }
        // The address is not in a map of ours: restore the previous action. The instruction that failed runs
        // again after the return, and fails with that action.
        if let Some(before) = BEFORE.get() {
            // SAFETY: see `install`; the action is the one that the system returned there.
            unsafe { libc::sigaction(libc::SIGBUS, before, std::ptr::null_mut()) };
        }
    }

    /// True if the file at a path has no byte at `offset`. A file that no longer exists under that name
    /// counts as unchanged.
    fn ends_before(path: &[u8], offset: usize) -> bool {
        let stat = CStr::from_bytes_until_nul(path).ok().and_then(|path| rustix::fs::stat(path).ok());
        stat.is_some_and(|stat| usize::try_from(stat.st_size).is_ok_and(|len| len <= offset))
    }

    fn remove(files: &Slots) {
        files.for_each(|_, path| {
            if let Ok(path) = CStr::from_bytes_until_nul(path) {
                let _ = rustix::fs::unlink(path);
            }
        });
    }

    /// Writes the message in one piece.
    fn print_error(name: &[u8], is_shorter: bool) {
        let mut line = [0; 1024];
        let mut n_bytes = 0;
        let (verb, hint) = if is_shorter {
            (
                b": became shorter while it was read\n".as_slice(),
                b"hint: nothing was written; run the command again when no other program changes the file\n"
                    .as_slice(),
            )
        } else {
            (
                b": cannot be read: its disk failed\n".as_slice(),
                b"hint: nothing was written under a final name; run again when it can be read\n".as_slice(),
            )
        };
        // Truncated to the buffer; the end of a path is more informative than its start.
        let name = &name[name.len().saturating_sub(700)..];
        for (part, is_text) in [(b"error: ".as_slice(), true), (name, false), (verb, true), (hint, true)] {
            for byte in part {
                // Control characters could move the terminal's cursor.
                let byte = if !is_text && byte.is_ascii_control() { b'?' } else { *byte };
                if let Some(to) = line.get_mut(n_bytes) {
                    *to = byte;
                    n_bytes += 1;
                }
            }
        }
        let _ = rustix::io::write(rustix::stdio::stderr(), &line[..n_bytes]);
    }
}
