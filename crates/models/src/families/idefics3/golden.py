"""Golden recipes of Idefics 3 and SmolVLM, by Hugging Face: vision projectors for models of the llama family."""

from tiny_towers import SIGLIP, tower

PROJECTORS = {
    "smolvlm": tower("smolvlm", "SmolVLMForConditionalGeneration", dict(model_type="llama",
        architectures=["VLlama3ForCausalLM"]), dict(preprocessor=dict(size=dict(longest_edge=96))),
        vision_config=dict(SIGLIP, image_size=48), scale_factor=3),
    "idefics3": tower("idefics3", "Idefics3ForConditionalGeneration", dict(model_type="llama"), vision_config=SIGLIP),
}


def look(model, image, processor):
    from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil as Processor
    from transformers.models.idefics3.processing_idefics3 import Idefics3Processor
    made = Processor(size=dict(longest_edge=64), max_image_size=dict(longest_edge=32), return_row_col_info=True,
        **processor)(image, return_tensors="pt")
    inputs = {key: made[key] for key in ("pixel_values", "pixel_attention_mask")}
    rows = model.model.get_image_features(**inputs, return_dict=True).pooler_output[0]
    tiles = rows.chunk(made["pixel_values"].shape[1])
    owner = type("Owner", (), dict(fake_image_token="<fake_token_around_image>", global_image_tag="<global-img>",
        image_token="<image>", image_seq_len=1))
    text = Idefics3Processor.replace_image_token(owner, made, 0)
    # The last one is the family's mark.
    *before, after = text.removesuffix(owner.fake_image_token).split("<image>")
    return rows, [], inputs, ([(text, len(tile)) for text, tile in zip(before, tiles, strict=True)], after)


LONGEST = dict(preprocessor=dict(size=dict(longest_edge=64)))
VISION = {
    "idefics3": dict(tower("idefics3", "Idefics3ForConditionalGeneration", dict(model_type="llama", num_hidden_layers=2,
        architectures=["VLlama3ForCausalLM"]), vision_config=SIGLIP), look=look, **LONGEST),
}
