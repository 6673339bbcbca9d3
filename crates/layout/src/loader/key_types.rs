//! Types in which the keys of an architecture are read.

use std::collections::HashMap;

use super::table::{common, section};
use crate::registry::Families;

/// The types in which llama.cpp reads the keys of an architecture.
///
/// # Examples
/// ```
/// use gguf_layout::{Families, loader::KeyTypes};
///
/// assert!(KeyTypes::of(&Families::EMPTY, "llama").is_none());
/// ```
#[derive(Debug, Clone)]
pub struct KeyTypes<'a> {
    architecture: &'a str,
    /// By key, without the name of the architecture.
    types: HashMap<&'static str, &'static str>,
}

impl<'a> KeyTypes<'a> {
    /// The types of an architecture; `None` for one that llama.cpp does not know.
    pub fn of(families: &Families, architecture: &'a str) -> Option<KeyTypes<'a>> {
        let (own, common) = (section(families, architecture)?, common()?);
        let mut types = HashMap::new();
        for keys in own.keys.iter().chain(&common.keys) {
            let kind = keys.kinds.split('/').next().unwrap_or_default();
            // The first row of a key counts.
            keys.names.iter().for_each(|name| _ = types.entry(*name).or_insert(kind));
        }
        Some(KeyTypes { architecture, types })
    }

    /// The name of the type (`u32`), or of the type of a list's items; `None` for a key that is not read.
    pub fn get(&self, key: &str) -> Option<&'static str> {
        let short = key.strip_prefix(self.architecture).filter(|rest| rest.starts_with('.')).unwrap_or(key);
        self.types.get(short).copied()
    }
}
