"""Golden recipes of Muse Glimmer, by Meta."""

from tiny_models import wrapper
from tiny_towers import tower

MUSE = dict(head_dim=8, num_hidden_layers=4, sliding_window=16, qk_scale_factor=3.87, output_multiplier=0.25,
    final_logit_softcapping=20.0)
MUSE_TOWER = dict(patch_size=4, pos_emb_height=4, pos_emb_width=4, num_attention_heads=2, num_hidden_layers=2,
    hidden_size=16, intermediate_size=24)

CHECKPOINTS = {
    "muse-glimmer": wrapper("muse_glimmer", "MuseGlimmerForConditionalGeneration", MUSE, vision_config=MUSE_TOWER,
        out_hidden_size=64, projector_hidden_size=24, more=dict(special=["<|eot|>"])),
}

PROJECTORS = {
    "muse-glimmer": tower("muse_glimmer", "MuseGlimmerForConditionalGeneration", MUSE | dict(num_hidden_layers=1),
        vision_config=dict(MUSE_TOWER, num_hidden_layers=3), out_hidden_size=64, projector_hidden_size=24),
}

WIDE = {"muse-glimmer": dict(head_dim=64)}
TOWER_TYPES = {"muse_glimmer"}
