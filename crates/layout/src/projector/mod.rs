//! Types of a row in the table of projectors.
//!
//! A projector is a second file of a checkpoint: the vision tower or audio encoder, and the matrices that map
//! its output to the width of the text model. Like an architecture ([`crate::Arch`]) it has a tensor table
//! and a function of keys, but no tokenizer. Its `general.architecture` is `clip` for every family.
//!
//! Source: `MmprojModel` in `conversion/base.py`.

pub mod parts;
pub mod prelude;

use gguf_container::{Array, Value};
use gguf_types::Shape;
use serde_json::{Map, Value as Json};

use crate::ArchError;
use crate::config::Hparams;
use crate::config::classes::ConfigClass;
use crate::error::{bad_in, missing, missing_in};
use crate::keys::{Keys, to_f32, to_i32, to_u32};
use crate::tensors::TowerLayers;
use crate::tensors::rules::TensorRule;

/// The value of `general.architecture`.
pub const WRITTEN: &str = "clip";

/// The files that say how images and sound are prepared. Keys of the second go before those of the first.
pub const PREPROCESSORS: [&str; 2] = ["preprocessor_config.json", "processor_config.json"];

/// Spellings of the number of layers of a tower, in the order in which the reference looks for them.
const N_BLOCKS: &[&str] = &[
    "n_layers",
    "num_hidden_layers",
    "n_layer",
    "num_layers",
    "depth",
    "layers",
    "encoder_layers",
    "vt_num_hidden_layers",
];

/// One family of projectors.
#[derive(Clone, Copy)]
pub struct Projector {
    /// Its name in messages and documents.
    pub name: &'static str,
    /// Class names of the entire model, or those in `vision_config`.
    pub classes: &'static [&'static str],
    /// A public checkpoint on the Hugging Face Hub.
    pub example: &'static str,
    /// The tower of images, if the family has one.
    pub vision: Option<Tower>,
    /// The tower of sound, if the family has one.
    pub audio: Option<Tower>,
    /// The tensor table, in parts that families share.
    pub tensors: &'static [&'static [TensorRule]],
    /// True if a tensor of the checkpoint belongs to the projector. The others belong to the text model.
    pub owns: fn(&Hparams, &str) -> bool,
    /// Why a tensor that is the projector's is left out; `None` for one that is used.
    pub drops: fn(&Hparams, &str) -> Option<&'static str>,
    /// The name in the table of a tensor that other releases name differently.
    pub rename: fn(&Hparams, &str) -> Option<String>,
    /// True if ids of added tokens are needed.
    pub asks_tokens: bool,
    /// True if a checkpoint with images needs a file of [`PREPROCESSORS`].
    pub needs_preprocessor: bool,
    /// True for the names of tensors whose shapes [`Projector::prepare`] needs ([`Towers::shapes`]).
    pub asks_shape: fn(&str) -> bool,
    /// Derives hyperparameters from others before anything uses them.
    pub prepare: fn(&mut Towers) -> Result<(), ArchError>,
    /// Tensors of the file that come before all others, in this order.
    pub first: fn(&Towers) -> Result<Vec<String>, ArchError>,
    /// Writes the hyperparameter keys.
    pub keys: fn(&Towers, &mut Keys) -> Result<(), ArchError>,
    /// Matrices that are computed from the config: name, dimensions (row length first), values. They come before all
    /// others.
    pub computed: fn(&Towers) -> Result<Vec<Table>, ArchError>,
}

/// A computed matrix: its name in the file, its dimensions (row length first) and its values.
pub type Table = (&'static str, Vec<u64>, Vec<f32>);

/// Location of a tower's config.
#[derive(Debug, Clone, Copy)]
pub struct Tower {
    /// Keys of `config.json`, with inner keys after a dot; the first one that leads to an object is used. An empty key stands for
    /// the entire config, from which [`Projector::prepare`] reads the tower's keys.
    pub at: &'static [&'static str],
    /// File of the folder that contains the config, if it is not `config.json`.
    pub file: Option<&'static str>,
    /// The config classes that transformers reads it with. The first reads what states no `model_type`.
    pub classes: &'static [ConfigClass],
}

/// A vision tower under its usual key.
pub const VISION: Tower = Tower { at: &["vision_config"], file: None, classes: &[] };

/// An audio encoder under its usual keys.
pub const AUDIO: Tower = Tower { at: &["whisper_config", "audio_config"], file: None, classes: &[] };

/// A plain tower of images. Rows state only what differs from it.
pub const BASE: Projector = Projector {
    name: "",
    classes: &[],
    example: "",
    vision: Some(VISION),
    audio: None,
    tensors: &[],
    owns: |_, _| true,
    drops: |_, _| None,
    rename: |_, _| None,
    asks_tokens: false,
    needs_preprocessor: true,
    asks_shape: |_| false,
    prepare: |_| Ok(()),
    first: |_| Ok(Vec::new()),
    keys: tower_keys,
    computed: |_| Ok(Vec::new()),
};

/// The configs of a checkpoint as a projector sees them, defaults filled in.
#[derive(Debug, Clone)]
pub struct Towers {
    /// `config.json`, with the text part next to the others.
    pub whole: Hparams,
    /// True if transformers accepts it: then keys of the text part are only in the text part.
    pub is_taken: bool,
    /// The text part, with keys of the model that it lacks.
    pub text: Hparams,
    /// The tower of images.
    pub vision: Option<Hparams>,
    /// The tower of sound.
    pub audio: Option<Hparams>,
    /// Preprocessing of images and audio: the files of `PREPROCESSORS`, merged.
    pub preprocessor: Hparams,
    /// Tokens that were added to the tokenizer, with their numbers, if the family asks for them.
    pub added_tokens: Vec<(String, u64)>,
    /// Name of the folder of the checkpoint.
    pub folder_name: String,
    /// Names and shapes of the tensors for which [`Projector::asks_shape`] is true.
    pub shapes: Vec<(String, Shape)>,
}

impl Projector {
    /// The rows of the tensor table, part after part.
    pub fn rules(&self) -> impl Iterator<Item = &'static TensorRule> + use<> {
        self.tensors.iter().flat_map(|part| part.iter())
    }
}

impl Towers {
    /// The number of an added token.
    pub fn token(&self, content: &str) -> Option<u64> {
        self.added_tokens.iter().find(|(other, _)| other == content).map(|(_, number)| *number)
    }

    /// Config that functions of the table receive: that of the vision tower, or else of the audio encoder.
    pub fn main(&self) -> &Hparams {
        self.vision.as_ref().or(self.audio.as_ref()).unwrap_or(&self.whole)
    }

    /// The tower of images.
    ///
    /// # Errors
    ///
    /// [`ArchError::MissingKey`].
    pub fn vision(&self) -> Result<&Hparams, ArchError> {
        self.vision.as_ref().ok_or_else(|| missing("vision_config"))
    }

    /// The tower of images, to be changed.
    ///
    /// # Errors
    ///
    /// [`ArchError::MissingKey`].
    pub fn vision_mut(&mut self) -> Result<&mut Hparams, ArchError> {
        self.vision.as_mut().ok_or_else(|| missing("vision_config"))
    }

    /// The tower of sound.
    ///
    /// # Errors
    ///
    /// [`ArchError::MissingKey`].
    pub fn audio(&self) -> Result<&Hparams, ArchError> {
        self.audio.as_ref().ok_or_else(|| missing("audio_config"))
    }

    /// The tower of sound, to be changed.
    ///
    /// # Errors
    ///
    /// [`ArchError::MissingKey`].
    pub fn audio_mut(&mut self) -> Result<&mut Hparams, ArchError> {
        self.audio.as_mut().ok_or_else(|| missing("audio_config"))
    }

    /// The numbers of layers of both towers.
    pub fn layers(&self) -> TowerLayers {
        let of = |tower: &Option<Hparams>| {
            let (_, value) = tower.as_ref()?.find(N_BLOCKS)?;
            value.as_u64()
        };
        TowerLayers { vision: of(&self.vision).unwrap_or(0), audio: of(&self.audio).unwrap_or(0) }
    }

    /// The width of the text model's embeddings.
    fn text_width(&self) -> Result<u32, ArchError> {
        let width = self.text.find(&["hidden_size", "n_embd"]);
        width.map_or_else(|| Err(missing("text_config.hidden_size")), |(key, width)| to_u32(key, width))
    }
}

/// Writes what the reference writes for every projector, in its order, with the place of `general.file_type` at its
/// head.
///
/// Source: `MmprojModel.set_gguf_parameters` in `conversion/base.py`.
///
/// # Errors
///
/// [`ArchError::MissingKey`], [`ArchError::BadKey`].
pub fn tower_keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    keys.file_type_here();
    if let Some(vision) = &towers.vision {
        keys.set_prefixed("has_vision_encoder", Value::Bool(true));
        // The projector's output is as wide as the text model's embeddings.
        keys.set_prefixed("vision.projection_dim", Value::U32(towers.text_width()?));
        for (key, names) in [
            ("vision.image_size", &["image_size"][..]),
            ("vision.patch_size", &["patch_size"]),
            ("vision.embedding_length", &["hidden_size", "width", "vt_hidden_size"]),
            ("vision.feed_forward_length", &["intermediate_size", "vt_intermediate_size"]),
            ("vision.block_count", N_BLOCKS),
            (
                "vision.attention.head_count",
                &["num_attention_heads", "num_heads", "heads", "vt_num_attention_heads"],
            ),
        ] {
            count(keys, key, vision, "vision_config", names)?;
        }
        for key in ["image_mean", "image_std"] {
            // No default stands in for these two: without them nothing is written.
            let value = towers.preprocessor.get(key).ok_or_else(|| missing_in(PREPROCESSORS[0], key))?;
            keys.set_prefixed(&format!("vision.{key}"), by_channel(key, value)?);
        }
    }
    if let Some(audio) = &towers.audio {
        keys.set_prefixed("has_audio_encoder", Value::Bool(true));
        keys.set_prefixed("audio.projection_dim", Value::U32(towers.text_width()?));
        for (key, names) in [
            ("audio.embedding_length", &["hidden_size"][..]),
            ("audio.feed_forward_length", &["intermediate_size"]),
            ("audio.block_count", N_BLOCKS),
            ("audio.attention.head_count", &["num_attention_heads"]),
        ] {
            count(keys, key, audio, "audio_config", names)?;
        }
    }
    Ok(())
}

/// Sets `key` to the count under the first of `names` that the config of a tower has.
///
/// # Errors
///
/// [`ArchError::MissingKey`], [`ArchError::BadKey`], with the place of the config before the key.
pub fn count(
    keys: &mut Keys,
    key: &str,
    tower: &Hparams,
    place: &str,
    names: &[&'static str],
) -> Result<(), ArchError> {
    let usual = || format!("{place}.{}", names.first().copied().unwrap_or_default());
    let (name, value) = tower.find(names).ok_or_else(|| missing(&usual()))?;
    keys.set_prefixed(key, Value::U32(to_u32(&format!("{place}.{name}"), value)?));
    Ok(())
}

/// A number for each channel: floats, or integers if the first is one, as the reference's writer types a list.
fn by_channel(key: &str, value: &Json) -> Result<Value, ArchError> {
    let bad = || bad_in(PREPROCESSORS[0], key, value, "a list of numbers");
    let items = value.as_array().filter(|items| !items.is_empty()).ok_or_else(bad)?;
    if items.iter().all(Json::is_i64) {
        let items = items.iter().map(|item| to_i32(key, item)).collect::<Result<Vec<_>, _>>()?;
        return Ok(Value::Array(Array::I32(items)));
    }
    let items =
        items.iter().map(|item| to_f32(key, item).map_err(|_| bad())).collect::<Result<Vec<_>, _>>()?;
    Ok(Value::Array(Array::F32(items)))
}

/// A config of small files, merged as the reference does: inner objects of the names in `lifted` are lifted over their
/// surroundings, and the second file over the first.
pub fn preprocessor(files: [Option<Json>; 2]) -> Map<String, Json> {
    const LIFTED: [&str; 2] = ["media_proc_cfg", "image_processor"];
    let mut merged = Map::new();
    for (file, lifted) in files.into_iter().zip(LIFTED) {
        // Either file may be absent.
        let Some(Json::Object(mut file)) = file else { continue };
        if let Some(Json::Object(inner)) = file.get(lifted).cloned() {
            // Keys of the inner object win over those around it.
            file.extend(inner);
        }
        merged.extend(file);
    }
    merged
}
