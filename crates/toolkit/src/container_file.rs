//! GGUF files, opened with advice about those that are something else.

use std::path::Path;

use gguf_container::{File, Metadata, Model, Value};

use crate::{
    error::Error,
    input_kind::{self, Wanted},
};

/// Opens a GGUF file.
///
/// # Errors
/// Error with the path and advice.
pub fn open(path: &Path) -> Result<File, Error> {
    opened(path, File::open(path))
}

/// Opens a model in one or more GGUF files.
///
/// # Errors
/// Error with the path and advice.
pub fn open_model(path: &Path) -> Result<Model, Error> {
    Model::open(path).map_err(|error| input_kind::explained(path, Wanted::Gguf, Error::at(path, error)))
}

/// True for the metadata of a projector.
pub fn is_projector(metadata: &Metadata) -> bool {
    let text = |key: &str| metadata.get(key).and_then(Value::as_str);
    text("general.type") == Some("mmproj") || text("general.architecture") == Some("clip")
}

/// Opens a GGUF file that may have tensors of types that only forks know.
///
/// # Errors
/// Error with the path and advice.
pub fn open_foreign(path: &Path) -> Result<File, Error> {
    opened(path, File::open_foreign(path))
}

fn opened(path: &Path, file: Result<File, gguf_container::Error>) -> Result<File, Error> {
    file.map_err(|error| match gguf_checkpoint::whisper_cpp_model(path) {
        Some(found) => Error::at(path, format_args!("expected a GGUF file, found {found}"))
            .hint(["run it with whisper.cpp, which does not read GGUF"]),
        None => Error::at(path, error).hint(input_kind::advice(path, Wanted::Gguf)),
    })
}
