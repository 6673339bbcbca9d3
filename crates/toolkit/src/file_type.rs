//! File types: those to make, and the one that metadata state.

use std::{fmt, str::FromStr};

use gguf_container::{Metadata, Value};
use gguf_conversion::recipes::{RECIPES, Recipe};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{cause::Cause, error::Error};

/// File type to make.
///
/// # Examples
/// ```
/// use gguf_toolkit::FileType;
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let file_type: FileType = "q4_k_m".parse()?;
/// assert_eq!(file_type, FileType::Q4_K_M);
/// assert_eq!(file_type.to_string(), "q4_k_m");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileType {
    /// `bf16` or `f16`, depending on the dtype of the first matrix of a checkpoint.
    Auto,
    /// A type by its recipe.
    Named(&'static Recipe),
}

impl FileType {
    /// The recipe; none for [`FileType::Auto`].
    pub fn recipe(self) -> Option<&'static Recipe> {
        match self {
            FileType::Auto => None,
            FileType::Named(recipe) => Some(recipe),
        }
    }
}

/// The row of a name, at compile time.
const fn named(name: &str) -> FileType {
    let mut row = 0;
    while row < RECIPES.len() {
        if is_same(RECIPES[row].name, name) {
            return FileType::Named(&RECIPES[row]);
        }
        row += 1;
    }
    panic!("a name of the table")
}

const fn is_same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

macro_rules! constants {
    ($($name:ident)+) => {
        impl FileType {
            $(
                #[doc = concat!("The type `", stringify!($name), "`.")]
                pub const $name: FileType = named(stringify!($name));
            )+
        }
    };
}

constants! {
    Q1_0 Q2_0 Q4_0 Q4_1 MXFP4_MOE Q5_0 Q5_1 IQ2_XXS IQ2_XS IQ2_S IQ2_M IQ1_S IQ1_M TQ1_0 TQ2_0 Q2_K Q2_K_S IQ3_XXS IQ3_S IQ3_M Q3_K IQ3_XS Q3_K_S Q3_K_M Q3_K_L IQ4_NL IQ4_XS Q4_K Q4_K_S Q4_K_M Q5_K Q5_K_S Q5_K_M Q6_K Q8_0 F16 BF16 F32 COPY
}

impl From<&'static Recipe> for FileType {
    fn from(recipe: &'static Recipe) -> FileType {
        FileType::Named(recipe)
    }
}

impl FromStr for FileType {
    type Err = Error;

    /// Reads `auto` or a name of [`types`](crate::types), in any case.
    fn from_str(name: &str) -> Result<FileType, Error> {
        if name.eq_ignore_ascii_case("auto") {
            return Ok(FileType::Auto);
        }
        let recipe = Recipe::from_name(name).map_err(gguf_conversion::Error::Recipe);
        Ok(FileType::Named(recipe.map_err(|error| Error::usage(Cause::Conversion(error)))?))
    }
}

impl fmt::Display for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileType::Auto => f.write_str("auto"),
            FileType::Named(recipe) => f.write_str(&recipe.name.to_ascii_lowercase()),
        }
    }
}

impl Serialize for FileType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FileType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FileType, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Name of the file type that the metadata states.
pub fn stated_file_type(metadata: &Metadata) -> Option<&'static str> {
    metadata.get(FILE_TYPE).and_then(|value| file_type_name(FILE_TYPE, value))
}

const FILE_TYPE: &str = "general.file_type";

/// Name of a file type, if this is its key.
pub fn file_type_name(key: &str, value: &Value) -> Option<&'static str> {
    let id = value.as_u64().filter(|_| key == FILE_TYPE)?;
    recipe_of_id(id).map(|recipe| recipe.name)
}

/// The recipe of a file type by its number.
pub(crate) fn recipe_of_id(id: u64) -> Option<&'static Recipe> {
    RECIPES
        .iter()
        .find(|recipe| u64::from(recipe.file_type.id()) == id && recipe.alias_of.is_none() && !recipe.copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_parsed_and_printed() {
        for recipe in RECIPES {
            let file_type: FileType = recipe.name.parse().unwrap();
            assert_eq!(file_type.recipe(), Some(recipe));
            let json = serde_json::to_string(&file_type).unwrap();
            assert_eq!(json, format!("\"{}\"", recipe.name.to_ascii_lowercase()));
            assert_eq!(serde_json::from_str::<FileType>(&json).unwrap(), file_type);
        }
        assert_eq!("Auto".parse::<FileType>().unwrap(), FileType::Auto);
        assert_eq!(FileType::IQ2_XXS.to_string(), "iq2_xxs");
        let error = "q9_9".parse::<FileType>().unwrap_err();
        assert_eq!(error.facts()["found"], "q9_9");
    }
}
