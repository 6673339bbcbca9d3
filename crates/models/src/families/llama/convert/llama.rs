//! Llama 1 to 3, Mistral 7B, Mixtral, and everything else with their class names.
//!
//! Config keys: those of every text model ([`gguf_layout::text_keys`]), `vocab_size`, `head_dim`.
//! `sliding_window` is not written: llama.cpp's llama has none, and the reference leaves it out.
//!
//! Transforms: rows of Q and K (weights and biases) are permuted, because Hugging Face stores
//! the two halves of each rotated pair apart and ggml wants them side by side. Experts become
//! one tensor. Rotary scaling of type `llama3` becomes the computed tensor `rope_freqs`.
//!
//! Source: `LlamaModel` in `conversion/llama.py`.

use crate::families::llama::convert::vocab;
use crate::prelude::*;
use gguf_layout::rope_llama3::rope_llama3;

pub const LLAMA: Arch = Arch {
    name: "llama",
    classes: &[
        Class::new("LlamaForCausalLM"),
        Class::new("MistralForCausalLM"),
        Class::new("MixtralForCausalLM"),
        Class::new("LLaMAForCausalLM"),
        Class::new("IQuestCoderForCausalLM"),
        // Their windows are reported: llama.cpp computes full attention.
        Class::new("CwmForCausalLM"),
        Class::new("MinistralForCausalLM"),
        // Tokens of pictures are part of its vocabulary.
        Class::new("Emu3ForCausalLM"),
        Class::new("Emu3ForConditionalGeneration"),
        // Text parts of vision and audio models: SmolVLM and Idefics 3, Pixtral and LLaVA, Voxtral.
        Class::new("VLlama3ForCausalLM"),
        Class::new("LlavaForConditionalGeneration"),
        Class::new("VoxtralForConditionalGeneration"),
        Class::new("JanusForConditionalGeneration"),
        Class::wrapper("Sarashina2VisionForCausalLM"),
        // Refused below.
        // Embedding models and other inner parts: names lack `model.` in front, which is put there
        // before the look-up.
        Class::inner("LlamaModel", "model."),
    ],
    example: "unsloth/Llama-3.2-1B-Instruct",
    configs: &[
        ConfigClass::new("llama"),
        ConfigClass::new("mistral"),
        ConfigClass::new("mixtral"),
        CWM_CONFIG,
        EMU3_CONFIG,
        EMU3_TEXT_CONFIG,
        MINISTRAL_CONFIG,
    ],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        // `LlamaModel.permute`: reshape (heads, 2, d/2, ..), swap the middle axes.
        rules::ATTENTION_PERMUTED,
        rules::GATED_MLP,
        rules::MIXTRAL_EXPERTS,
    ],
    // SmolVLM and Idefics 3; Sarashina 2 Vision.
    rename: |_, name| match name.strip_prefix("llm.") {
        Some(text) => Some(text.to_owned()),
        None => name.contains("text_model.").then(|| name.replace("text_model.", "")),
    },
    drops: image_part,
    keys,
    computed,
    vocab: vocab::ROUTE,
    export: Export::Lenient { understood: UNDERSTOOD },
    ..DECODER
};

/// `CwmConfig`.
const CWM_CONFIG: ConfigClass = ConfigClass::new("cwm").adjusted(|map| {
    if map.get("rope_parameters").is_none_or(Json::is_null) {
        let rope = json!({
            "rope_theta": 1_000_000.0, "rope_type": "llama3", "factor": 16.0, "high_freq_factor": 4.0,
            "low_freq_factor": 1.0, "original_max_position_embeddings": 8192
        });
        map.insert("rope_parameters".into(), rope);
    }
    adjust::layer_types(map, |layer| layer % 4 != 0)
});

/// `Emu3TextConfig`.
const EMU3_TEXT_CONFIG: ConfigClass = ConfigClass::new("emu3_text_model");

/// `Emu3Config`.
const EMU3_CONFIG: ConfigClass =
    ConfigClass::new("emu3").adjusted(|map| adjust::text_config(map, &EMU3_TEXT_CONFIG));

/// `MinistralConfig`.
const MINISTRAL_CONFIG: ConfigClass = ConfigClass::new("ministral").adjusted(|map| {
    let slides = map.get("sliding_window").is_some_and(|window| !window.is_null());
    adjust::layer_types(map, |_| slides)
});

/// Image tensors of Janus, Emu 3 and Sarashina 2 Vision, in addition to those recognized by name in all models.
fn image_part(hparams: &Hparams, name: &str) -> Option<&'static str> {
    const PARTS: [&str; 6] = [
        "vqmodel.",
        "model.aligner.",
        "model.vqmodel.",
        "model.generation_embeddings.",
        "model.generation_aligner.",
        "model.generation_head.",
    ];
    // In a model without images these would be names of the last norm.
    let has_images = || hparams.get("vision_config").is_some();
    let is_one =
        PARTS.iter().any(|start| name.starts_with(start)) || name.starts_with("norm.") && has_images();
    is_one.then_some("part of an image model")
}

/// Keys of files of other programs, and of older converters, whose meaning is in the config all the same: the
/// embedding counts the tokens, `scale_linear` is linear scaling before it had a type, the class has a window where
/// it is Mistral's, and counts of experts are 0 in some dense files.
const UNDERSTOOD: &[&str] = &[
    "vocab_size",
    "attention.sliding_window",
    "expert_count",
    "expert_used_count",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
];

/// The keys of every text model, the size of the vocabulary and the rotated dimensions.
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    keys.vocab_size(hparams)?;
    let dim = hparams.head_dim()?;
    // Complete heads are rotated. The reference computes `hidden_size // num_attention_heads` where there
    // is no `head_dim`.
    keys.set_prefixed("rope.dimension_count", Value::U32(to_u32("head_dim", &dim.into())?));
    Ok(())
}

/// Divisors of rotary frequencies, where rotary scaling is of type `llama3`.
pub fn computed(hparams: &Hparams) -> Result<Vec<Computed>, ArchError> {
    // `generate_extra_tensors`: before all tensors of the checkpoint. Llama 3.1 and later only.
    let factors = rope_llama3(hparams.rope(), || hparams.head_dim())?;
    Ok(factors.map(|factors| ("rope_freqs.weight", factors)).into_iter().collect())
}
