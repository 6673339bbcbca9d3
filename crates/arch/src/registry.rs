//! The table of architectures.

use crate::config::Hparams;
use crate::config::classes::ConfigClass;
use crate::keys::Keys;
use crate::models;
use crate::tensors::{nearest_tables, rules::TensorRule};
use crate::text_keys::text_keys;
use crate::vocab::Route;
use crate::{ArchError, SourceTensor};

/// Every architecture. What is not in this table is not supported.
pub const ARCHES: &[Arch] = &[
    models::arcee::ARCEE,
    models::baichuan::BAICHUAN,
    models::bailingmoe::BAILINGMOE,
    models::bailingmoe2::BAILINGMOE2,
    models::bert::BERT,
    models::bloom::BLOOM,
    models::chatglm::CHATGLM,
    models::codeshell::CODESHELL,
    models::cohere2::COHERE2,
    models::command_r::COMMAND_R,
    models::dbrx::DBRX,
    models::deepseek::DEEPSEEK,
    models::deepseek2::DEEPSEEK2,
    models::dots1::DOTS1,
    models::distilbert::DISTILBERT,
    models::ernie4_5::ERNIE4_5,
    models::ernie4_5_moe::ERNIE4_5_MOE,
    models::exaone4::EXAONE4,
    models::falcon::FALCON,
    models::falcon_h1::FALCON_H1,
    models::gemma::GEMMA,
    models::gemma2::GEMMA2,
    models::gemma3::GEMMA3,
    models::glm4::GLM4,
    models::glm4moe::GLM4MOE,
    models::gpt2::GPT2,
    models::gpt_oss::GPT_OSS,
    models::gptj::GPTJ,
    models::gptneox::GPTNEOX,
    models::granite::GRANITE,
    models::granitemoe::GRANITEMOE,
    models::internlm2::INTERNLM2,
    models::jamba::JAMBA,
    models::jina_bert::JINA_BERT_V2,
    models::lfm2::LFM2,
    models::llama::LLAMA,
    models::llama4::LLAMA4,
    models::mamba2::MAMBA2,
    models::mamba::MAMBA,
    models::minicpm::MINICPM,
    models::minimax_m2::MINIMAX_M2,
    models::modern_bert::MODERN_BERT,
    models::mpt::MPT,
    models::nemotron::NEMOTRON,
    models::nomic_bert::NOMIC_BERT,
    models::olmo::OLMO,
    models::olmo2::OLMO2,
    models::olmoe::OLMOE,
    models::orion::ORION,
    models::persimmon::PERSIMMON,
    models::phi2::PHI2,
    models::phi3::PHI3,
    models::phimoe::PHIMOE,
    models::qwen2::QWEN2,
    models::qwen2moe::QWEN2MOE,
    models::qwen3::QWEN3,
    models::qwen3moe::QWEN3MOE,
    models::qwen3next::QWEN3NEXT,
    models::roberta::ROBERTA,
    models::roberta::XLM_ROBERTA,
    models::rwkv6::RWKV6,
    models::rwkv6::RWKV6QWEN2,
    models::rwkv7::ARWKV7,
    models::rwkv7::RWKV7,
    models::rwkv::RWKV,
    models::smollm3::SMOLLM3,
    models::stablelm::STABLELM,
    models::starcoder::STARCODER,
    models::starcoder2::STARCODER2,
    models::t5::T5,
    models::t5::T5_ENCODER,
    models::whisper::WHISPER,
];

/// What a model is, as data and two functions.
#[derive(Clone, Copy)]
pub struct Arch {
    /// Its name: what `general.architecture` holds, unless `written` says otherwise.
    pub name: &'static str,
    /// What `general.architecture` holds, for a variant of another architecture (DistilBERT is
    /// written as `bert`).
    pub written: Option<&'static str>,
    /// Class names in `architectures` of `config.json`.
    pub classes: &'static [Class],
    /// A public checkpoint on the Hugging Face Hub.
    pub example: &'static str,
    /// The config classes that transformers reads its files with; a file whose `model_type` no
    /// class of any architecture has is taken as it stands.
    pub configs: &'static [ConfigClass],
    /// Whether the reference reads `config.json` as it stands, without defaults.
    pub raw_config: bool,
    /// Keys of `config.json` without which nothing can be said about the model. The reference
    /// takes transformers' defaults for these as well and writes a file that does not load.
    pub needs: &'static [&'static str],
    /// The tensor table, in parts that architectures share.
    pub tensors: &'static [&'static [TensorRule]],
    /// The key of the number of layers of the decoder (tensors whose names in the file begin with
    /// `dec.`), for a model of encoder and decoder; the usual key then counts the encoder's.
    pub decoder_layers: Option<&'static str>,
    /// The output tensor whose rows are the tokens.
    pub embedding: &'static str,
    /// Writes the hyperparameter keys.
    pub keys: fn(&Hparams, &mut Keys) -> Result<(), ArchError>,
    /// Tensors that are computed from the config; they come before all others.
    pub computed: fn(&Hparams) -> Result<Vec<Computed>, ArchError>,
    /// Tensors of the checkpoint that this architecture has no use for: the reason for a name.
    pub drops: fn(&Hparams, &str) -> Option<&'static str>,
    /// Names of tensors as other releases of the model have them, brought to those of the table.
    pub rename: fn(&Hparams, &str) -> Option<String>,
    /// The inverse of `rename`: the name that checkpoints of a class have for a name of the table, where they differ.
    pub export_name: fn(&Hparams, Class, &str) -> Option<String>,
    /// Changes hyperparameters before anything is made of them.
    pub prepare: fn(Hparams, &[SourceTensor]) -> Result<Hparams, ArchError>,
    /// Ways to quantize of which it takes the weights as they are.
    pub packed: &'static [Packed],
    /// What kinds of tokenizers it comes with.
    pub vocab: Route,
    /// How its files are exported to a Hugging Face folder.
    pub export: Export,
}

/// How a GGUF file of an architecture becomes a checkpoint again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Export {
    /// A config is found from the keys, the conversion of that config is run again, and the export stands
    /// only if every key and every tensor of the file comes out of it.
    Verified,
    /// As [`Export::Verified`], but keys that no config can state are noted and left out. Files of
    /// this architecture come from many programs.
    Lenient,
    /// Conversion loses something that a checkpoint needs: what it is.
    NotExportable(&'static str),
}

impl Export {
    /// The reason why files cannot be exported, where they cannot.
    pub fn obstacle(self) -> Option<&'static str> {
        match self {
            Export::NotExportable(reason) => Some(reason),
            Export::Verified | Export::Lenient => None,
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

impl Arch {
    /// What `general.architecture` holds.
    pub fn written(&self) -> &'static str {
        self.written.unwrap_or(self.name)
    }
}

/// What a plain decoder is; its rows state what they have of their own.
pub const DECODER: Arch = Arch {
    name: "",
    written: None,
    classes: &[],
    example: "",
    configs: &[],
    raw_config: false,
    needs: &["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size"],
    tensors: &[],
    decoder_layers: None,
    embedding: "token_embd.weight",
    keys: text_keys,
    computed: |_| Ok(Vec::new()),
    drops: |_, _| None,
    rename: |_, _| None,
    export_name: |_, _, _| None,
    prepare: |hparams, _| Ok(hparams),
    packed: &[],
    vocab: Route::Gpt2,
    export: Export::Verified,
};

/// A vector that is computed from the config: its name in the file and its values.
pub type Computed = (&'static str, Vec<f32>);

/// A class name, and what its checkpoints leave out at the start of every tensor name.
#[derive(Debug, Clone, Copy)]
pub struct Class {
    /// The class name.
    pub name: &'static str,
    /// What is put before the names of its tensors (`model.` for a class that is only the inner
    /// part of the one that the table was made for).
    pub prefix: &'static str,
    /// Which of the names of a rule its checkpoints have, where there are several.
    pub spelling: usize,
}

impl Class {
    /// A class whose tensors are named as in the table.
    pub const fn new(name: &'static str) -> Class {
        Class { name, prefix: "", spelling: 0 }
    }

    /// A class that is only the inner part of the one that the table was made for, whose names begin with
    /// `prefix`.
    pub const fn inner(name: &'static str, prefix: &'static str) -> Class {
        Class { prefix, ..Class::new(name) }
    }
}

/// The architecture of a class name.
///
/// # Errors
///
/// [`ArchError::UnknownClass`] with the three known classes that have the most similar names, and
/// the architectures whose tables have places for the most of `tensors`.
pub fn find(class: &str, tensors: &[SourceTensor]) -> Result<(&'static Arch, Class), ArchError> {
    classes().find(|(_, known)| known.name == class).ok_or_else(|| ArchError::UnknownClass {
        class: class.into(),
        nearest: nearest(class, classes().map(|(_, known)| known.name)),
        by_tensors: nearest_tables(tensors, |arch| {
            arch.classes.iter().map(|known| distance(known.name, class)).min().unwrap_or(usize::MAX)
        }),
        n_tensors: tensors.len(),
    })
}

/// The architecture that a person names: by its own name, whose first class is meant, or by the
/// name of a class.
///
/// # Errors
///
/// [`ArchError::UnknownName`] with the three names that are most similar.
pub fn named(name: &str) -> Result<(&'static Arch, Class), ArchError> {
    let by_name = || {
        let arch = ARCHES.iter().find(|arch| arch.name == name)?;
        Some((arch, arch.classes.first().copied()?))
    };
    classes().find(|(_, known)| known.name == name).or_else(by_name).ok_or_else(|| {
        let names = ARCHES.iter().map(|arch| arch.name).chain(classes().map(|(_, known)| known.name));
        ArchError::UnknownName { name: name.into(), nearest: nearest(name, names) }
    })
}

fn classes() -> impl Iterator<Item = (&'static Arch, Class)> {
    ARCHES.iter().flat_map(|arch| arch.classes.iter().map(move |class| (arch, *class)))
}

fn nearest(name: &str, names: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut nearest: Vec<&'static str> = names.collect();
    nearest.sort_by_key(|known| (distance(known, name), *known));
    nearest.truncate(3);
    nearest
}

/// Edits (insert, remove, replace a letter, without regard to case) from one name to another.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.to_lowercase().chars().take(200).collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.to_lowercase().chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_lower_case() {
        let mut configs: Vec<&str> =
            ARCHES.iter().flat_map(|arch| arch.configs).map(|class| class.model_type).collect();
        let mut names: Vec<&str> = ARCHES.iter().map(|arch| arch.name).collect();
        let mut classes: Vec<&str> =
            ARCHES.iter().flat_map(|arch| arch.classes).map(|class| class.name).collect();
        for list in [&mut names, &mut classes, &mut configs] {
            let n = list.len();
            list.sort_unstable();
            list.dedup();
            assert_eq!(list.len(), n);
        }
        assert!(names.iter().all(|name| {
            name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_')
        }));
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("Llama", "llama"), 0);
        assert_eq!(distance("", "abc"), 3);
    }

    #[test]
    fn an_unknown_class_names_near_ones() {
        let Err(ArchError::UnknownClass { nearest, .. }) = find("MistalForCausalLM", &[]) else { panic!() };
        assert_eq!(nearest.first(), Some(&"MistralForCausalLM"));
    }
}
