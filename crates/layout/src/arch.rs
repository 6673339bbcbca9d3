//! Types of a row in the table of architectures.
//!
//! The types stand below every model file, and the table ([`crate::Families`]) above all, so nothing
//! below a model depends on the list of models.

use serde_json::{Map, Value as Json};

use crate::built_in::{BuiltIn, WindowPattern};
use crate::config::Hparams;
use crate::config::classes::ConfigClass;
use crate::file_keys::FileKeys;
use crate::keys::Keys;
use crate::tensors::rules::{NumberRule, TensorRule};
use crate::text_keys::text_keys;
use crate::yarn::YarnScales;
use crate::{ArchError, Input, SourceTensor};
use gguf_tokenizer::huggingface::Route;

/// Key of the hyperparameters that contains the ids of rows of zeros ([`Arch::zero_rows`]).
pub const ZERO_ROWS: &str = "zero_rows";

/// One architecture: data, and functions for what data cannot say.
#[derive(Clone, Copy)]
pub struct Arch {
    /// Its name: the value of `general.architecture`, unless `written` is set.
    pub name: &'static str,
    /// The value of `general.architecture` for a variant of another architecture (DistilBERT is
    /// written as `bert`).
    pub written: Option<&'static str>,
    /// Class names in `architectures` of `config.json`.
    pub classes: &'static [Class],
    /// For classes that several rows share: true if a checkpoint belongs to this row, by its raw config or
    /// other facts. A row without this function takes the checkpoints that no other row of the class takes.
    pub fits: Option<fn(&Input<'_>) -> bool>,
    /// A public checkpoint on the Hugging Face Hub.
    pub example: &'static str,
    /// The config classes that transformers reads its files with. A file whose `model_type` belongs to no
    /// config class of any architecture is read without defaults.
    pub configs: &'static [ConfigClass],
    /// True if the reference reads the raw `config.json`, without defaults.
    pub raw_config: bool,
    /// Values of `model_type` whose checkpoints have the class and another layout, each with its name and the remedy.
    pub other_layouts: &'static [(&'static str, &'static str)],
    /// Keys of `config.json` that must be there. The reference takes transformers' defaults for these as
    /// well and writes a file that does not load.
    pub needs: &'static [&'static str],
    /// The tensor table, in parts that architectures share.
    pub tensors: &'static [&'static [TensorRule]],
    /// Tensors of one number each that become keys.
    pub numbers: &'static [NumberRule],
    /// For a model of encoder and decoder, the config key of the number of decoder layers (tensors whose
    /// names in the file begin with `dec.`). The usual key then counts the encoder's layers.
    pub decoder_layers: Option<&'static str>,
    /// The output tensor whose rows are the tokens.
    pub embedding: &'static str,
    /// Writes the hyperparameter keys.
    pub keys: fn(&Hparams, &mut Keys) -> Result<(), ArchError>,
    /// Tensors that are computed from the config. They come before all others.
    pub computed: fn(&Hparams) -> Result<Vec<Computed>, ArchError>,
    /// Why a tensor of the checkpoint is left out, by its name; `None` for one that is used.
    pub drops: fn(&Hparams, &str) -> Option<&'static str>,
    /// The name in the table of a tensor that other releases of the model name differently.
    pub rename: fn(&Hparams, &str) -> Option<String>,
    /// The inverse of `rename`: the name in checkpoints of a class of a tensor of the table.
    pub export_name: fn(&Hparams, Class, &str) -> Option<String>,
    /// Derives hyperparameters from the config and the names of the tensors, before anything else uses them.
    pub prepare: fn(Hparams, &[SourceTensor]) -> Result<Hparams, ArchError>,
    /// For a reranker, the tokens whose output rows are its answers.
    pub answers: Option<[&'static str; 2]>,
    /// True if float files have the types of the checkpoint (Q8_0 for FP8), whatever type is requested.
    pub source_types: bool,
    /// True if the chat template precedes all other keys of the model.
    pub template_first: bool,
    /// Tensor of the checkpoint whose rows of zeros mark tokens that must not be predicted. `keys` finds their ids after the base
    /// vocabulary (without added tokens) under [`ZERO_ROWS`].
    pub zero_rows: Option<&'static str>,
    /// Tensors of integers that are hyperparameters: the end of their names, and the key under which `keys` finds them.
    pub constants: &'static [(&'static str, &'static str)],
    /// The layers that predict more than the next token, if they can be left out or be the only ones.
    pub prediction: Option<Predicted>,
    /// Set for a draft model, which takes tokenizer and sizes from its target.
    pub draft: Option<Draft>,
    /// Ways to quantize whose weights are stored as they are.
    pub packed: &'static [Packed],
    /// The kinds of tokenizers of its checkpoints.
    pub vocab: Route,
    /// Config keys that can be ignored: llama.cpp hard-codes the behavior, or the tensors imply it. `key=value` is so at that
    /// value only, written like in JSON, texts without quotes.
    pub harmless: &'static [&'static str],
    /// Options of the config that no metadata key carries, with the value that llama.cpp has built in. Any other value is
    /// noted.
    pub built_in: &'static [BuiltIn],
    /// Values that the graph in llama.cpp multiplies by the magnitude of YaRN.
    pub yarn: YarnScales,
    /// Warnings about parts of a model that llama.cpp computes in another way.
    pub caveats: fn(&Hparams) -> Vec<String>,
    /// The sliding layers that llama.cpp assumes if a file does not list them, for a row whose keys do not list them.
    pub window_pattern: Option<WindowPattern>,
    /// Export to a Hugging Face folder.
    pub export: Export,
    /// For an export: config values that the file does not express by a key with this name. May change existing
    /// values.
    pub from_file: fn(&FileKeys<'_>, &mut Map<String, Json>),
}

/// Export of a GGUF file to a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Export {
    /// A config is found from the keys, the conversion of this config is run again, and the export stands
    /// only if it results in every key and every tensor of the file.
    Verified,
    /// As [`Export::Verified`], for files of many programs: the config is written from the keys that every such file
    /// has, and only what contradicts the file is refused. Keys that do not come out are noted and left out.
    Lenient {
        /// Keys below the architecture's name that a config states in another way, or that change nothing: these
        /// are neither compared nor noted.
        understood: &'static [&'static str],
    },
    /// The conversion loses information that a checkpoint needs; the reason.
    NotExportable(&'static str),
}

impl Export {
    /// The reason why files cannot be exported, if they cannot.
    pub fn obstacle(self) -> Option<&'static str> {
        match self {
            Export::NotExportable(reason) => Some(reason),
            Export::Verified | Export::Lenient { .. } => None,
        }
    }
}

/// Weights that are quantized already and stay so.
#[derive(Debug, Clone, Copy)]
pub struct Packed {
    /// `quantization_config.quant_method` of `config.json`.
    pub method: &'static str,
    /// The file type, id and name, that the reference then gives to float files.
    pub file_type: (u32, &'static str),
}

/// Recognizes MTP layers.
#[derive(Debug, Clone, Copy)]
pub struct Predicted {
    /// The config keys that announce them.
    pub keys: &'static [&'static str],
    /// True if a tensor, by its name without `language_model.`, belongs to an MTP layer.
    pub is_part: fn(&Hparams, &str) -> bool,
}

/// Data that a draft takes from its target model.
#[derive(Debug, Clone, Copy)]
pub struct Draft {
    /// True if the tokenizer is read by the route of the target's architecture, false for that of the draft.
    pub route_of_target: bool,
    /// The id of the token that stands for one that is to be predicted.
    pub mask: fn(&Hparams) -> Option<u64>,
}

impl Arch {
    /// The value of `general.architecture`.
    pub fn written(&self) -> &'static str {
        self.written.unwrap_or(self.name)
    }

    /// True if a config class of the architecture has this `model_type`.
    pub fn has_model_type(&self, model_type: &str) -> bool {
        self.configs.iter().any(|class| class.model_type == model_type)
    }

    /// The rows of the tensor table, part after part.
    pub fn rules(&self) -> impl Iterator<Item = &'static TensorRule> + use<> {
        self.tensors.iter().flat_map(|part| part.iter())
    }
}

/// A plain decoder. Rows state only what differs from it.
pub const DECODER: Arch = Arch {
    name: "",
    written: None,
    classes: &[],
    fits: None,
    example: "",
    configs: &[],
    raw_config: false,
    other_layouts: &[],
    needs: &["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size"],
    tensors: &[],
    numbers: &[],
    decoder_layers: None,
    embedding: "token_embd.weight",
    keys: text_keys,
    computed: |_| Ok(Vec::new()),
    drops: |_, _| None,
    rename: |_, _| None,
    export_name: |_, _, _| None,
    prepare: |hparams, _| Ok(hparams),
    answers: None,
    source_types: false,
    template_first: false,
    zero_rows: None,
    constants: &[],
    prediction: None,
    draft: None,
    packed: &[],
    vocab: Route::GPT2,
    harmless: &[],
    yarn: YarnScales::Rotation,
    built_in: &[],
    caveats: |_| Vec::new(),
    window_pattern: None,
    export: Export::Verified,
    from_file: |_, _| {},
};

/// A vector that is computed from the config: its name in the file and its values.
pub type Computed = (&'static str, Vec<f32>);

/// A class name, and how its checkpoints spell tensor names.
#[derive(Debug, Clone, Copy)]
pub struct Class {
    /// The class name.
    pub name: &'static str,
    /// The start of every name in the table that its checkpoints leave out (`model.` for a class that is
    /// only the inner part of the one that the table describes).
    pub prefix: &'static str,
    /// Index of the name that its checkpoints use, if a rule has several.
    pub spelling: usize,
    /// True for a wrapper whose text part states no class or a wrong one.
    pub decides: bool,
    /// True if the class was found as the text model of a wrapper that has no row.
    pub is_text_part: bool,
}

impl Class {
    /// A class whose tensors are named like in the table.
    pub const fn new(name: &'static str) -> Class {
        Class { name, prefix: "", spelling: 0, decides: false, is_text_part: false }
    }

    /// This class, with the names that a checkpoint has: all may be those of the outer class, as trainers save it.
    pub fn as_saved(self, input: &Input<'_>) -> Class {
        let is_outer = |name: &str| name.starts_with(self.prefix) || name.starts_with("lm_head.");
        if !self.prefix.is_empty() && input.tensors.iter().any(|tensor| is_outer(&tensor.name)) {
            Class { prefix: "", ..self }
        } else {
            self
        }
    }

    /// A wrapper that decides, whatever class its text part names.
    pub const fn wrapper(name: &'static str) -> Class {
        Class { decides: true, ..Class::new(name) }
    }

    /// A class that is only the inner part of the one that the table describes, where names begin with
    /// `prefix`.
    pub const fn inner(name: &'static str, prefix: &'static str) -> Class {
        Class { prefix, ..Class::new(name) }
    }
}
