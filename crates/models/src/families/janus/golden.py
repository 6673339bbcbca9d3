"""Golden recipes of Janus, by DeepSeek: the vision projector for a model of the llama family."""

from tiny_towers import PIXELS, tower

PROJECTORS = {
    "janus": tower("janus", "JanusForConditionalGeneration", dict(model_type="llama", head_dim=8), PIXELS,
        vision_config=dict(hidden_size=16, num_hidden_layers=3, num_attention_heads=2, image_size=16, patch_size=4,
        mlp_ratio=1.5, projection_dim=32, num_image_tokens=16), vq_config=dict(embed_dim=4, num_embeddings=8,
        latent_channels=4, base_channels=32, channel_multiplier=[1, 1], num_res_blocks=1, projection_dim=32,
        num_hidden_layers=1, image_token_embed_dim=32)),
}
