//! The families of models that a caller passes in, and searches in their rows.

use std::fmt;
use std::ops::Deref;
use std::sync::LazyLock;

use serde_json::Value as Json;

use crate::arch::{Arch, Class};
use crate::config::Hparams;
use crate::config::classes::{self, ConfigClass};
use crate::diffusion::{DetectedDiffusion, Diffusion};
use crate::error::missing;
use crate::foreign::ForeignFormat;
use crate::projector::Projector;
use crate::quantization::Quantization;
use crate::text_part::{first_class, text_config};
use crate::{ArchError, Input};

/// Rows of all families of models that the engine looks for.
#[derive(Clone, Copy)]
pub struct Families {
    /// Architectures, sorted by name.
    pub arches: &'static [Arch],
    /// Projectors, sorted by name.
    pub projectors: &'static [Projector],
    /// Facts of architectures that are quantized differently from others.
    pub quantization: &'static [Quantization],
    /// Diffusion architectures in the order of detection, which may be read when they are first used.
    pub diffusion: &'static (dyn Deref<Target = Vec<Diffusion>> + Sync),
    /// Models of several kinds whose config class takes any text part.
    pub wrappers: &'static [Wrapper],
    /// Keys and tensors that llama.cpp needs to load files of an architecture, in the format of [`loader`](crate::loader).
    pub loader: &'static str,
    /// Conditions under which llama.cpp loads a file and then cannot build its graph, in the same format.
    pub graph: &'static str,
    /// Formats other than GGUF, sorted by name.
    pub foreign: &'static [ForeignFormat],
}

static NO_DIFFUSION: LazyLock<Vec<Diffusion>> = LazyLock::new(Vec::new);

/// A model of several kinds in transformers whose config class takes any text part.
#[derive(Debug, Clone, Copy)]
pub struct Wrapper {
    /// Its `model_type`.
    pub model_type: &'static str,
    /// The `model_type` of a text part that does not state it.
    pub usual_text: &'static str,
}

impl fmt::Debug for Families {
    /// Numbers of rows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = [self.arches.len(), self.projectors.len()];
        f.debug_tuple("Families").field(&numbers).finish()
    }
}

impl Families {
    /// No families: every class is unknown.
    pub const EMPTY: Families = Families {
        arches: &[],
        projectors: &[],
        quantization: &[],
        diffusion: &NO_DIFFUSION,
        wrappers: &[],
        loader: "",
        graph: "",
        foreign: &[],
    };

    /// Facts of an architecture for the choice of types, by the value of `general.architecture`.
    pub fn quantization(&self, architecture: &str) -> &'static Quantization {
        let mut rows = self.quantization.iter();
        rows.find(|row| row.architecture == architecture).unwrap_or(&Quantization::USUAL)
    }

    /// The first row of a diffusion architecture, by the value of `general.architecture`.
    pub fn diffusion(&self, architecture: &str) -> Option<&'static Diffusion> {
        self.diffusion.iter().find(|row| row.name == architecture)
    }

    /// The row of a checkpoint of a diffusion model. `outermost` returns the outermost dimension of the tensor with a
    /// name (1 for a scalar), or `None` if it is missing. Names have no prefix.
    pub fn detect_diffusion(&self, outermost: impl Fn(&str) -> Option<u64>) -> Option<DetectedDiffusion> {
        let row = self.diffusion.iter().find(|row| row.matches(&outermost))?;
        let refused = row.refused.iter().find(|name| outermost(name).is_some()).map(String::as_str);
        Some(DetectedDiffusion { row, refused })
    }

    /// The row that a class determines, whatever its tensors are.
    pub(crate) fn diffusion_of_class(&self, class: &str) -> Option<&'static Diffusion> {
        self.diffusion
            .iter()
            .find(|row| row.detect.is_empty() && row.classes.iter().any(|known| known == class))
    }

    /// True if a model of the architecture can have the class: its rows name it, or do not name any class and only this row does.
    pub fn has_diffusion_class(&self, architecture: &str, class: &str) -> bool {
        let names_it = |row: &Diffusion| row.classes.iter().any(|known| known == class);
        let mut own = self.diffusion_rows(architecture);
        own.any(names_it)
            || self.diffusion_rows(architecture).all(|row| row.classes.is_empty())
                && !self.diffusion.iter().any(names_it)
    }

    /// The rows of an architecture, in the order of detection.
    pub fn diffusion_rows(&self, architecture: &str) -> impl Iterator<Item = &'static Diffusion> {
        self.diffusion.iter().filter(move |row| row.name == architecture)
    }

    /// The format other than GGUF of this name.
    pub fn foreign(&self, name: &str) -> Option<&'static ForeignFormat> {
        self.foreign.iter().find(|format| format.name == name)
    }

    /// The architecture of a class name, and the class; of several with that class the one whose checkpoint this is.
    pub fn find(&self, class: &str, input: &Input<'_>) -> Option<(&'static Arch, Class)> {
        let rows = || self.classes().filter(|(_, known)| known.name == class);
        let fitting = || rows().filter(|(arch, _)| arch.fits.is_some_and(|fits| fits(input)));
        // transformers may run one model type with the classes of another.
        let model_type = input.config.get("model_type").and_then(Json::as_str).unwrap_or_default();
        let asked = fitting().find(|(arch, _)| arch.has_model_type(model_type)).or_else(|| fitting().next());
        let found = asked.or_else(|| rows().find(|(arch, _)| arch.fits.is_none()));
        found.map(|(arch, class)| (arch, class.as_saved(input)))
    }

    /// True for a wrapper class that decides, whatever class its text part names.
    pub fn decides(&self, class: &str) -> bool {
        self.classes().any(|(_, known)| known.decides && known.name == class)
    }

    /// The architecture whose class has the inner part `class`: transformers saves `GemmaModel` or `Qwen3_5TextModel` of
    /// what is `GemmaForCausalLM` with an output. Names then lack `model.` in front.
    pub fn find_inner(&self, class: &str, input: &Input<'_>) -> Option<(&'static Arch, Class)> {
        let stem = class.strip_suffix("TextModel").or_else(|| class.strip_suffix("Model"))?;
        let (arch, outer) = ["ForCausalLM", "ForConditionalGeneration"]
            .iter()
            .find_map(|ending| self.find(&format!("{stem}{ending}"), input))
            .filter(|(_, outer)| outer.prefix.is_empty())?;
        // True if the table of the entire model has the inner part under `model.`.
        let under_model =
            arch.rules().any(|rule| rule.hf.iter().any(|name| name.starts_with("model.layers.")));
        under_model.then_some((arch, Class { prefix: "model.", ..outer }.as_saved(input)))
    }

    /// The architecture of the text part of a multimodal model with an unknown class, by the part's `model_type`.
    /// A text part that differs from the plain text model has a separate `model_type`.
    pub fn find_text_part(&self, class: &str, input: &Input<'_>) -> Option<(&'static Arch, Class)> {
        // Some checkpoints have only the towers (Ultravox).
        let is_layer = |name: &str| name.contains("model.layers.");
        if !input.tensors.iter().any(|tensor| is_layer(&tensor.name)) {
            return None;
        }
        let text =
            self.foreign_text_part(&input.config).filter(|_| first_class(&input.config) == Some(class))?;
        let generates =
            |class: &Class| class.name.ends_with("ForCausalLM") || class.name.ends_with("LMHeadModel");
        let rows = self.classes_by_model_type(text).into_iter();
        let mut fitting = rows.filter(|(arch, _)| arch.fits.is_none_or(|fits| fits(input)));
        let (arch, class) = fitting.find(|(_, class)| generates(class) && class.prefix.is_empty())?;
        Some((arch, Class { is_text_part: true, ..class }))
    }

    /// The text part of a model with an unknown class, if the part has a known `model_type`.
    fn foreign_text_part<'a>(&self, config: &'a Json) -> Option<&'a Json> {
        let class = first_class(config)?;
        let text = text_config(config)?;
        let is_known = self.class_names().any(|known| known == class);
        let text_type = text.get("model_type")?.as_str()?;
        (!is_known && first_class(text).is_none() && self.config_class(text_type).is_some()).then_some(text)
    }

    /// The result of [`Families::find`], else of [`Families::find_inner`], else of [`Families::find_text_part`].
    pub fn find_any(&self, class: &str, input: &Input<'_>) -> Option<(&'static Arch, Class)> {
        let inner = || self.find_inner(class, input).or_else(|| self.find_text_part(class, input));
        self.find(class, input).or_else(inner)
    }

    /// The architecture that a person names for a checkpoint: by its own name, whose first class is meant, or by the name of a
    /// class.
    ///
    /// # Errors
    ///
    /// [`ArchError::UnknownName`] with the three names that are most similar.
    pub fn named(&self, name: &str, input: &Input<'_>) -> Result<(&'static Arch, Class), ArchError> {
        let by_name = || {
            let arch = self.arches.iter().find(|arch| arch.name == name)?;
            Some((arch, arch.classes.first().copied()?))
        };
        self.find(name, input).or_else(by_name).ok_or_else(|| {
            let names = self.arches.iter().map(|arch| arch.name).chain(self.class_names());
            ArchError::UnknownName { name: name.into(), nearest: nearest(name, names) }
        })
    }

    /// Classes for the `model_type` of a config without a class, the likeliest first, which generates text.
    pub fn classes_by_model_type(&self, config: &Json) -> Vec<(&'static Arch, Class)> {
        const ENDINGS: &[&str] =
            &["ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "Model", "ForMaskedLM"];
        let Some(model_type) = config.get("model_type").and_then(Json::as_str) else { return Vec::new() };
        let plain = |text: &str| text.to_lowercase().replace(['_', '-'], "");
        let family = plain(model_type.strip_suffix("_text").unwrap_or(model_type));
        // A model of several kinds is one that answers in text about something else.
        let is_wrapper = text_config(config).is_some();
        let stem = |class: &'static str| {
            let ending = ENDINGS.iter().find(|ending| class.ends_with(*ending)).copied().unwrap_or_default();
            plain(class.strip_suffix(ending).unwrap_or(class))
        };
        let has_type = |(arch, class): &(&'static Arch, Class)| {
            // Later versions of a model may keep the `model_type` (Bailing MoE 2).
            stem(class.name) == family
                || stem(class.name).strip_prefix(&family).is_some_and(|rest| matches!(rest, "v2" | "v3"))
                || arch.fits.is_none() && arch.has_model_type(model_type)
        };
        let mut all: Vec<_> = self.classes().filter(has_type).collect();
        all.sort_by_key(|(_, class)| {
            let at = ENDINGS.iter().position(|ending| class.name.ends_with(ending)).unwrap_or(ENDINGS.len());
            (stem(class.name) != family, is_wrapper != class.name.ends_with("ForConditionalGeneration"), at)
        });
        all
    }

    /// The architectures whose config classes have a `model_type`.
    pub fn of_model_type(&self, model_type: &str) -> impl Iterator<Item = &'static Arch> {
        self.arches.iter().filter(move |arch| arch.has_model_type(model_type))
    }

    /// The projector of a checkpoint: by the class of its tower of images, or else its own.
    ///
    /// Source: `get_model_architecture` in `conversion/base.py`.
    ///
    /// # Errors
    ///
    /// [`ArchError::MissingKey`] without a class, [`ArchError::NoProjector`].
    pub fn projector(&self, config: &Json) -> Result<&'static Projector, ArchError> {
        let tower_class = config.get("vision_config").and_then(first_class);
        let whole_class = first_class(config);
        let row = |class: &str| self.projectors.iter().find(|row| row.classes.contains(&class));
        let mut named = tower_class.into_iter().chain(whole_class);
        // Trainers name the inner class, which has the same towers.
        let outer = whole_class.and_then(|class| class.strip_suffix("Model"));
        let outer = outer.map(|stem| format!("{stem}ForConditionalGeneration"));
        named.find_map(row).or_else(|| row(outer.as_deref()?)).ok_or_else(|| {
            match whole_class.or(tower_class) {
                None => missing("architectures"),
                Some(class) => {
                    let classes = self.projectors.iter().flat_map(|row| row.classes.iter().copied());
                    ArchError::NoProjector { class: class.to_owned(), nearest: nearest(class, classes) }
                }
            }
        })
    }

    /// True if a projector of the checkpoint has this tensor.
    pub fn is_in_projector(&self, config: &Json, name: &str) -> bool {
        let whole = Hparams::of_part(config.as_object().cloned().unwrap_or_default());
        self.projector(config).is_ok_and(|row| (row.owns)(&whole, name))
    }

    /// The three class names that are most similar to one that no architecture has.
    pub fn nearest_classes(&self, class: &str) -> Vec<&'static str> {
        nearest(class, self.class_names())
    }

    /// The config class that reads files of a `model_type`.
    pub fn config_class(&self, model_type: &str) -> Option<&'static ConfigClass> {
        self.arches.iter().flat_map(|arch| arch.configs).find(|class| class.model_type == model_type)
    }

    /// `config.json` with the defaults of the class for its `model_type`, the text part next to the others, and
    /// whether transformers accepts the file. A rejected file stays unchanged.
    pub fn standardized(&self, config: &Json) -> (Json, bool) {
        let model_type = config.get("model_type").and_then(Json::as_str);
        let known = match model_type.and_then(|name| self.config_class(name)) {
            Some(class) => config.as_object().map(|raw| classes::standardize(raw, class).map(Json::Object)),
            None => self.with_text_defaults(config, model_type),
        };
        match known {
            Some(Ok(config)) => (config, true),
            Some(Err(_)) => (config.clone(), false),
            None => (config.clone(), true),
        }
    }

    /// A model of several kinds of [`Families::wrappers`], or of an unknown class, with the defaults of its text part; why
    /// transformers does not take it.
    fn with_text_defaults(&self, config: &Json, model_type: Option<&str>) -> Option<Result<Json, String>> {
        let wrapper = self.wrappers.iter().find(|wrapper| Some(wrapper.model_type) == model_type);
        let text = config
            .get("text_config")
            .filter(|_| wrapper.is_some() || self.foreign_text_part(config).is_some());
        let text = text?.as_object()?;
        let usual = wrapper.map(|wrapper| wrapper.usual_text);
        let text_type = text.get("model_type").and_then(Json::as_str).or(usual)?;
        let text = classes::standardize(text, self.config_class(text_type)?);
        Some(text.map(|text| {
            let mut config = config.clone();
            config["text_config"] = text.into();
            config
        }))
    }

    /// Hyperparameters of a config: with the defaults of the config class for its `model_type`, or raw if `arch`
    /// requires that or no class matches.
    ///
    /// # Errors
    ///
    /// Those of [`Hparams::load`].
    pub fn hparams(&self, arch: &Arch, config: &Json) -> Result<Hparams, ArchError> {
        // Mamba and Falcon-H1: the reference avoids `AutoConfig`, whose classes assume one certain model.
        if arch.raw_config {
            return Hparams::load(config, None);
        }
        // Classes are found by `model_type` in the entire table, as `AutoConfig` does: Jina BERT is read by
        // BERT's class.
        let model_type = config.get("model_type").and_then(Json::as_str);
        // A row from outside of the table brings its own.
        let own = |model_type: &str| arch.configs.iter().find(|class| class.model_type == model_type);
        if let Some(class) = model_type.and_then(|name| self.config_class(name).or_else(|| own(name))) {
            return Hparams::load(config, Some(class));
        }
        // A model of several kinds, whose text part is read by the class of the part's own `model_type`.
        let standardized = self.with_text_defaults(config, model_type);
        let reason = match standardized {
            Some(Ok(config)) => return Hparams::load(&config, None),
            Some(Err(reason)) => reason,
            None => match model_type {
                Some(model_type) => format!("no defaults are known for `model_type` `{model_type}`"),
                None => "no `model_type`".into(),
            },
        };
        let mut hparams = Hparams::load(config, None)?;
        hparams.note_no_defaults(&reason);
        Ok(hparams)
    }

    fn classes(&self) -> impl Iterator<Item = (&'static Arch, Class)> {
        self.arches.iter().flat_map(|arch| arch.classes.iter().map(move |class| (arch, *class)))
    }

    fn class_names(&self) -> impl Iterator<Item = &'static str> {
        self.classes().map(|(_, class)| class.name)
    }
}

fn nearest(name: &str, names: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut nearest: Vec<&'static str> = names.collect();
    nearest.sort_by_cached_key(|known| (distance(known, name), *known));
    // A class that several rows share stands there once.
    nearest.dedup();
    nearest.truncate(3);
    nearest
}

/// Edits (insert, remove, replace a letter) from a known name to another one, without regard to case.
pub fn distance(known: &str, name: &str) -> usize {
    // The name comes from a file; known ones are less than a third as long. Names differ in case between
    // releases (`LLaMAForCausalLM`), which does not count as an edit.
    let name: String = name.to_lowercase().chars().take(200).collect();
    strsim::levenshtein(&known.to_lowercase(), &name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("Llama", "llama"), 0);
        assert_eq!(distance("", "abc"), 3);
    }
}
