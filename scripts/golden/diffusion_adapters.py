"""Makes golden/diffusion-adapters/: adapters of diffusion models, and what diffusers makes of them.

Needs torch, diffusers 0.39 (0.42.1 for the folders of LoHa, LoKr, OFT and Tucker cores), peft 0.21.2, accelerate and lycoris-lora 4.1.3.

`names.tsv` lists which rows of the tensors of original layouts belong to which modules of diffusers: the conversions of
`loaders/single_file_utils.py` are given tensors of row numbers. Columns: architecture, tensor, rows and columns of the tensor,
module, first and end row of the tensor, first row of the module.

Each folder holds `base.safetensors` (the tensors of a tiny model that the adapter changes, in the original layout),
`adapter.safetensors`, `expected.safetensors` (the same tensors with the adapter) and `case.json` (architecture, scale). Expected values
are those of `fuse_lora` in f32 of diffusers' model, which loads the adapter file by its own conversion, brought to the original layout by
`scripts/diffusion/originals.py`; for whole differences, which diffusers drops, they are computed here. diffusers does not read LoHa, LoKr
and OFT: for folders of PEFT (`adapter/`), they are merged by PEFT's own layers, for files of LyCORIS by `lycoris.functional`.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "diffusion"))
from originals import ORIGINALS  # noqa: E402


def make(ctx) -> None:
    out = ctx.golden / "diffusion-adapters"
    out.mkdir(exist_ok=True)
    names(out / "names.tsv")
    for name, case in CASES.items():
        if ctx.wants(name):
            torch.manual_seed(len(name) * 1009 + 7)
            write(out / name, case)


# Names ------------------------------------------------------------------------------------------------------------------------

def tagged(shapes):
    """Tensors whose first column is the number of the tensor and the row; all others are expanded from it."""
    tags = {}
    for number, (name, shape) in enumerate(shapes.items()):
        rows = torch.arange(shape[0], dtype=torch.float64) + number * 1e6
        tags[name] = rows.view(-1, *[1] * (len(shape) - 1)).expand(*shape)
    return tags


def names(path: Path) -> None:
    from diffusers import (FluxTransformer2DModel, HunyuanVideoTransformer3DModel, SD3Transformer2DModel, UNet2DConditionModel,
                           WanTransformer3DModel)
    from diffusers.loaders import single_file_utils as own

    unet = lambda state, config: own.convert_ldm_unet_checkpoint(  # noqa: E731
        {own.LDM_UNET_KEY + name: value for name, value in state.items()}, config)
    shape = dict(num_layers=2, attention_head_dim=128, num_attention_heads=24)
    models = {
        "flux": (FluxTransformer2DModel, dict(shape, num_single_layers=2, guidance_embeds=True),
                 own.convert_flux_transformer_checkpoint_to_diffusers),
        "sd3": (SD3Transformer2DModel, dict(num_layers=3, attention_head_dim=64, num_attention_heads=2, caption_projection_dim=128,
                joint_attention_dim=128, pooled_projection_dim=128, dual_attention_layers=(0,), qk_norm="rms_norm"),
                own.convert_sd3_transformer_checkpoint_to_diffusers),
        "wan": (WanTransformer3DModel, dict(num_layers=2, num_attention_heads=2, attention_head_dim=64, ffn_dim=256, image_dim=64,
                added_kv_proj_dim=128, text_dim=96, freq_dim=64), own.convert_wan_transformer_to_diffusers),
        "hyvid": (HunyuanVideoTransformer3DModel, dict(num_layers=2, num_single_layers=2, num_attention_heads=24,
                  attention_head_dim=128, num_refiner_layers=1), own.convert_hunyuan_video_transformer_to_diffusers),
        "sd1": (UNet2DConditionModel, dict(block_out_channels=(32, 64, 96, 128), cross_attention_dim=32, norm_num_groups=16,
                attention_head_dim=8), unet),
        "sdxl": (UNet2DConditionModel, dict(block_out_channels=(32, 64, 96), cross_attention_dim=32, norm_num_groups=16,
                 attention_head_dim=(2, 4, 8), use_linear_projection=True, addition_embed_type="text_time",
                 addition_time_embed_dim=32, projection_class_embeddings_input_dim=256, transformer_layers_per_block=(1, 2, 3),
                 down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
                 up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D")), unet),
    }
    lines = []
    for family, (model_class, config, convert) in models.items():
        with torch.device("meta"):
            model = model_class(**config)
        # The names of the original layout; their rows are checked by diffusers' conversion alone.
        with torch.device("cpu"):
            like = {name: torch.empty(value.shape, device="meta") for name, value in model.state_dict().items()}
            original = {name: tuple(value.shape) for name, value in ORIGINALS[family](like, dict(model.config)).items()}
        tags = tagged(original)
        order = list(tags)
        converted = convert({name: value for name, value in tags.items()} if family != "hyvid" else dict(tags), config=dict(model.config)) \
            if family not in ("sd1", "sdxl") else convert(tags, dict(model.config))
        expected = {name for name in like if family != "hyvid" or name.startswith(("transformer_", "single_", "proj_out", "norm_out"))}
        assert set(converted) == expected, (family, set(converted) ^ expected)
        for module, value in sorted(converted.items()):
            # Vectors other than biases have no pairs.
            if not module.endswith(".weight") or value.dim() < 2:
                continue
            rows = value.reshape(value.shape[0], -1)[:, 0].to(torch.int64)
            tensor = order[int(rows[0]) // 1_000_000]
            rows = rows % 1_000_000
            breaks = [0, *[at for at in range(1, len(rows)) if rows[at] != rows[at - 1] + 1], len(rows)]
            n_rows, *rest = original[tensor]
            n_columns = int(torch.tensor(rest).prod())
            for first, end in zip(breaks, breaks[1:]):
                begin = int(rows[first])
                lines.append((family, tensor, n_rows, n_columns, module, begin, begin + end - first, first))
    path.write_text("".join("\t".join(map(str, line)) + "\n" for line in lines))


# Merges -----------------------------------------------------------------------------------------------------------------------

def tiny_flux():
    from diffusers import FluxTransformer2DModel

    return FluxTransformer2DModel(patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=8, num_attention_heads=2,
        joint_attention_dim=12, pooled_projection_dim=8, guidance_embeds=True, axes_dims_rope=[2, 2, 4])


def tiny_wan():
    from diffusers import WanTransformer3DModel

    return WanTransformer3DModel(num_layers=1, num_attention_heads=2, attention_head_dim=8, ffn_dim=24, text_dim=12, freq_dim=8,
        in_channels=4, out_channels=4)


def tiny_unet():
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(sample_size=8, block_out_channels=(8, 16), cross_attention_dim=12, norm_num_groups=4, attention_head_dim=2,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"))


def pair(state, module, down, up, rank, inputs, outputs, alpha=None, kernel=()):
    state[f"{module}.{down}.weight"] = torch.randn(rank, inputs, *kernel) * 0.3
    state[f"{module}.{up}.weight"] = torch.randn(outputs, rank, *[1] * len(kernel)) * 0.3
    if alpha is not None:
        state[f"{module}.alpha"] = torch.tensor(float(alpha))


def flux_diffusers(dora=False):
    state = {}
    modules = [("transformer_blocks.0.attn.to_q", 16, 16), ("transformer_blocks.0.attn.to_v", 16, 16),
               ("transformer_blocks.0.attn.add_k_proj", 16, 16), ("transformer_blocks.0.ff.net.0.proj", 16, 64),
               ("single_transformer_blocks.0.attn.to_k", 16, 16), ("single_transformer_blocks.0.proj_mlp", 16, 64),
               ("single_transformer_blocks.0.proj_out", 80, 16), ("norm_out.linear", 16, 32), ("x_embedder", 4, 16)]
    if dora:
        modules = [("transformer_blocks.0.attn.to_out.0", 16, 16), ("single_transformer_blocks.0.proj_out", 80, 16)]
    for module, inputs, outputs in modules:
        pair(state, f"transformer.{module}", "lora_A", "lora_B", 3, inputs, outputs)
        if dora:
            state[f"transformer.{module}.lora_magnitude_vector"] = torch.rand(outputs) + 0.5
    config = {"transformer.r": 3, "transformer.lora_alpha": 5, "transformer.rank_pattern": {}, "transformer.alpha_pattern": {},
              "transformer.use_dora": dora,
              "transformer.target_modules": [module for module, *_ in modules]}
    return state, {} if dora else {"lora_adapter_metadata": json.dumps(config)}


def flux_kohya():
    state = {}
    for module, inputs, outputs, alpha in (("double_blocks_0_img_attn_qkv", 16, 48, 1), ("double_blocks_0_img_attn_proj", 16, 16, 2),
                                           ("double_blocks_0_img_mlp_0", 16, 64, 4), ("double_blocks_0_img_mlp_2", 64, 16, 4),
                                           ("double_blocks_0_img_mod_lin", 16, 96, 0.5), ("double_blocks_0_txt_attn_qkv", 16, 48, 1),
                                           ("double_blocks_0_txt_attn_proj", 16, 16, 2), ("double_blocks_0_txt_mlp_0", 16, 64, 4),
                                           ("double_blocks_0_txt_mlp_2", 64, 16, 4), ("double_blocks_0_txt_mod_lin", 16, 96, 0.5),
                                           ("single_blocks_0_linear2", 80, 16, 3), ("single_blocks_0_modulation_lin", 16, 48, 3)):
        pair(state, f"lora_unet_{module}", "lora_down", "lora_up", 4, inputs, outputs, alpha)
    # Not in f16: diffusers multiplies these tensors by the factor in their own type.
    return state, {}


def flux_xlabs():
    state = {}
    for n in "12":
        pair(state, f"double_blocks.0.processor.qkv_lora{n}", "down", "up", 2, 16, 48)
        pair(state, f"double_blocks.0.processor.proj_lora{n}", "down", "up", 2, 16, 16)
    return state, {}


def wan_original():
    state = {}
    for module, inputs, outputs in (("self_attn.q", 16, 16), ("self_attn.k", 16, 16), ("self_attn.v", 16, 16), ("self_attn.o", 16, 16),
                                    ("cross_attn.q", 16, 16), ("cross_attn.k", 16, 16), ("cross_attn.v", 16, 16), ("cross_attn.o", 16, 16),
                                    ("ffn.0", 16, 24), ("ffn.2", 24, 16)):
        pair(state, f"diffusion_model.blocks.0.{module}", "lora_A", "lora_B", 2, inputs, outputs)
    return {name: value.bfloat16() for name, value in state.items()}, {}


def unet_kohya():
    state = {}
    start = "lora_unet_down_blocks_0_"
    block = start + "attentions_0_transformer_blocks_0_"
    for module, inputs, outputs, kernel in ((block + "attn1_to_q", 8, 8, ()), (block + "attn2_to_k", 12, 8, ()),
            (block + "attn2_to_out_0", 8, 8, ()), (block + "ff_net_0_proj", 8, 64, ()), (start + "attentions_0_proj_in", 8, 8, (1, 1)),
            (start + "resnets_0_conv1", 8, 8, (3, 3)), (start + "resnets_1_conv2", 8, 8, (3, 3)),
            (start + "downsamplers_0_conv", 8, 8, (3, 3)), ("lora_unet_up_blocks_1_resnets_0_conv_shortcut", 24, 8, (1, 1)),
            ("lora_unet_mid_block_attentions_0_transformer_blocks_0_attn1_to_v", 16, 16, ())):
        pair(state, module, "lora_down", "lora_up", 2, inputs, outputs, 1.5, kernel)
    return state, {}


UNET_BLOCK = "down_blocks.0.attentions.0.transformer_blocks.0."
UNET_MODULES = [UNET_BLOCK + "attn1.to_q", UNET_BLOCK + "attn2.to_k", UNET_BLOCK + "ff.net.0.proj", "down_blocks.0.attentions.0.proj_in",
                "down_blocks.0.resnets.0.conv1", "down_blocks.0.downsamplers.0.conv"]
FLUX_MODULES = ["transformer_blocks.0.attn.to_q", "transformer_blocks.0.attn.to_v", "transformer_blocks.0.attn.to_out.0",
                "transformer_blocks.0.ff.net.0.proj", "single_transformer_blocks.0.attn.to_k", "single_transformer_blocks.0.proj_mlp",
                "norm_out.linear"]


def peft_folder(kind, modules, **options):
    """An adapter that PEFT saves, and the model that its layers merge."""
    def merge(model, folder, scale):
        import peft

        config = getattr(peft, kind)(target_modules=modules, init_weights=False, **options)
        tuned = peft.PeftModel(model, config)
        with torch.no_grad():
            for name, value in tuned.named_parameters():
                if "hada_" in name or "lokr_" in name:
                    value.copy_(torch.randn(value.shape) * 0.4)
        tuned.save_pretrained(folder / "adapter")
        (folder / "adapter" / "README.md").unlink(missing_ok=True)
        # PEFT keeps the modules as a set, in any order.
        path = folder / "adapter" / "adapter_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"target_modules": modules}, indent=2) + "\n")
        for module in tuned.modules():
            if hasattr(module, "scale_layer"):
                module.scale_layer(scale)
        return tuned.merge_and_unload().state_dict()
    return merge


def lycoris_file(changes, start="lycoris_"):
    """A file of LyCORIS: `changes` are (module, function from its weight to its tensors and the change, or a function of the scale to the new
    weight)."""
    def merge(model, folder, scale):
        state, after = {}, dict(model.state_dict())
        for module, make in changes:
            weight = after[f"{module}.weight"]
            tensors, delta = make(weight)
            state |= {f"{start}{module.replace('.', '_')}.{name}": value.contiguous() for name, value in tensors.items()}
            after[f"{module}.weight"] = delta(scale) if callable(delta) else weight + scale * delta.reshape(weight.shape)
        save_file(state, folder / "adapter.safetensors")
        return after
    return merge


def randoms(**shapes):
    return {name: torch.randn(*shape) * 0.4 for name, shape in shapes.items()}


def loha(rank, alpha, tucker=False):
    def make(weight):
        from lycoris.functional.loha import diff_weight

        rows, inputs, *kernel = weight.shape
        if tucker:
            core = (rank, rank, *kernel)
            state = randoms(hada_t1=core, hada_t2=core, hada_w1_a=(rank, rows), hada_w1_b=(rank, inputs), hada_w2_a=(rank, rows),
                            hada_w2_b=(rank, inputs))
        else:
            columns = weight.numel() // rows
            state = randoms(hada_w1_a=(rows, rank), hada_w1_b=(rank, columns), hada_w2_a=(rows, rank), hada_w2_b=(rank, columns))
        names = ("hada_w1_b", "hada_w1_a", "hada_w2_b", "hada_w2_a", "hada_t1", "hada_t2")
        delta = diff_weight(*[state.get(name) for name in names], gamma=torch.tensor(alpha / rank), backend="torch")
        return state | {"alpha": torch.tensor(float(alpha))}, delta
    return make


def lokr(left, rank, alpha, both=False, whole=False, tucker=False):
    """`left` are the rows and columns of the left matrix."""
    def make(weight):
        from lycoris.functional.lokr import kron_weight

        rows, inputs, *kernel = weight.shape
        (a, c), (b, d) = left, (rows // left[0], inputs // left[1])
        state = randoms(lokr_w1_a=(a, rank), lokr_w1_b=(rank, c)) if both else randoms(lokr_w1=(a, c))
        if whole:
            state |= randoms(lokr_w2=(b, d, *kernel))
        elif tucker:
            state |= randoms(lokr_t2=(rank, rank, *kernel), lokr_w2_a=(rank, b), lokr_w2_b=(rank, d))
        else:
            state |= randoms(lokr_w2_a=(b, rank), lokr_w2_b=(rank, weight.numel() // (rows * c)))
        names = ("lokr_w1", "lokr_w1_a", "lokr_w1_b", "lokr_w2", "lokr_w2_a", "lokr_w2_b", "lokr_t2")
        # LyCORIS applies no factor if both matrices are whole.
        scale = 1.0 if whole and not both else alpha / rank
        delta = kron_weight(*[state.get(name) for name in names], scale=scale, backend="torch")
        return state | {"alpha": torch.tensor(float(alpha))}, delta
    return make


def locon(rank, alpha):
    def make(weight):
        from lycoris.functional.locon import diff_weight

        rows, inputs, *kernel = weight.shape
        ones = [1] * len(kernel)
        state = {"lora_down.weight": torch.randn(rank, inputs, *ones) * 0.4, "lora_up.weight": torch.randn(rows, rank, *ones) * 0.4,
                 "lora_mid.weight": torch.randn(rank, rank, *kernel) * 0.4}
        delta = diff_weight(state["lora_down.weight"], state["lora_up.weight"], state["lora_mid.weight"], gamma=alpha / rank, backend="torch")
        return state | {"alpha": torch.tensor(float(alpha))}, delta
    return make


def oft(size, constraint=0.0, rescale=False):
    def make(weight):
        from lycoris.modules.diag_oft import DiagOFTModule

        rows, inputs, *kernel = weight.shape
        state = {"oft_blocks": torch.randn(rows // size, size, size) * 0.2, "alpha": torch.tensor(float(constraint))}
        if rescale:
            state["rescale"] = 1 + torch.randn(rows, *[1] * (len(kernel) + 1)) * 0.1
        layer = torch.nn.Conv2d(inputs, rows, kernel) if kernel else torch.nn.Linear(inputs, rows)
        layer.weight.copy_(weight)
        module = DiagOFTModule.make_module_from_state_dict("x", layer, state["oft_blocks"], state.get("rescale"), state["alpha"])
        assert module.block_size == size
        return state, lambda scale: module.get_merged_weight(scale)[0]
    return make


def joint_lokr(model, folder, scale):
    """A LoKr of the joint matrix of the original layout, for a checkpoint in the layout of diffusers."""
    after = dict(model.state_dict())
    names = [f"transformer_blocks.0.attn.to_{part}.weight" for part in "qkv"]
    joint = torch.cat([after[name] for name in names])
    state, delta = lokr((6, 2), 3, 2)(joint)
    save_file({f"lora_unet_double_blocks_0_img_attn_qkv.{name}": value for name, value in state.items()}, folder / "adapter.safetensors")
    return after | dict(zip(names, (joint + scale * delta).chunk(3)))


UNET_LYCORIS = [
    (UNET_BLOCK + "attn1.to_q", loha(2, 1)), (UNET_BLOCK + "attn2.to_k", lokr((2, 3), 1, 1)), (UNET_BLOCK + "ff.net.0.proj", loha(3, 4)),
    ("down_blocks.0.attentions.0.proj_in", lokr((4, 2), 2, 3, whole=True)), ("down_blocks.0.resnets.0.conv1", loha(2, 3)),
    ("down_blocks.0.resnets.0.conv2", loha(2, 3, tucker=True)), ("down_blocks.0.resnets.1.conv1", lokr((2, 4), 2, 3)),
    ("down_blocks.0.resnets.1.conv2", lokr((2, 4), 2, 3, tucker=True)), ("down_blocks.0.downsamplers.0.conv", lokr((4, 2), 2, 3, whole=True)),
    ("up_blocks.1.resnets.0.conv1", locon(3, 2)),
]
FLUX_LYCORIS = [
    ("transformer_blocks.0.attn.to_q", lokr((4, 2), 2, 3)), ("transformer_blocks.0.attn.to_k", loha(3, 2)),
    ("transformer_blocks.0.attn.to_v", lokr((2, 8), 2, 3, both=True)), ("transformer_blocks.0.attn.add_k_proj", lokr((8, 8), 1, 1, whole=True)),
    ("single_transformer_blocks.0.proj_mlp", lokr((8, 4), 2, 1)), ("single_transformer_blocks.0.proj_out", lokr((16, 1), 2, 1)),
    ("norm_out.linear", loha(2, 1)),
]

UNET_OFT = [
    (UNET_BLOCK + "attn1.to_q", oft(2)), (UNET_BLOCK + "ff.net.0.proj", oft(8, rescale=True)),
    ("down_blocks.0.resnets.0.conv1", oft(2, constraint=0.02)), ("down_blocks.0.downsamplers.0.conv", oft(2, rescale=True)),
]
FLUX_OFT = [
    ("transformer_blocks.0.attn.to_q", oft(4)), ("transformer_blocks.0.attn.to_v", oft(2, constraint=0.05)),
    ("transformer_blocks.0.ff.net.0.proj", oft(8, constraint=9.0)), ("single_transformer_blocks.0.proj_mlp", oft(4, rescale=True)),
    ("norm_out.linear", oft(4)),
]

CASES = {
    "flux-diffusers": dict(family="flux", model=tiny_flux, adapter=flux_diffusers, scale=0.75),
    "flux-dora": dict(family="flux", model=tiny_flux, adapter=lambda: flux_diffusers(dora=True), scale=1.0),
    "flux-kohya": dict(family="flux", model=tiny_flux, adapter=flux_kohya, scale=1.0),
    # A checkpoint in the layout of diffusers: modules of the adapter are several of its tensors.
    "flux-kohya-split": dict(family="flux", model=tiny_flux, adapter=flux_kohya, scale=0.75, layout="qwen_image"),
    "flux-xlabs": dict(family="flux", model=tiny_flux, adapter=flux_xlabs, scale=-0.5),
    "wan-original": dict(family="wan", model=tiny_wan, adapter=wan_original, scale=1.0),
    "unet-kohya": dict(family="sd1", model=tiny_unet, adapter=unet_kohya, scale=0.5),
    "wan-differences": dict(family="wan", model=tiny_wan, scale=0.5, differences=["blocks.0.self_attn.q.weight", "blocks.0.self_attn.q.bias",
        "blocks.0.norm3.weight", "blocks.0.modulation", "patch_embedding.weight"]),
    "unet-loha-peft": dict(family="sd1", model=tiny_unet, scale=0.5, merge=peft_folder("LoHaConfig", UNET_MODULES, r=3, alpha=2,
        use_effective_conv2d=True, alpha_pattern={"attn1.to_q": 5}, rank_pattern={"proj_in": 2})),
    "unet-lokr-peft": dict(family="sd1", model=tiny_unet, scale=0.5, merge=peft_folder("LoKrConfig", UNET_MODULES, r=1, alpha=2,
        use_effective_conv2d=True, decompose_both=True)),
    "flux-lokr-peft": dict(family="flux", model=tiny_flux, scale=0.75, merge=peft_folder("LoKrConfig", FLUX_MODULES, r=3, alpha=2,
        decompose_factor=2)),
    "unet-lycoris": dict(family="sd1", model=tiny_unet, scale=0.5, merge=lycoris_file(UNET_LYCORIS, "lora_unet_")),
    "flux-lycoris": dict(family="flux", model=tiny_flux, scale=0.75, merge=lycoris_file(FLUX_LYCORIS)),
    "unet-oft": dict(family="sd1", model=tiny_unet, scale=1.0, merge=lycoris_file(UNET_OFT, "lora_unet_")),
    "flux-oft": dict(family="flux", model=tiny_flux, scale=0.75, merge=lycoris_file(FLUX_OFT)),
    "flux-lokr-split": dict(family="flux", model=tiny_flux, scale=0.75, merge=joint_lokr, layout="qwen_image"),
}


def fused(family, model, adapter: Path, scale: float):
    """The state dict of diffusers' model with an adapter file, read as its pipeline reads it."""
    from diffusers import loaders

    kinds = {"flux": loaders.FluxLoraLoaderMixin, "wan": loaders.WanLoraLoaderMixin, "sd1": loaders.StableDiffusionLoraLoaderMixin}
    kind = kinds[family]
    if family == "sd1":
        state, alphas = kind.lora_state_dict(str(adapter.parent), weight_name=adapter.name, unet_config=model.config)
        kind.load_lora_into_unet(state, alphas, model, adapter_name="x")
    else:
        found = kind.lora_state_dict(str(adapter.parent), weight_name=adapter.name, return_lora_metadata=True,
                                     **({"return_alphas": True} if family == "flux" else {}))
        state, *alphas, metadata = found
        state = {name: value for name, value in state.items() if value is not None}
        alphas = {"network_alphas": alphas[0]} if alphas else {}
        kind.load_lora_into_transformer(state, transformer=model, adapter_name="x", metadata=metadata, **alphas)
    model.fuse_lora(lora_scale=scale)
    model.unload_lora()
    return model.state_dict()


def write(folder: Path, case) -> None:
    folder.mkdir(exist_ok=True)
    family, model = case["family"], case["model"]().float().eval()
    with torch.no_grad():
        for value in model.parameters():
            value.copy_(torch.randn(value.shape) * 0.2)
    original = ORIGINALS[case.get("layout", family)]
    config = dict(model.config)
    base = {name: value.clone() for name, value in original(model.state_dict(), config).items()}
    if names := case.get("differences"):
        adapter, after = {}, dict(base)
        for name in names:
            module, _, end = name.rpartition(".")
            new = {"weight": f"{module}.diff", "bias": f"{module}.diff_b"}.get(end, f"{name}.diff")
            adapter[f"diffusion_model.{new}"] = torch.randn(base[name].shape) * 0.1
            after[name] = base[name] + case["scale"] * adapter[f"diffusion_model.{new}"]
        save_file(adapter, folder / "adapter.safetensors")
    elif merge := case.get("merge"):
        with torch.no_grad():
            after = original(merge(model, folder, case["scale"]), config)
    else:
        state, metadata = case["adapter"]()
        save_file({name: value.contiguous() for name, value in state.items()}, folder / "adapter.safetensors", metadata=metadata or None)
        after = original(fused(family, model, folder / "adapter.safetensors", case["scale"]), config)
    changed = [name for name in base if not torch.equal(base[name], after[name])]
    assert changed
    save_file({name: base[name].contiguous() for name in changed}, folder / "base.safetensors")
    save_file({name: after[name].contiguous() for name in changed}, folder / "expected.safetensors")
    (folder / "case.json").write_text(json.dumps({"family": family, "scale": case["scale"]}) + "\n")
    assert load_file(folder / "expected.safetensors").keys() == set(changed)
