//! Families of diffusion models: one file of data each, and those of users.

use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::sync::{LazyLock, Mutex, PoisonError};

use gguf_layout::{Diffusion, Families, FamilyFileError, read_diffusion};

use crate::family::FAMILIES;

macro_rules! files {
    ($($name:literal)*) => {
        [$(include_str!(concat!("diffusion/", $name, ".toml"))),*]
    };
}

/// The files in the order of detection: Qwen-Image has names that Flux refuses, and HunyuanVideo those of Flux.
const FILES: [&str; 17] = files![
    "qwen_image" "hunyuan_video" "flux" "sd" "auraflow" "hidream" "cosmos" "ltx" "wan" "lumina" "ernie" "krea" "ideogram"
    "minimax" "kandinsky" "others" "diffusers"
];

/// The rows of [`FILES`].
pub(crate) static BUILT_IN: LazyLock<Vec<Diffusion>> =
    // A test reads all files.
    LazyLock::new(|| read_diffusion(&FILES).unwrap_or_default());

/// Rows that are kept until the process ends.
type Rows = &'static ManuallyDrop<Vec<Diffusion>>;

/// [`FAMILIES`] with the diffusion models of a file, which come before the others. They are kept until the process ends, once for
/// each text.
///
/// # Errors
/// As [`read_diffusion`].
///
/// # Examples
/// ```
/// let text = "[[model]]\narchitecture = 'mine'\ndetect = [['mine.in.weight']]\nunquantized = ['mine.in.']";
/// let families = gguf_models::with_diffusion(text)?;
/// assert!(families.diffusion("mine").is_some_and(|row| row.keeps_precision("mine.in.weight")));
/// assert!(families.diffusion("flux").is_some());
/// # Ok::<(), gguf_layout::FamilyFileError>(())
/// ```
pub fn with_diffusion(text: &str) -> Result<Families, FamilyFileError> {
    static READ: LazyLock<Mutex<HashMap<String, Rows>>> = LazyLock::new(Mutex::default);
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if !read.contains_key(text) {
        let rows = read_diffusion(&[&[text], &FILES[..]].concat())?;
        read.insert(text.to_owned(), Box::leak(Box::new(ManuallyDrop::new(rows))));
    }
    Ok(Families { diffusion: read[text], ..FAMILIES })
}
