//! Which keys of a config somebody asked for.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

/// The keys that somebody asked for; copies of hyperparameters share them.
#[derive(Debug, Clone, Default)]
pub struct Asked(Arc<Mutex<BTreeSet<String>>>);

impl Asked {
    /// Notes that somebody asks for keys.
    pub fn note(&self, keys: &[&str]) {
        // A set stays whole whatever panicked beside it.
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            // A key that is there already needs no copy.
            if !asked.contains(*key) {
                asked.insert((*key).to_owned());
            }
        }
    }

    /// Whether somebody asked for a key.
    pub fn has(&self, key: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }
}
