"""Golden recipes of Janus, by DeepSeek: the vision projector for a model of the llama family."""

from tiny_towers import PIXELS, tower

JANUS = dict(hidden_size=16, num_hidden_layers=3, num_attention_heads=2, image_size=16, patch_size=4, mlp_ratio=1.5,
    projection_dim=32, num_image_tokens=16)
VQ = dict(embed_dim=4, num_embeddings=8, latent_channels=4, base_channels=32, channel_multiplier=[1, 1],
    num_res_blocks=1, projection_dim=32, num_hidden_layers=1, image_token_embed_dim=32)

PROJECTORS = {
    "janus": tower("janus", "JanusForConditionalGeneration", dict(model_type="llama", head_dim=8), PIXELS,
        vision_config=JANUS, vq_config=VQ),
}


def look(model, image, processor):
    from transformers.models.janus.image_processing_pil_janus import JanusImageProcessorPil as Processor
    made = Processor(size=dict(height=32, width=32), **processor)(image, return_tensors="pt")
    inputs = dict(pixel_values=made["pixel_values"])
    rows = model.model.get_image_features(**inputs, return_dict=True).pooler_output[0]
    return rows, [], inputs, [model.config.image_token_id] * len(rows)


VISION = {
    "janus": dict(tower("janus", "JanusForConditionalGeneration", dict(model_type="llama", head_dim=8,
        num_hidden_layers=2), vision_config=dict(JANUS, image_size=32, num_image_tokens=64), vq_config=VQ), look=look),
}
