//! Records the config keys that were read.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

/// Config keys that were read; copies of hyperparameters share them.
#[derive(Debug, Clone, Default)]
pub struct ReadKeys(Arc<Mutex<BTreeSet<String>>>);

impl ReadKeys {
    /// Records that keys were read.
    pub fn note(&self, keys: &[&str]) {
        // The set stays consistent even if another thread panicked.
        let mut read_keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            // An existing key needs no copy.
            if !read_keys.contains(*key) {
                read_keys.insert((*key).to_owned());
            }
        }
    }

    /// True if a key was read.
    pub fn has(&self, key: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }
}
