//! Export: from a GGUF file's metadata and tensor names to a Hugging Face folder.
//!
//! Names come from the table of the conversion ([`Families::arches`]), read backwards; the row maps of the
//! conversion are inverted. Information that a checkpoint cannot express is an error if it changes the model,
//! and otherwise a note.
//!
//! No weights are read, with two exceptions: the divisors of `rope_freqs.weight`, which determine Llama 3's
//! RoPE scaling, and the factors of `longrope`.

mod candidate;
mod card;
mod error;
mod generation;
mod inverse;
mod layout;
mod llama;
mod names;
mod rope;
mod search;
mod sources;

use gguf_tokenizer::Tokenizer;
use gguf_tokenizer::export::ExportContext;
use gguf_tokenizer::json::pretty;
use gguf_tokenizer::keys as token_keys;
use serde_json::Value as Json;

use crate::arch::{Arch, Export};
use crate::registry::Families;
pub use error::ExportError;
use layout::ArchFile;
pub use layout::{ExportLayout, ExportPart, ExportTensor, GgufInput};

/// The names of the architectures whose files can be exported. Those of the others are refused with the reason
/// that their rows state.
pub fn exportable(families: &Families) -> Vec<&'static str> {
    families.arches.iter().filter(|arch| arch.export.obstacle().is_none()).map(|arch| arch.name).collect()
}

/// Finds the checkpoint for a file.
///
/// # Errors
/// [`ExportError`]: missing information in the file, or information that a checkpoint cannot express.
pub fn resolve(families: &Families, input: &GgufInput<'_>) -> Result<ExportLayout, ExportError> {
    let metadata = input.metadata;
    let name = layout::text(metadata, "general.architecture")?.unwrap_or_default();
    // Several architectures may be written under one name; the one is meant whose conversion gives the file.
    // Variants are tried first: they have less than what they are written as; but for the files of many programs, which are
    // that before anything else. Those that are never exported come last: their reason is of interest only where nothing
    // else fits.
    let mut written: Vec<&'static Arch> =
        families.arches.iter().filter(|arch| arch.written() == name).collect();
    let is_strict = |arch: &Arch| !matches!(arch.export, Export::Lenient { .. });
    written.sort_by_key(|arch| (arch.export.obstacle().is_some(), is_strict(arch), arch.written.is_none()));
    if written.is_empty() {
        return Err(ExportError::Architecture { found: name, known: exportable(families) });
    }
    let mut first_error = None;
    let mut found = None;
    let kind = layout::text(metadata, token_keys::MODEL)?.unwrap_or_default();
    for arch in written.into_iter().filter(|arch| (arch.vocab.fits)(&kind, metadata)) {
        let file = ArchFile { families, arch, input };
        let tried = match arch.export {
            Export::NotExportable(reason) => {
                Err(ExportError::NotExportable { found: arch.name.to_owned(), reason })
            }
            Export::Lenient { understood } => llama::read(&file, understood),
            Export::Verified => inverse::read(&file),
        };
        match tried {
            Ok(checkpoint) => {
                found = Some((checkpoint, file));
                break;
            }
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    let Some((mut checkpoint, file)) = found else {
        return Err(
            first_error.unwrap_or(ExportError::Architecture { found: name, known: exportable(families) })
        );
    };
    let null = Json::Null;
    let tokenizer = Tokenizer::from_gguf(metadata).to_huggingface(&ExportContext {
        embedding_rows: file.embedding_rows()?,
        route: file.arch.vocab,
        max_length: checkpoint.config.get("max_position_embeddings").unwrap_or(&null),
    })?;
    let mut files = vec![
        ("config.json".to_owned(), pretty(&checkpoint.config)),
        ("generation_config.json".to_owned(), pretty(&generation::config(metadata, file.arch.vocab)?)),
        ("README.md".to_owned(), card::card(metadata)?.into_bytes()),
    ];
    files.extend(checkpoint.files);
    files.extend(tokenizer.files);
    checkpoint.notes.extend(tokenizer.notes);
    Ok(ExportLayout { files, tensors: checkpoint.tensors, notes: checkpoint.notes })
}
