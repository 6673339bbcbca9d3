//! Keys and tensors that differ from the reference's converter on purpose.
//!
//! Everything else in a converted file has the bytes of the reference. A row states its differences as constants
//! and passes them to [`Keys::depart`](crate::Keys::depart) when they occur. Each one is noted, and the tests compare the goldens with
//! the recorded ones. `docs/reference/differences.md` lists all constants.

/// A metadata key or tensor that the reference's converter omits, or writes with another value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// Metadata key without the architecture's name, or tensor.
    pub subject: &'static str,
    /// Files in which the difference occurs.
    pub files: &'static str,
    /// The value here, and the fault of the reference's.
    pub reason: &'static str,
}

impl Departure {
    /// No difference; only for tables that are filled at compile time.
    pub const NONE: Departure = Departure { subject: "", files: "", reason: "" };
}

/// A difference in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departed {
    /// Metadata key or tensor.
    pub name: String,
    /// Its row in the table.
    pub row: &'static Departure,
}

/// One note for each reason.
pub fn notes(departed: &[Departed]) -> Vec<String> {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for Departed { name, row } in departed {
        match by_reason.iter_mut().find(|(reason, _)| *reason == row.reason) {
            Some((_, names)) => names.push(name),
            None => by_reason.push((row.reason, vec![name])),
        }
    }
    let note = |(reason, names): (&str, Vec<&str>)| {
        let verb = if names.len() == 1 { "differs" } else { "differ" };
        format!("{} {verb} from the file of convert_hf_to_gguf.py: {reason}", gguf_types::list_names(&names))
    };
    by_reason.into_iter().map(note).collect()
}

/// Differences that several architectures have.
pub const SHARED: &[&Departure] = &[
    &SIGMOID,
    &SLIDING_LAYERS,
    &YARN_MAGNITUDE,
    &YARN_STATED,
    &TIED_OUTPUT,
    &WIDTH,
    &SIZE_LABEL,
    &LOWERCASE,
    &STRIP_ACCENTS,
    &LOCAL_PATH,
];

/// Function of the router.
pub const SIGMOID: Departure = Departure {
    subject: "expert_gating_func",
    files: "mixtures with a sigmoid router that transformers 5 saved",
    reason: "the config class has no key for the sigmoid; without the metadata key llama.cpp computes a softmax or refuses the file",
};

/// Layers with a sliding window.
pub const SLIDING_LAYERS: Departure = Departure {
    subject: "attention.sliding_window_pattern",
    files: "models whose sliding layers differ from llama.cpp's pattern",
    reason: "the layers of the config; without the key llama.cpp assumes a fixed pattern",
};

/// Magnitude of YaRN.
pub const YARN_MAGNITUDE: Departure = Departure {
    subject: "rope.scaling.attn_factor",
    files: "models whose YaRN magnitude differs from llama.cpp's",
    reason: "the YaRN magnitude of the config, in the key that llama.cpp reads",
};

/// The key that is replaced by [`YARN_MAGNITUDE`].
pub const YARN_STATED: Departure = Departure { subject: "rope.scaling.yarn_attn_factor", ..YARN_MAGNITUDE };

/// Output matrix of a model with a tied embedding.
pub const TIED_OUTPUT: Departure = Departure {
    subject: "output.weight",
    files: "tied models of architectures that need an output matrix",
    reason: "a copy of the tied embedding; llama.cpp does not load the file without an output matrix",
};

/// Feed-forward length.
pub const WIDTH: Departure = Departure {
    subject: "feed_forward_length",
    files: "models whose matrices have another width than the converter writes",
    reason: "the width of the matrices; llama.cpp refuses another value",
};

/// Number of parameters in words.
pub const SIZE_LABEL: Departure = Departure {
    subject: "general.size_label",
    files: "files with additional tensors",
    reason: "additional tensors count",
};

/// Normalization of text.
pub const LOWERCASE: Departure = Departure {
    subject: "tokenizer.ggml.normalizer.lowercase",
    files: "embedding models with WordPiece",
    reason: "`do_lower_case` of sentence_bert_config.json, which applies before the tokenizer",
};

/// Accents, which llama.cpp strips by default if it converts to lower case.
pub const STRIP_ACCENTS: Departure =
    Departure { subject: "tokenizer.ggml.normalizer.strip_accents", ..LOWERCASE };

/// Facts of the model card.
pub const LOCAL_PATH: Departure = Departure {
    subject: "general.base_model",
    files: "models and adapters whose card names local paths",
    reason: "local paths of the model card are omitted; state the names on the Hub in README.md to include them",
};
