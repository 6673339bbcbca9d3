//! Short byte strings that a signal handler may read.
//!
//! A handler must not wait for a lock or allocate, so slots never move, are never freed, and only contain
//! atomics. A released slot is reused, so the number of slots is the maximum in use at the same time.

use std::{
    ops::Range,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU8, AtomicUsize, Ordering, fence},
    },
};

/// Maximum bytes of a string: Linux accepts no longer path, including its terminating zero.
pub(crate) const MAX_BYTES: usize = 4096;

/// A list of slots that only grows.
pub(crate) struct Slots {
    first: OnceLock<Box<Slot>>,
    /// Locked to change a slot, never by a handler.
    changes: Mutex<()>,
}

#[derive(Debug)]
struct Slot {
    /// Addresses that the string describes. An `end` of 0 marks a free slot.
    start: AtomicUsize,
    end: AtomicUsize,
    /// Number of changes, odd during one: a handler may interrupt a thread while another one reuses the slot.
    version: AtomicUsize,
    n_bytes: AtomicUsize,
    bytes: [AtomicU8; MAX_BYTES],
    next: OnceLock<Box<Slot>>,
}

impl Slot {
    fn new() -> Box<Slot> {
        Box::new(Slot {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            version: AtomicUsize::new(0),
            n_bytes: AtomicUsize::new(0),
            bytes: [const { AtomicU8::new(0) }; MAX_BYTES],
            next: OnceLock::new(),
        })
    }
}

/// A slot in use, which is freed on drop.
#[derive(Debug)]
pub(crate) struct Held(&'static Slot);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.end.store(0, Ordering::Release);
    }
}

impl Slots {
    pub(crate) const fn new() -> Slots {
        Slots { first: OnceLock::new(), changes: Mutex::new(()) }
    }

    /// Stores `bytes` with `addresses`, which must not end at 0. `None` if there are too many bytes.
    pub(crate) fn hold(&'static self, addresses: Range<usize>, bytes: &[u8]) -> Option<Held> {
        if bytes.len() > MAX_BYTES {
            return None;
        }
        let _guard = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut slot: &'static Slot = self.first.get_or_init(Slot::new);
        while slot.end.load(Ordering::Acquire) != 0 {
            slot = slot.next.get_or_init(Slot::new);
        }
        let version = slot.version.load(Ordering::Relaxed);
        slot.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        for (to, from) in slot.bytes.iter().zip(bytes) {
            to.store(*from, Ordering::Relaxed);
        }
        slot.n_bytes.store(bytes.len(), Ordering::Relaxed);
        slot.start.store(addresses.start, Ordering::Relaxed);
        slot.end.store(addresses.end, Ordering::Relaxed);
        // Last, and with release ordering, so that a reader that sees the slot in use sees all its contents.
        slot.version.store(version.wrapping_add(2), Ordering::Release);
        Some(Held(slot))
    }

    /// Calls `f` with the addresses and the bytes of every slot that is in use and not being changed. Neither
    /// locks nor allocates.
    pub(crate) fn for_each(&self, mut f: impl FnMut(Range<usize>, &[u8])) {
        let mut copy = [0; MAX_BYTES];
        let mut next = &self.first;
        while let Some(slot) = next.get() {
            next = &slot.next;
            let version = slot.version.load(Ordering::Acquire);
            let (start, end) = (slot.start.load(Ordering::Relaxed), slot.end.load(Ordering::Relaxed));
            let n_bytes = slot.n_bytes.load(Ordering::Relaxed).min(MAX_BYTES);
            for (to, from) in copy[..n_bytes].iter_mut().zip(&slot.bytes) {
                *to = from.load(Ordering::Relaxed);
            }
            fence(Ordering::Acquire);
            // A mixture of two paths could name a third file, which the handler would remove.
            let is_torn = version % 2 == 1 || slot.version.load(Ordering::Relaxed) != version;
            if end != 0 && !is_torn {
                f(start..end, &copy[..n_bytes]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused() {
        static SLOTS: Slots = Slots::new();
        let all = || {
            let mut all = Vec::new();
            SLOTS.for_each(|addresses, bytes| all.push((addresses, bytes.to_vec())));
            all
        };
        let one = SLOTS.hold(1..2, b"one").unwrap();
        let two = SLOTS.hold(3..4, b"two").unwrap();
        assert_eq!(all(), [(1..2, b"one".to_vec()), (3..4, b"two".to_vec())]);
        drop(one);
        assert_eq!(all(), [(3..4, b"two".to_vec())]);
        let _three = SLOTS.hold(5..6, b"3").unwrap();
        assert_eq!(all(), [(5..6, b"3".to_vec()), (3..4, b"two".to_vec())]);
        drop(two);
        SLOTS.first.get().unwrap().version.fetch_add(1, Ordering::Relaxed);
        assert_eq!(all(), [], "a slot that is being changed is not read");
        assert!(SLOTS.hold(7..8, &[0; MAX_BYTES + 1]).is_none());
    }
}
