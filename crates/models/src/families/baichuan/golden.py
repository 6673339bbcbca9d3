"""Golden recipes of Baichuan 1 and 2, by Baichuan."""

from unittest import mock

from tiny_models import llama_like, narrow_hub, tiny


def patches(_) -> list:
    """The reference's class calls itself without end on every tensor but the fused one; its base class is meant."""
    from conversion.baichuan import BaichuanModel
    own = BaichuanModel.modify_tensors

    def modify(self, data, name, bid):
        return own(self, data, name, bid) if "W_pack" in name else super(BaichuanModel, self).modify_tensors(data, name, bid)
    return [mock.patch.object(BaichuanModel, "modify_tensors", modify)]


CHECKPOINTS = {
    "baichuan": tiny(hand=lambda config: llama_like(config, "W_pack"), patches=patches,
        remove=("num_key_value_heads", "max_position_embeddings"), config=narrow_hub("BaichuanForCausalLM", "baichuan",
        num_key_value_heads=4, model_max_length=4096)),
}

WIDE = {"baichuan": dict(num_key_value_heads=4)}


def split_pack(config, tensors):
    """Baichuan of 7 billion is Llama with its projections in one."""
    split = {}
    for name, tensor in tensors.items():
        parts = tensor.chunk(3) if "W_pack" in name else [tensor]
        names = [name.replace("W_pack", f"{x}_proj") for x in "qkv"] if "W_pack" in name else [name]
        split |= {name: part.clone() for name, part in zip(names, parts, strict=True)}
    length = config.pop("model_max_length")
    return config | dict(architectures=["LlamaForCausalLM"], model_type="llama", max_position_embeddings=length), split


LOGITS = {"baichuan": dict(spelled=split_pack)}
