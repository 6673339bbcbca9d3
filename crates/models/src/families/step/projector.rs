//! Tower of Step 3 VL and Step 3.7, two convolutions that halve each side, and a matrix.
//!
//! Config keys: those of every tower.
//!
//! Transforms: kernels of the convolutions are at most F16.
//!
//! Source: `Step3VLVisionModel` in `conversion/step3.py`.

use gguf_layout::projector::prelude::*;

pub const STEP3VL: Projector = Projector {
    name: "step3vl",
    classes: &["Step3p7ForConditionalGeneration", "StepVLForConditionalGeneration"],
    example: "stepfun-ai/Step3-VL-10B",
    tensors: &[ENDS, LAYERS],
    owns: |_, name| name.starts_with("vision_model.") || name.starts_with("vit_large_projector."),
    needs_preprocessor: false,
    prepare,
    keys,
    ..BASE
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["vision_model.conv1"], "v.patch_embd"),
    TensorRule::copy(&["vision_model.positional_embedding"], "v.position_embd").bare(".weight"),
    TensorRule::copy(&["vision_model.ln_pre"], "v.pre_ln"),
    TensorRule::copy(&["vision_model.vit_downsampler1"], "mm.0").float(FloatType::F16OrF32),
    TensorRule::copy(&["vision_model.vit_downsampler2"], "mm.1").float(FloatType::F16OrF32),
    TensorRule::copy(&["vit_large_projector"], "mm.model.fc"),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["vision_model.transformer.resblocks.{bid}.ln_1"], "v.blk.{bid}.ln1"),
    TensorRule::copy(&["vision_model.transformer.resblocks.{bid}.ln_2"], "v.blk.{bid}.ln2"),
    TensorRule::copy(
        &["vision_model.transformer.resblocks.{bid}.attn.in_proj_weight"],
        "v.blk.{bid}.attn_qkv",
    )
    .bare(".weight"),
    TensorRule::copy(&["vision_model.transformer.resblocks.{bid}.attn.in_proj_bias"], "v.blk.{bid}.attn_qkv")
        .bare(".bias"),
    TensorRule::copy(&["vision_model.transformer.resblocks.{bid}.attn.out_proj"], "v.blk.{bid}.attn_out"),
    TensorRule::copy(&["vision_model.transformer.resblocks.{bid}.ls_1.gamma"], "v.blk.{bid}.ls1")
        .bare(".weight"),
    TensorRule::copy(&["vision_model.transformer.resblocks.{bid}.ls_2.gamma"], "v.blk.{bid}.ls2")
        .bare(".weight"),
    TensorRule::copy(&["vision_model.transformer.resblocks.{bid}.mlp.c_fc"], "v.blk.{bid}.ffn_up"),
    TensorRule::copy(&["vision_model.transformer.resblocks.{bid}.mlp.c_proj"], "v.blk.{bid}.ffn_down"),
];

fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let stride = towers.whole.get_u64("understand_projector_stride")?.unwrap_or(0);
    let is_step37 = towers.is_taken && towers.whole.get("model_type").is_some_and(|kind| kind == "step3p7");
    let vision = towers.vision_mut()?;
    let width = vision.need_u64(&["hidden_size", "width"])?;
    if vision.get_u64("intermediate_size")?.unwrap_or(0) == 0 {
        let ratio = vision.get_f64("mlp_ratio")?.unwrap_or(8960.0 / 1536.0);
        // transformers has a class for Step 3.7 only; its default does not follow from the ratio.
        let length = if is_step37 { 3072 } else { (width as f64 * ratio).round_ties_even() as u64 };
        vision.set("intermediate_size", length.into());
    }
    // llama.cpp's graph supports only this tower.
    for (key, found, expected) in [
        ("understand_projector_stride", stride, 2),
        ("vision_config.image_size", vision.need_u64(&["image_size"])?, 728),
        ("vision_config.hidden_size", width, 1536),
        ("vision_config.num_hidden_layers", vision.need_u64(&["num_hidden_layers", "layers"])?, 47),
    ] {
        if found != expected {
            return Err(bad(key, &found.into(), "the value of Step3-VL-10B"));
        }
    }
    // Those of OpenAI's CLIP.
    for (key, values) in [
        ("image_mean", [0.481_454_66, 0.457_827_5, 0.408_210_73]),
        ("image_std", [0.268_629_54, 0.261_302_58, 0.275_777_11]),
    ] {
        if towers.preprocessor.get(key).is_none() {
            towers.preprocessor.set(key, values.to_vec().into());
        }
    }
    Ok(())
}

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    parts::kind(keys, "step3vl");
    parts::epsilon(keys, "layer_norm_eps", towers.vision()?, 1e-5)?;
    // The square of the stride, and the largest side of an image.
    keys.set_prefixed("vision.projector.scale_factor", Value::U32(4));
    keys.set_prefixed("vision.preproc_image_size", Value::U32(3024));
    Ok(())
}
