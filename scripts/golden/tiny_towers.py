"""Towers of tiny multimodal checkpoints, and further keys of recipes for projectors (projectors.py):

  preprocessor  keys of preprocessor_config.json in addition to PREPROCESSOR, except those that are None; None for no such file
  processor     processor_config.json
  hub           (old, new) parts of names of tensors: the Hub's spelling, which the reference is given
  hub_config    keys of config.json that it is given with these names
  no_q8_0       llama-quantize fails on it
  near          patterns of tensors that the reference computes with sines, exponentials or square roots; values are compared
                with a tolerance
  names         {name of a tensor with {bid}: its name in the file}, if the reference's table has two entries and takes the
                wrong one

A tower has more layers than the largest number in the name of a tensor of its projector: the reference maps `linear_2`
of a tower with three layers, but not of one with two."""

from unittest import mock

from tiny_models import TEXT, wrapper

PREPROCESSOR = dict(image_mean=[0.5, 0.25, 0.125], image_std=[0.5, 0.75, 0.1])
PIXELS = dict(preprocessor=dict(min_pixels=64, max_pixels=4096))
ONE = dict(TEXT, num_hidden_layers=1)
QWEN25_VISION = dict(depth=4, hidden_size=16, intermediate_size=24, num_heads=2, patch_size=4, out_hidden_size=32,
    fullatt_block_indexes=[1, 3])
QWEN3_VISION = dict(depth=4, hidden_size=16, intermediate_size=24, num_heads=2, patch_size=4, out_hidden_size=32,
    num_position_embeddings=16, deepstack_visual_indexes=[0, 2])
QWEN35_VISION = {key: value for key, value in QWEN3_VISION.items() if key != "deepstack_visual_indexes"}
SIGLIP = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2, image_size=32,
    patch_size=4)
PIXTRAL = dict(model_type="pixtral", hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2,
    head_dim=8, image_size=16, patch_size=4)
MOON = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2, patch_size=4)
WHISPER = dict(d_model=16, hidden_size=16, intermediate_size=32, encoder_ffn_dim=32, num_hidden_layers=3,
    encoder_layers=3, num_attention_heads=2, encoder_attention_heads=2, num_mel_bins=8, max_source_positions=16)
# For checkpoints of which only the text part is converted.
SHALLOW_SIGLIP = dict(SIGLIP, num_hidden_layers=1, image_size=16)
SHALLOW_PIXTRAL = dict(PIXTRAL, num_hidden_layers=1)
SHALLOW_WHISPER = dict(WHISPER, num_hidden_layers=1, encoder_layers=1)


def tower(model: str, name: str, text: dict, more: dict | None = None, **parts) -> dict:
    """A recipe of a multimodal model whose text part has one layer; `more` are further keys of the recipe."""
    return wrapper(model, name, dict(num_hidden_layers=1) | text, more or {}, **parts)


def with_biases(shapes: dict) -> dict:
    """Weights and biases of layers whose weights have these shapes."""
    return {f"{name}.weight": shape for name, shape in shapes.items()} | {
        f"{name}.bias": shape[:1] for name, shape in shapes.items()}


def scorer(front: str = "", layers: int = 2) -> dict:
    """The head of a decision model that scores options: layers with biases, 4 times as wide inside; names begin with `front`."""
    both = {f"{front}scorer.0": [32], f"{front}scorer.1": [32, 32], f"{front}scorer.3": [1, 32]}
    plain = {f"{front}type_emb.weight": [3, 32]}
    for i in range(layers):
        layer = f"{front}head.layers.{i}."
        both |= {layer + "norm1": [32], layer + "norm2": [32], layer + "self_attn.out_proj": [32, 32],
                 layer + "linear1": [128, 32], layer + "linear2": [32, 128]}
        plain |= {layer + "self_attn.in_proj_weight": [96, 32], layer + "self_attn.in_proj_bias": [96]}
    return with_biases(both) | plain


def whisper(prefix: str) -> dict:
    """Tensors of Whisper's encoder; names begin with the prefix."""
    shapes = {f"{prefix}conv1": [16, 8, 3], f"{prefix}conv2": [16, 16, 3], f"{prefix}layer_norm": [16]}
    plain = {f"{prefix}embed_positions.weight": [16, 16]}
    for i in range(WHISPER["num_hidden_layers"]):
        layer = f"{prefix}layers.{i}."
        shapes |= {layer + "self_attn.q_proj": [16, 16], layer + "self_attn.v_proj": [16, 16],
                   layer + "self_attn.out_proj": [16, 16], layer + "self_attn_layer_norm": [16],
                   layer + "final_layer_norm": [16], layer + "fc1": [32, 16], layer + "fc2": [16, 32]}
        plain[layer + "self_attn.k_proj.weight"] = [16, 16]
    return with_biases(shapes) | plain


def whisper_with(folder, prefix: str, project):
    """A model with the layers of transformers' WhisperEncoder, for sounds of any length, and a projector: a function from rows and all
    tensors to embeddings. Its logits are zeros."""
    import torch
    import torch.nn.functional as F
    import transformers
    from safetensors.torch import load_file
    from transformers.models.whisper.modeling_whisper import WhisperEncoder
    tensors = {name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()}
    own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    positions = len(own["embed_positions.weight"])
    audio = transformers.WhisperConfig(**WHISPER | dict(max_source_positions=positions), attn_implementation="eager")
    encoder = WhisperEncoder(audio)
    encoder.load_state_dict(own)

    class Projector(torch.nn.Module):
        def forward(self, x):
            return project(x, tensors)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.config = transformers.PretrainedConfig()
            self.config.audio_config, self.config.text_config = audio, transformers.LlamaConfig(vocab_size=384)
            self.encoder, self.multi_modal_projector = encoder, Projector()

        def forward(self, input_ids, use_cache, input_features):
            x = F.gelu(encoder.conv2(F.gelu(encoder.conv1(input_features)))).transpose(1, 2)
            x = x + encoder.embed_positions.weight[:x.shape[1]]
            for layer in encoder.layers:
                x = layer(x, None)
                x = x if torch.is_tensor(x) else x[0]
            self.multi_modal_projector(encoder.layer_norm(x))
            return transformers.modeling_outputs.CausalLMOutput(logits=torch.zeros(1, input_ids.shape[1], 384))

    return Model()


def grid_look(module: str, name: str, size: dict, patch_size: int = 4, **more):
    """`look` of a recipe (vision.py) for models whose inputs are patches and their grid. Arguments are the class of the preprocessor,
    its bounds in pixels and further options."""
    def look(model, image, processor):
        import importlib
        of = getattr(importlib.import_module(f"transformers.models.{module}"), name)
        made = of(size=size, patch_size=patch_size, merge_size=2, **more, **processor)(image, return_tensors="pt")
        out = model.model.get_image_features(made["pixel_values"], made["image_grid_thw"], return_dict=True)
        rows = out.pooler_output
        rows = rows[0] if isinstance(rows, (tuple, list)) else rows
        deep = getattr(out, "deepstack_features", None) or []
        deep = [part[0] if isinstance(part, (tuple, list)) else part for part in deep]
        return rows.reshape(-1, rows.shape[-1]), deep, dict(made), [model.config.image_token_id] * rows.shape[-2]
    return dict(look=look, types=lambda types: dict(mm_token_type_ids=types.int()))


def with_pillow(processor):
    """A subclass of a preprocessor that resizes with Pillow instead of torchvision, whose pixels can differ by one."""
    import numpy as np
    import torch
    from PIL import Image
    from transformers.image_processing_backends import TorchvisionBackend

    def resize(_, image, size, resample=None, **__):
        made = [Image.fromarray(one.permute(1, 2, 0).numpy()).resize((size.width, size.height), int(resample))
                for one in image]
        return torch.stack([torch.tensor(np.asarray(one)).permute(2, 0, 1) for one in made])

    class Processor(processor):
        def __call__(self, *args, **keys):
            # Preprocessors call the method of their base class.
            with mock.patch.object(TorchvisionBackend, "resize", resize):
                return super().__call__(*args, **keys)
    return Processor
