//! The table of input formats.

use std::path::Path;

use crate::{Error, FOREIGN, Foreign, Listing, Weights, safetensors, torch};

/// Opens the weights of a folder.
pub(crate) type Open = fn(&Path, &Listing) -> Result<Weights, Error>;

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
        name: "torch pickles",
        files: "pytorch_model*.bin",
        detect: torch::detect,
        open: Some(torch::open),
    },
    Format {
        name: "Mistral's own layout of safetensors",
        files: "consolidated*.safetensors",
        detect: |listing| listing.matching("consolidated", ".safetensors").into_iter().next(),
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

/// The first format that the folder holds, with its reader, and a note where it holds other copies of the weights.
///
/// # Errors
/// [`Error::NoWeights`], [`Error::NotReadYet`], [`Error::Foreign`].
pub(crate) fn detect(listing: &Listing) -> Result<(&'static Format, Open, Option<String>), Error> {
    let mut found = FORMATS.iter().filter_map(|format| Some((format, (format.detect)(listing)?)));
    let Some((format, file)) = found.next() else {
        for Foreign { name, detect, advice, .. } in FOREIGN {
            if let Some(file) = detect(listing) {
                return Err(Error::Foreign { format: name, file, advice });
            }
        }
        return Err(Error::NoWeights { looked_for: FORMATS.iter().map(|format| format.files).collect() });
    };
    let Some(open) = format.open else {
        return Err(Error::NotReadYet { format: format.name, file });
    };
    // Adapters and models of other programs in a folder are no copies; what has a reader of its own may be one.
    let copies = found.filter(|(other, _)| other.is_read() && other.files != format.files);
    let copies: Vec<String> = copies.map(|(other, file)| format!("`{file}` ({})", other.name)).collect();
    let note = (!copies.is_empty()).then(|| {
        format!("weights are read from `{file}` ({}); left aside: {}", format.name, copies.join(", "))
    });
    Ok((format, open, note))
}
