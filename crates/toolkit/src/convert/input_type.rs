//! Types of inputs that one call converts, by their contents.

use std::path::Path;

use gguf_checkpoint::Folder;

/// Type of the input of [`Convert`](super::Convert).
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::convert::InputType;
///
/// if InputType::of("my-adapter".as_ref()) == InputType::Adapter {
///     println!("needs the folder of its base model");
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputType {
    /// A folder with a LoRA adapter.
    Adapter,
    /// A LLaMA file in a format older than GGUF.
    Legacy,
    /// Weights of a diffusion model: a file, a folder or a diffusers pipeline.
    Diffusion,
    /// Anything else: a checkpoint, or an input that cannot be converted.
    Checkpoint,
}

impl InputType {
    /// The type of the input at `path`. Reads the beginning of a file or the names in a folder.
    pub fn of(path: &Path) -> InputType {
        if gguf_checkpoint::is_legacy(path) {
            InputType::Legacy
        } else if path.is_dir() && gguf_checkpoint::is_adapter(&Folder::at(path)) {
            InputType::Adapter
        } else if !gguf_checkpoint::is_text_file(path, gguf_models::FORMS)
            && gguf_checkpoint::is_diffusion(path)
        {
            InputType::Diffusion
        } else {
            InputType::Checkpoint
        }
    }
}
