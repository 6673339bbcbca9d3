//! GGUF files of diffusion models, as several programs write them.
//!
//! Sources: `gguf_sd_loader` in `loader.py` of city96/ComfyUI-GGUF@795e451; `src/convert.cpp` of
//! leejet/stable-diffusion.cpp@97d2990, whose files have no keys.

use gguf_container::{Metadata, Ranks, Value};

use crate::registry::Families;

/// Architectures that ComfyUI-GGUF takes for a diffusion model of an unknown family.
const UNNAMED: &[&str] = &["", "pig", "cow"];

impl Families {
    /// Ranks in files that are made of a file with these metadata. Diffusion models and files without an architecture keep trailing ones: `(1, 6, n)` and
    /// `(6, n)` differ in ComfyUI and diffusers. Those of text models lose them, as in the reference.
    pub fn ranks(&self, metadata: &Metadata) -> Ranks {
        let architecture = metadata.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
        match UNNAMED.contains(&architecture) {
            true => Ranks::Stored,
            false => Ranks::Ggml,
        }
    }
}
