//! The table of input formats.

use std::path::Path;

use crate::{Error, FOREIGN, Foreign, Listing, Part, Tensor, safetensors};

/// Opens the weights of a folder: files, and tensors in the order of the reference.
type Open = fn(&Path, &Listing) -> Result<(Vec<Part>, Vec<Tensor>), Error>;

/// One input format.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// Its name, for people.
    pub name: &'static str,
    /// The files it is looked for by, for people.
    pub files: &'static str,
    /// The first file of this format in a folder.
    pub(crate) detect: fn(&Listing) -> Option<String>,
    /// The reader; none where the format is known and not read yet.
    pub(crate) open: Option<Open>,
}

impl Format {
    /// Whether this format is read, not just recognized.
    pub fn is_read(&self) -> bool {
        self.open.is_some()
    }
}

/// Every format that is recognized. The first that is found in a folder is the one.
pub const FORMATS: &[Format] = &[
    Format {
        name: "safetensors",
        files: "model*.safetensors",
        detect: safetensors::detect,
        open: Some(safetensors::open),
    },
    Format {
        name: "Mistral's own layout of safetensors",
        files: "consolidated*.safetensors",
        detect: |listing| listing.matching("consolidated", ".safetensors").into_iter().next(),
        open: None,
    },
    Format {
        name: "torch pickles",
        files: "pytorch_model*.bin",
        detect: |listing| {
            let first = listing.matching("pytorch_model", ".bin").into_iter().next();
            let index = "pytorch_model.bin.index.json";
            first.or_else(|| listing.has(index).then(|| index.to_owned()))
        },
        open: None,
    },
    Format {
        name: "torch pickles in Meta's layout",
        files: "consolidated*.pth",
        detect: |listing| listing.matching("consolidated", ".pth").into_iter().next(),
        open: None,
    },
    Format {
        name: "a LoRA adapter",
        files: "adapter_model.*",
        detect: |listing| listing.matching("adapter_model.", "").into_iter().next(),
        open: None,
    },
    Format {
        name: "GGUF",
        files: "*.gguf",
        detect: |listing| listing.matching("", ".gguf").into_iter().next(),
        open: None,
    },
];

/// The first format that the folder holds, with its first file.
///
/// # Errors
/// [`Error::NoWeights`], [`Error::NotReadYet`], [`Error::Foreign`].
pub(crate) fn detect(listing: &Listing) -> Result<(&'static Format, Open), Error> {
    for format in FORMATS {
        if let Some(file) = (format.detect)(listing) {
            return match format.open {
                Some(open) => Ok((format, open)),
                None => Err(Error::NotReadYet { format: format.name, file }),
            };
        }
    }
    for Foreign { name, detect, advice, .. } in FOREIGN {
        if let Some(file) = detect(listing) {
            return Err(Error::Foreign { format: name, file, advice });
        }
    }
    Err(Error::NoWeights { looked_for: FORMATS.iter().map(|format| format.files).collect() })
}
