"""Golden recipes of Apertus, by the Swiss AI Initiative."""

from tiny_models import LLAMA3, OLD, TEXT, text_tensors, wrapper

# The reference lacks the class of Apertus 1.5, but supports its text part as this one.
APERTUS = dict(set=dict(architectures=["ApertusForCausalLM"], model_type="apertus"))

CHECKPOINTS = {
    "apertus": dict(model="apertus", tokenizer="bpe", config=TEXT),
    "apertus1.5": dict(model="apertus1p5_text", tokenizer="bpe", config=TEXT, reference=APERTUS),
    "apertus1.5-images": wrapper("apertus1p5", "Apertus1p5ForConditionalGeneration", {}, image_token_offset=300,
        audio_token_offset=332, vision_config=dict(codebook_size=32, embed_dim=4, latent_channels=4, base_channels=32,
        channel_multiplier=[1], num_res_blocks=1), audio_config=dict(codebook_size=32, codebook_dim=8, hidden_size=8,
        num_filters=2, upsampling_ratios=[2], decoder_hidden_size=32, decoder_intermediate_size=16, decoder_num_layers=1),
        more=dict(reference=APERTUS, given_as=text_tensors)),
    "apertus-old": dict(model="apertus", tokenizer="bpe", config=dict(TEXT, num_hidden_layers=11), old=dict(OLD,
        rope_theta=12000000, rope_scaling=LLAMA3, qk_norm=True, post_norm=False, mlp_bias=False)),
}

WIDE = {"apertus": {}}
TOWER_TYPES = {"apertus1p5"}
