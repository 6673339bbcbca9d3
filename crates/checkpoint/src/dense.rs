//! Modules with weights in subfolders: dense modules that sentence-transformers runs after the model
//! (`2_Dense/model.safetensors`), and audio tokenizers (`audio_tokenizer/model.safetensors`).

use std::path::Path;

use crate::{Error, Listing, Part, Tensor, safetensors, small_files::SOUND_FOLDERS};

/// Folders of such modules. The model is first in `modules.json`, pooling usually second.
pub(crate) const FOLDERS: [&str; 3] = ["1_Dense", "2_Dense", "3_Dense"];
/// Weights file in such a folder.
pub(crate) const FILE: &str = "model.safetensors";

/// Inserts the tensors of these modules before the others, with the folder in their names
/// (`2_Dense.linear.weight`).
pub(crate) fn with(dir: &Path, parts: &mut Vec<Part>, tensors: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
    let mut all = Vec::new();
    for folder in FOLDERS.into_iter().chain(SOUND_FOLDERS) {
        let path = dir.join(folder).join(FILE);
        if !path.is_file() {
            continue;
        }
        let file = format!("{folder}/{FILE}");
        let part = Listing::default().open(dir, &file)?;
        for tensor in safetensors::parse(&part)? {
            let name = format!("{folder}.{}", tensor.name);
            if let Some(second) = tensors.iter().find(|other| other.name == name) {
                let second = parts.get(second.part).map_or_else(String::new, |part| part.file.clone());
                return Err(Error::DuplicateTensor { tensor: name, first: part.file, second });
            }
            all.push(Tensor { name, part: parts.len(), ..tensor });
        }
        parts.push(part);
    }
    all.extend(tensors);
    Ok(all)
}
