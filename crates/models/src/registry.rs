//! The table of architectures: the top of everything that describes a model.

use serde_json::Value as Json;

use crate::arch::{Arch, Class};
use crate::config::Hparams;
use crate::config::classes::{self, ConfigClass};
use crate::error::missing;
use crate::json::{first_class, text_config};
use crate::models;
use crate::projector::Projector;
use crate::projectors;
use crate::{ArchError, Input};

/// Every supported architecture, sorted by name.
pub const ARCHES: &[Arch] = &[
    models::afmoe::AFMOE,
    models::apertus::APERTUS,
    models::arcee::ARCEE,
    models::arctic::ARCTIC,
    models::rwkv7::ARWKV7,
    models::baichuan::BAICHUAN,
    models::bailingmoe::BAILINGMOE,
    models::bailingmoe2::BAILINGMOE2,
    models::bailingmoe3::BAILINGMOE3,
    models::bamba::BAMBA,
    models::bert::BERT,
    models::bloom::BLOOM,
    models::chameleon::CHAMELEON,
    models::chatglm::CHATGLM,
    models::codeshell::CODESHELL,
    models::cogvlm::COGVLM,
    models::cohere2::COHERE2,
    models::cohere2moe::COHERE2MOE,
    models::command_r::COMMAND_R,
    models::dbrx::DBRX,
    models::deci::DECI,
    models::deepseek::DEEPSEEK,
    models::deepseek2::DEEPSEEK2,
    models::deepseek2_ocr::DEEPSEEK2_OCR,
    models::deepseek32::DEEPSEEK32,
    models::deepseek4::DEEPSEEK4,
    models::deepseek4::DEEPSEEK4_DSPARK,
    models::dflash::DFLASH,
    models::distilbert::DISTILBERT,
    models::dots1::DOTS1,
    models::dots3::DOTS3NOTE,
    models::dream::DREAM,
    models::dflash::DSPARK,
    models::eagle3::EAGLE3,
    models::ernie4_5::ERNIE4_5,
    models::ernie4_5_moe::ERNIE4_5_MOE,
    models::eurobert::EUROBERT,
    models::exaone::EXAONE,
    models::exaone_moe::EXAONE_MOE,
    models::exaone4::EXAONE4,
    models::exaone4::EXAONE4_5,
    models::falcon::FALCON,
    models::falcon_h1::FALCON_H1,
    models::gemma::GEMMA,
    models::gemma_embedding::GEMMA_EMBEDDING,
    models::gemma2::GEMMA2,
    models::gemma3::GEMMA3,
    models::gemma3n::GEMMA3N,
    models::gemma4::GEMMA4,
    models::gemma4_assistant::GEMMA4_ASSISTANT,
    models::dflash::GEMMA4_DSPARK,
    models::gemma4_unified::GEMMA4_UNIFIED,
    models::glm_dsa::GLM_DSA,
    models::glm4::GLM4,
    models::glm4_moe_lite::GLM4_MOE_LITE,
    models::glm4moe::GLM4MOE,
    models::glm5_next::GLM5_NEXT,
    models::gpt_oss::GPT_OSS,
    models::gpt2::GPT2,
    models::gptj::GPTJ,
    models::gptneox::GPTNEOX,
    models::granite::GRANITE,
    models::granitehybrid::GRANITE4,
    models::granitehybrid::GRANITE4_MOE,
    models::granite_swa::GRANITE_SWA,
    models::granitehybrid::GRANITEHYBRID,
    models::granitemoe::GRANITEMOE,
    models::granite_swa::GRANITEMOE_SWA,
    models::granite_switch::GRANITE_SWITCH,
    models::grok::GROK,
    models::grovemoe::GROVEMOE,
    models::hrm_text::HRM_TEXT,
    models::hunyuan::HUNYUAN_DENSE,
    models::hunyuan::HUNYUAN_MOE,
    models::hunyuan::HUNYUAN_VL,
    models::hy_v3::HY_V3,
    models::hy_v4::HY_V4,
    models::internlm2::INTERNLM2,
    models::internlm3::INTERNLM3,
    models::jais2::JAIS2,
    models::jamba::JAMBA,
    models::jina_bert::JINA_BERT_V2,
    models::kimi_k3::KIMI_K3,
    models::kimi_linear::KIMI_LINEAR,
    models::laguna::LAGUNA,
    models::lfm2::LFM2,
    models::lfm2_embed::LFM2_EMBED,
    models::lfm2moe::LFM2MOE,
    models::llada::LLADA,
    models::llada::LLADA_MOE,
    models::llama::LLAMA,
    models::llama_embed::LLAMA_EMBED,
    models::llama4::LLAMA4,
    models::maincoder::MAINCODER,
    models::mamba::MAMBA,
    models::mamba2::MAMBA2,
    models::maple::MAPLE,
    models::mellum::MELLUM,
    models::native::META_PARAMS,
    models::mimo2::MIMO2,
    models::minicpm::MINICPM,
    models::minicpm3::MINICPM3,
    models::qwen35::MINICPMV,
    models::minimax_m2::MINIMAX_M2,
    models::minimax_m3::MINIMAX_M3,
    models::mistral_large::MISTRAL_MOE_PARAMS,
    models::native::MISTRAL_PARAMS,
    models::mistral3::MISTRAL3,
    models::native::MISTRAL3_PARAMS,
    models::mistral4::MISTRAL4,
    models::native::MIXTRAL_PARAMS,
    models::modern_bert::MODERN_BERT,
    models::mpt::MPT,
    models::muse_glimmer::MUSE_GLIMMER,
    models::dflash::MUSE_GLIMMER_ASSISTANT,
    models::nanbeige::NANBEIGE,
    models::nemotron::NEMOTRON,
    models::nemotron_h::NEMOTRON_H,
    models::nemotron_h::NEMOTRON_H_MOE,
    models::nemotron_h::NEMOTRON_H_PUZZLE,
    models::neo_bert::NEO_BERT,
    models::nomic_bert::NOMIC_BERT,
    models::nomic_bert_moe::NOMIC_BERT_MOE,
    models::olmo::OLMO,
    models::olmo2::OLMO2,
    models::olmoe::OLMOE,
    models::openelm::OPENELM,
    models::orion::ORION,
    models::paddleocr::PADDLEOCR,
    models::pangu::PANGU,
    models::persimmon::PERSIMMON,
    models::phi2::PHI2,
    models::phi3::PHI3,
    models::phimoe::PHIMOE,
    models::plamo2::PLAMO2,
    models::plamo3::PLAMO3,
    models::plm::PLM,
    models::qwen::QWEN,
    models::qwen2::QWEN2,
    models::qwen2moe::QWEN2MOE,
    models::qwen2vl::QWEN2VL,
    models::qwen3::QWEN3,
    models::qwen3vl::QWEN3ASR,
    models::qwen3vl::QWEN3OMNI,
    models::qwen3::QWEN3_RERANKER,
    models::qwen35::QWEN35,
    models::qwen35::QWEN35MOE,
    models::qwen3moe::QWEN3MOE,
    models::qwen3next::QWEN3NEXT,
    models::qwen3vl::QWEN3VL,
    models::qwen3vl::QWEN3VL_RERANKER,
    models::qwen3vl::QWEN3VLMOE,
    models::qwen4exp::QWEN4EXP,
    models::refact::REFACT,
    models::rnd1::RND1,
    models::roberta::ROBERTA,
    models::rwkv::RWKV,
    models::rwkv6::RWKV6,
    models::rwkv6::RWKV6QWEN2,
    models::rwkv7::RWKV7,
    models::seed_oss::SEED_OSS,
    models::smallthinker::SMALLTHINKER,
    models::smollm3::SMOLLM3,
    models::solar_open::SOLAR_OPEN,
    models::spark2_5::SPARK2_5,
    models::stablelm::STABLELM,
    models::starcoder::STARCODER,
    models::starcoder2::STARCODER2,
    models::step35::STEP35,
    models::t5::T5,
    models::t5::T5_ENCODER,
    models::wavtokenizer::WAVTOKENIZER,
    models::whisper::WHISPER,
    models::roberta::XLM_ROBERTA,
    models::xverse::XVERSE,
];

/// Every family of projectors, sorted by name.
pub const PROJECTORS: &[Projector] = &[
    projectors::whisper::AUDIOFLAMINGO3,
    projectors::cogvlm::COGVLM,
    projectors::deepseekocr::DEEPSEEKOCR,
    projectors::deepseekocr::DEEPSEEKOCR2,
    projectors::dotsocr::DOTSOCR,
    projectors::exaone4_5::EXAONE4_5,
    projectors::gemma3::GEMMA3,
    projectors::gemma4::GEMMA4,
    projectors::gemma4_unified::GEMMA4_UNIFIED,
    projectors::glm4v::GLM4V,
    projectors::glm4v::GLM5V,
    projectors::glmasr::GLMASR,
    projectors::hunyuanvl::HUNYUANVL,
    projectors::idefics3::IDEFICS3,
    projectors::internvl::INTERNVL,
    projectors::janus::JANUS,
    projectors::kimik25::KIMIK25,
    projectors::kimivl::KIMIVL,
    projectors::lfm2vl::LFM2VL,
    projectors::lightonocr::LIGHTONOCR,
    projectors::ling3vl::LING3VL,
    projectors::llama4::LLAMA4,
    projectors::meralion::MERALION,
    projectors::minicpmv::MINICPMV,
    projectors::minimaxm3::MINIMAXM3,
    projectors::paddleocr::PADDLEOCR,
    projectors::llava::PIXTRAL,
    projectors::whisper::QWEN2AUDIO,
    projectors::qwen2vl::QWEN2VL,
    projectors::qwen3vl::QWEN3VL,
    projectors::whisper::ULTRAVOX,
    projectors::deepseekocr::UNLIMITEDOCR,
    projectors::whisper::VOXTRAL,
    projectors::youtuvl::YOUTUVL,
];

/// The architecture of a class name, and the class; of several with that class the one whose checkpoint this is.
pub fn find(class: &str, input: &Input<'_>) -> Option<(&'static Arch, Class)> {
    let rows = || classes().filter(|(_, known)| known.name == class);
    let asked = rows().find(|(arch, _)| arch.fits.is_some_and(|fits| fits(input)));
    asked.or_else(|| rows().find(|(arch, _)| arch.fits.is_none()))
}

/// The architecture whose class has the inner part `class`: transformers saves `GemmaModel` or `Qwen3_5TextModel` of
/// what is `GemmaForCausalLM` with an output. Names then lack `model.` in front.
pub fn find_inner(class: &str, input: &Input<'_>) -> Option<(&'static Arch, Class)> {
    let stem = class.strip_suffix("TextModel").or_else(|| class.strip_suffix("Model"))?;
    let (arch, outer) = ["ForCausalLM", "ForConditionalGeneration"]
        .iter()
        .find_map(|ending| find(&format!("{stem}{ending}"), input))
        .filter(|(_, outer)| outer.prefix.is_empty())?;
    // True if the table of the whole model has the inner part under `model.`.
    let under_model = arch.rules().any(|rule| rule.hf.iter().any(|name| name.starts_with("model.layers.")));
    under_model.then_some((arch, Class { prefix: "model.", ..outer }))
}

/// The architecture that a person names for a checkpoint: by its own name, whose first class is meant, or by the name of a
/// class.
///
/// # Errors
///
/// [`ArchError::UnknownName`] with the three names that are most similar.
pub fn named(name: &str, input: &Input<'_>) -> Result<(&'static Arch, Class), ArchError> {
    let by_name = || {
        let arch = ARCHES.iter().find(|arch| arch.name == name)?;
        Some((arch, arch.classes.first().copied()?))
    };
    find(name, input).or_else(by_name).ok_or_else(|| {
        let names = ARCHES.iter().map(|arch| arch.name).chain(class_names());
        ArchError::UnknownName { name: name.into(), nearest: nearest(name, names) }
    })
}

/// The classes of a config that names none, by its `model_type`: the likeliest first, which generates text.
pub fn classes_by_model_type(config: &Json) -> Vec<(&'static Arch, Class)> {
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
            || arch.fits.is_none() && arch.configs.iter().any(|known| known.model_type == model_type)
    };
    let mut all: Vec<_> = classes().filter(has_type).collect();
    all.sort_by_key(|(_, class)| {
        let at = ENDINGS.iter().position(|ending| class.name.ends_with(ending)).unwrap_or(ENDINGS.len());
        (stem(class.name) != family, is_wrapper != class.name.ends_with("ForConditionalGeneration"), at)
    });
    all
}

/// The architectures whose config classes have a `model_type`.
pub fn of_model_type(model_type: &str) -> impl Iterator<Item = &'static Arch> {
    ARCHES.iter().filter(move |arch| arch.configs.iter().any(|class| class.model_type == model_type))
}

/// The projector of a checkpoint: by the class of its tower of images, or else its own.
///
/// Source: `get_model_architecture` in `conversion/base.py`.
///
/// # Errors
///
/// [`ArchError::MissingKey`] without a class, [`ArchError::NoProjector`].
pub fn projector(config: &Json) -> Result<&'static Projector, ArchError> {
    let tower_class = config.get("vision_config").and_then(first_class);
    let whole_class = first_class(config);
    let row = |class: &str| PROJECTORS.iter().find(|row| row.classes.contains(&class));
    let mut named = tower_class.into_iter().chain(whole_class);
    named.find_map(row).ok_or_else(|| match whole_class.or(tower_class) {
        None => missing("architectures"),
        Some(class) => {
            let classes = PROJECTORS.iter().flat_map(|row| row.classes.iter().copied());
            ArchError::NoProjector { class: class.to_owned(), nearest: nearest(class, classes) }
        }
    })
}

/// The three class names that are most similar to one that no architecture has.
pub fn nearest_classes(class: &str) -> Vec<&'static str> {
    nearest(class, class_names())
}

/// The config class that reads files of a `model_type`.
pub fn config_class(model_type: &str) -> Option<&'static ConfigClass> {
    ARCHES.iter().flat_map(|arch| arch.configs).find(|class| class.model_type == model_type)
}

/// `model_type` of models of several kinds in transformers 5.23 whose config class takes any text part, and the
/// `model_type` of a text part that states none.
const WRAPPERS: &[(&str, &str)] = &[
    ("audioflamingo3", "qwen2"),
    ("granite_speech", "granite"),
    ("granite_speech_plus", "granite"),
    ("idefics3", "llama"),
    ("internvl", "qwen2"),
    ("janus", "llama"),
    ("lfm2_vl", "lfm2"),
    ("lighton_ocr", "qwen3"),
    ("llava", "llama"),
    ("llava_next", "llama"),
    ("minicpmv4_6", "qwen3_5_text"),
    ("qwen2_audio", "qwen2"),
    ("qwen3_asr", "qwen3"),
    ("smolvlm", "llama"),
    ("voxtral", "llama"),
];

/// `config.json` with the defaults of the class for its `model_type`, the text part next to the others, and
/// whether transformers accepts the file. A rejected file stays unchanged.
pub fn standardized(config: &Json) -> (Json, bool) {
    let model_type = config.get("model_type").and_then(Json::as_str);
    let known = match model_type.and_then(config_class) {
        Some(class) => config.as_object().map(|raw| classes::standardize(raw, class).map(Json::Object)),
        None => with_text_defaults(config, model_type),
    };
    match known {
        Some(Ok(config)) => (config, true),
        Some(Err(_)) => (config.clone(), false),
        None => (config.clone(), true),
    }
}

/// A model of several kinds of [`WRAPPERS`] with the defaults of its text part; why transformers does not take it.
fn with_text_defaults(config: &Json, model_type: Option<&str>) -> Option<Result<Json, String>> {
    let (_, usual) = WRAPPERS.iter().find(|(wrapper, _)| Some(*wrapper) == model_type)?;
    let text = config.get("text_config")?.as_object()?;
    let text_type = text.get("model_type").and_then(Json::as_str).unwrap_or(usual);
    let text = classes::standardize(text, config_class(text_type)?);
    Some(text.map(|text| {
        let mut config = config.clone();
        config["text_config"] = text.into();
        config
    }))
}

/// Hyperparameters of a config: with the defaults of the config class for its `model_type`, or raw if `arch`
/// requires that or there is no class.
///
/// # Errors
///
/// Those of [`Hparams::load`].
pub fn hparams(arch: &Arch, config: &Json) -> Result<Hparams, ArchError> {
    // Mamba and Falcon-H1: the reference avoids `AutoConfig`, whose classes assume one certain model.
    if arch.raw_config {
        return Hparams::load(config, None);
    }
    // Classes are found by `model_type` in the whole table, as `AutoConfig` does: Jina BERT is read by
    // BERT's class.
    let model_type = config.get("model_type").and_then(Json::as_str);
    // A row from outside of the table brings its own.
    let own = |model_type: &str| arch.configs.iter().find(|class| class.model_type == model_type);
    if let Some(class) = model_type.and_then(|name| config_class(name).or_else(|| own(name))) {
        return Hparams::load(config, Some(class));
    }
    // A model of several kinds, whose text part is read by the class of that part's own `model_type`.
    let standardized = with_text_defaults(config, model_type);
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

fn classes() -> impl Iterator<Item = (&'static Arch, Class)> {
    ARCHES.iter().flat_map(|arch| arch.classes.iter().map(move |class| (arch, *class)))
}

fn class_names() -> impl Iterator<Item = &'static str> {
    classes().map(|(_, class)| class.name)
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
    fn rows_are_sorted_unique_and_lowercase() {
        let names: Vec<&str> = ARCHES.iter().map(|arch| arch.name).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        // A class may have several rows, if all but one ask what else a config says.
        let unread_keys = || ARCHES.iter().filter(|arch| arch.fits.is_none());
        let mut classes: Vec<&str> =
            unread_keys().flat_map(|arch| arch.classes).map(|class| class.name).collect();
        let mut configs: Vec<&str> =
            unread_keys().flat_map(|arch| arch.configs).map(|class| class.model_type).collect();
        for list in [&mut classes, &mut configs] {
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
    fn classes_with_similar_names_are_found() {
        assert!(find("MistalForCausalLM", &Input::default()).is_none());
        assert_eq!(nearest_classes("MistalForCausalLM").first(), Some(&"MistralForCausalLM"));
    }
}
