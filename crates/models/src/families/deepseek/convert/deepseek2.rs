//! DeepSeek 2, 2.5 and 3, R1, Kimi K2, text parts of Kimi VL and K2.5, Youtu: latent attention and a mixture of experts.
//!
//! Config keys, transforms: those of [`crate::parts::latent`].
//!
//! Source: `DeepseekV2Model` in `conversion/deepseek.py`.

use crate::parts::latent::{self, LATENT, rotated_part};
use crate::prelude::*;

pub const DEEPSEEK2: Arch = Arch {
    name: "deepseek2",
    classes: &[
        Class::new("DeepseekV2ForCausalLM"),
        Class::new("DeepseekV3ForCausalLM"),
        Class::new("YoutuForCausalLM"),
        Class::new("KimiVLForConditionalGeneration"),
        Class::new("KimiK25ForConditionalGeneration"),
        // The class of transformers.
        Class::new("Kimi_K25ForConditionalGeneration"),
        Class::new("YoutuVLForConditionalGeneration"),
    ],
    example: "deepseek-ai/DeepSeek-V2-Lite",
    configs: &[DEEPSEEK_V2_CONFIG, DEEPSEEK_V3_CONFIG, YOUTU_CONFIG],
    keys: |hparams, keys| {
        latent::keys(hparams, keys)?;
        // Version 2 has the softmax, which is also what llama.cpp assumes.
        if hparams.get("model_type").is_some_and(|kind| kind == "deepseek_v3") {
            keys.sigmoid_by_default();
        }
        Ok(())
    },
    // transformers 5.24 saves the layers of Kimi K2.5 like those of the tower.
    rename: |_, name| name.contains("model.blocks.").then(|| name.replace("model.blocks.", "model.layers.")),
    yarn: YarnScales::ScoresByMultiplier,
    ..LATENT
};

/// `DeepseekV2Config`.
const DEEPSEEK_V2_CONFIG: ConfigClass = ConfigClass::new("deepseek_v2").adjusted(rotated_part);

/// `DeepseekV3Config`.
const DEEPSEEK_V3_CONFIG: ConfigClass = ConfigClass::new("deepseek_v3").adjusted(rotated_part);

/// `YoutuConfig`: no experts.
const YOUTU_CONFIG: ConfigClass = ConfigClass::new("youtu").adjusted(rotated_part);
