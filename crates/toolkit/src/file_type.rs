//! The file type that metadata state.

use gguf_container::{Metadata, Value};
use gguf_conversion::recipes::RECIPES;

/// Name of the file type that the metadata states.
pub fn stated_file_type(metadata: &Metadata) -> Option<&'static str> {
    metadata.get(FILE_TYPE).and_then(|value| file_type_name(FILE_TYPE, value))
}

const FILE_TYPE: &str = "general.file_type";

/// Name of a file type, if this is its key.
pub fn file_type_name(key: &str, value: &Value) -> Option<&'static str> {
    let id = value.as_u64().filter(|_| key == FILE_TYPE)?;
    let recipe = RECIPES
        .iter()
        .find(|recipe| u64::from(recipe.file_type.id()) == id && recipe.alias_of.is_none() && !recipe.copy)?;
    Some(recipe.name)
}
