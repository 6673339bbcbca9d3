"""Golden recipes of Idefics 3 and SmolVLM, by Hugging Face: vision projectors for models of the llama family."""

from tiny_towers import SIGLIP, tower

PROJECTORS = {
    "smolvlm": tower("smolvlm", "SmolVLMForConditionalGeneration", dict(model_type="llama",
        architectures=["VLlama3ForCausalLM"]), dict(preprocessor=dict(size=dict(longest_edge=96))),
        vision_config=SIGLIP, scale_factor=3),
    "idefics3": tower("idefics3", "Idefics3ForConditionalGeneration", dict(model_type="llama"), vision_config=SIGLIP),
}
