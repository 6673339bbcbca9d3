"""Makes golden/diffusion-layouts/NAME.safetensors: tiny checkpoints of diffusion models in the layout of diffusers, and NAME.json with
the names and shapes of the original layout.

The original layout is written by hand from the models' own repositories; diffusers converts it with the functions that its
`from_single_file` calls. Sizes that these functions state (3072 of Flux, 2304 and 768 of Lumina 2) are replaced by those of the tiny
models. Values are those of `normal` in f16; the seed is the place in the list.

Needs torch and diffusers 0.39.0, for Flux.3 diffusers 0.42.1.
"""

import inspect
import json

import numpy as np

from data import normal

D = 16  # width


def linear(name, out, inner, bias=True):
    return [(f"{name}.weight", [out, inner])] + ([(f"{name}.bias", [out])] if bias else [])


def vector(name, n=8):
    return [(name, [n])]


def mlp(name, inner, ends=("0", "2")):
    return linear(f"{name}.{ends[0]}", D, inner) + linear(f"{name}.{ends[1]}", D, D)


def flux_blocks(bias, names, i=0):
    """Blocks of Flux without modulation."""
    rows = []
    for part in ("img", "txt"):
        block = f"double_blocks.{i}.{part}"
        rows += linear(f"{block}_attn.qkv", 3 * D, D, bias) + linear(f"{block}_attn.proj", D, D, bias)
        rows += vector(f"{block}_attn.norm.query_norm.scale") + vector(f"{block}_attn.norm.key_norm.scale")
        rows += linear(f"{block}_mlp.0", 4 * D, D, bias) + linear(f"{block}_mlp.2", D, 4 * D, bias)
        rows += linear(f"{block}_mod.lin", 6 * D, D) if "mod" in names else []
    block = f"single_blocks.{i}"
    rows += linear(f"{block}.linear1", 7 * D, D, bias) + linear(f"{block}.linear2", D, 5 * D, bias)
    rows += vector(f"{block}.norm.query_norm.scale") + vector(f"{block}.norm.key_norm.scale")
    return rows + (linear(f"{block}.modulation.lin", 3 * D, D) if "mod" in names else [])


def flux():
    rows = linear("img_in", D, 8) + linear("txt_in", D, 12)
    for name in ("time_in", "vector_in", "guidance_in"):
        rows += mlp(name, 8, ("in_layer", "out_layer"))
    rows += flux_blocks(True, ["mod"]) + flux_blocks(True, ["mod"], 1)
    return rows + linear("final_layer.linear", 8, D) + linear("final_layer.adaLN_modulation.1", 2 * D, D)


def chroma():
    guidance = "distilled_guidance_layer"
    rows = linear("img_in", D, 8) + linear("txt_in", D, 12) + linear(f"{guidance}.in_proj", D, 8) + linear(f"{guidance}.out_proj", D, D)
    rows += mlp(f"{guidance}.layers.0", D, ("in_layer", "out_layer")) + vector(f"{guidance}.norms.0.scale", D)
    return rows + flux_blocks(True, []) + linear("final_layer.linear", 8, D)


def flux2():
    rows = linear("img_in", D, 8, False) + linear("txt_in", D, 12, False)
    for name in ("time_in", "guidance_in"):
        rows += linear(f"{name}.in_layer", D, 8, False) + linear(f"{name}.out_layer", D, D, False)
    for name in ("double_stream_modulation_img", "double_stream_modulation_txt", "single_stream_modulation"):
        rows += linear(f"{name}.lin", 6 * D, D, False)
    return rows + flux_blocks(False, []) + linear("final_layer.linear", 8, D, False) + linear("final_layer.adaLN_modulation.1", 2 * D, D, False)


def flux3():
    streams = ("image", "image_cond", "txt")
    rows = linear("emb_in.image", D, 8, False) + linear("emb_in.image_cond", D, 8, False) + linear("txt_in", D, 12, False)
    rows += linear("time_in.in_layer", D, 8, False) + linear("time_in.out_layer", D, D, False)
    for name in ("early", "single"):
        for stream in streams:
            rows += linear(f"{name}_stream_modulations.{stream}.lin", 3 * D, D, False)
    for name in ("content_mode_blocks.image", "content_mode_blocks.image_cond", "txt_mode_blocks", "single_blocks"):
        for i in range(2):
            block = f"{name}.{i}"
            for part in ("q_proj", "k_proj", "v_proj", "attn_out"):
                rows += linear(f"{block}.{part}", D, D, False)
            rows += linear(f"{block}.mlp_in", 4 * D, D, False) + linear(f"{block}.mlp_out", D, 2 * D, False)
            rows += vector(f"{block}.norm.query_norm.scale") + vector(f"{block}.norm.key_norm.scale")
    final = "final_layer.image"
    return rows + linear(f"{final}.linear", 8, D, False) + linear(f"{final}.adaLN_modulation.1", 2 * D, D, False)


def sd3():
    rows = [("pos_embed", [1, 36, D])] + [("x_embedder.proj.weight", [D, 4, 2, 2]), ("x_embedder.proj.bias", [D])]
    rows += mlp("t_embedder.mlp", 8) + mlp("y_embedder.mlp", 8) + linear("context_embedder", D, 12)
    for i in range(2):
        for part in ("x_block", "context_block"):
            block, last = f"joint_blocks.{i}.{part}", i == 1 and part == "context_block"
            for attention in ["attn", "attn2"] if part == "x_block" and i == 0 else ["attn"]:
                rows += linear(f"{block}.{attention}.qkv", 3 * D, D) + vector(f"{block}.{attention}.ln_q.weight") + vector(f"{block}.{attention}.ln_k.weight")
                rows += [] if last else linear(f"{block}.{attention}.proj", D, D)
            rows += linear(f"{block}.adaLN_modulation.1", (2 if last else 6) * D, D)
            rows += [] if last else linear(f"{block}.mlp.fc1", 4 * D, D) + linear(f"{block}.mlp.fc2", D, 4 * D)
    return rows + linear("final_layer.linear", 8, D) + linear("final_layer.adaLN_modulation.1", 2 * D, D)


def aura():
    rows = [("register_tokens", [1, 8, D]), ("positional_encoding", [1, 36, D])] + linear("init_x_linear", D, 8) + mlp("t_embedder.mlp", 8)
    rows += linear("cond_seq_linear", D, 12, False)
    for i in range(4):
        block = f"double_layers.{i}"
        for part in ("X", "C"):
            rows += linear(f"{block}.mlp{part}.c_fc1", D, D, False) + linear(f"{block}.mlp{part}.c_fc2", D, D, False)
            rows += linear(f"{block}.mlp{part}.c_proj", D, D, False) + linear(f"{block}.mod{part}.1", 2 * D, D, False)
        for name in ("w1q", "w1k", "w1v", "w1o", "w2q", "w2k", "w2v", "w2o"):
            rows += linear(f"{block}.attn.{name}", D, D, False)
    block = "single_layers.0"
    for name in ("mlp.c_fc1", "mlp.c_fc2", "mlp.c_proj", "modCX.1", "attn.w1q", "attn.w1k", "attn.w1v", "attn.w1o"):
        rows += linear(f"{block}.{name}", D, D, False)
    return rows + linear("final_linear", 8, D, False) + linear("modF.1", 2 * D, D, False)


def ltx():
    rows = linear("patchify_proj", D, 8) + linear("adaln_single.linear", 6 * D, D) + linear("proj_out", 8, D) + [("scale_shift_table", [2, D])]
    rows += mlp("adaln_single.emb.timestep_embedder", 8, ("linear_1", "linear_2")) + mlp("caption_projection", 12, ("linear_1", "linear_2"))
    for i in (0, 27):
        block = f"transformer_blocks.{i}"
        for attention in ("attn1", "attn2"):
            for name in ("to_q", "to_k", "to_v", "to_out.0"):
                rows += linear(f"{block}.{attention}.{name}", D, D)
            rows += vector(f"{block}.{attention}.q_norm.weight") + vector(f"{block}.{attention}.k_norm.weight")
        rows += linear(f"{block}.ff.net.0.proj", 4 * D, D) + linear(f"{block}.ff.net.2", D, 4 * D) + [(f"{block}.scale_shift_table", [6, D])]
    return rows


def hunyuan_video():
    rows = [("img_in.proj.weight", [D, 4, 1, 2, 2]), ("img_in.proj.bias", [D])] + linear("txt_in.input_embedder", D, 12)
    rows += mlp("txt_in.t_embedder.mlp", 8) + mlp("txt_in.c_embedder", 12, ("linear_1", "linear_2"))
    for i in range(2):
        block = f"txt_in.individual_token_refiner.blocks.{i}"
        rows += linear(f"{block}.self_attn_qkv", 3 * D, D) + linear(f"{block}.self_attn_proj", D, D) + linear(f"{block}.mlp.fc1", 4 * D, D)
        rows += linear(f"{block}.mlp.fc2", D, 4 * D) + linear(f"{block}.adaLN_modulation.1", 2 * D, D)
        for name in ("norm1", "norm2"):
            rows += vector(f"{block}.{name}.weight", D) + vector(f"{block}.{name}.bias", D)
    rows += mlp("time_in.mlp", 8) + mlp("guidance_in.mlp", 8) + mlp("vector_in", 8, ("in_layer", "out_layer"))
    for part in ("img", "txt"):
        block = f"double_blocks.0.{part}"
        rows += linear(f"{block}_attn_qkv", 3 * D, D) + linear(f"{block}_attn_proj", D, D) + linear(f"{block}_mlp.fc1", 4 * D, D)
        rows += linear(f"{block}_mlp.fc2", D, 4 * D) + linear(f"{block}_mod.linear", 6 * D, D)
        rows += vector(f"{block}_attn_q_norm.weight") + vector(f"{block}_attn_k_norm.weight")
    rows += linear("single_blocks.0.linear1", 7 * D, D) + linear("single_blocks.0.linear2", D, 5 * D) + linear("single_blocks.0.modulation.linear", 3 * D, D)
    rows += vector("single_blocks.0.q_norm.weight") + vector("single_blocks.0.k_norm.weight")
    return rows + linear("final_layer.linear", 8, D) + linear("final_layer.adaLN_modulation.1", 2 * D, D)


def wan():
    rows = [("patch_embedding.weight", [D, 4, 1, 2, 2]), ("patch_embedding.bias", [D]), ("head.modulation", [1, 2, D])] + linear("head.head", 8, D)
    rows += mlp("text_embedding", 12) + mlp("time_embedding", 8) + linear("time_projection.1", 6 * D, D)
    for name in ("0", "4"):
        rows += vector(f"img_emb.proj.{name}.weight", D) + vector(f"img_emb.proj.{name}.bias", D)
    rows += linear("img_emb.proj.1", D, D) + linear("img_emb.proj.3", D, D)
    for i in range(2):
        block = f"blocks.{i}"
        for attention in ("self_attn", "cross_attn"):
            for name in ["q", "k", "v", "o"] + (["k_img", "v_img"] if attention == "cross_attn" else []):
                rows += linear(f"{block}.{attention}.{name}", D, D)
            for name in ["norm_q", "norm_k"] + (["norm_k_img"] if attention == "cross_attn" else []):
                rows += vector(f"{block}.{attention}.{name}.weight", D)
        rows += linear(f"{block}.ffn.0", 4 * D, D) + linear(f"{block}.ffn.2", D, 4 * D) + [(f"{block}.modulation", [1, 6, D])]
        rows += vector(f"{block}.norm3.weight", D) + vector(f"{block}.norm3.bias", D)
    return rows


def lumina(kv, adaln, has_pads):
    width, qkv = 24, 24 + 2 * kv
    rows = linear("x_embedder", width, 8) + vector("cap_embedder.0.weight", 12) + linear("cap_embedder.1", width, 12) + linear("t_embedder.mlp.0", D, 8)
    rows += linear("t_embedder.mlp.2", D, D) + linear("final_layer.linear", 8, width) + linear("final_layer.adaLN_modulation.1", width, D)
    for block in ("layers.0", "layers.1", "noise_refiner.0", "context_refiner.0", "context_refiner.1"):
        rows += linear(f"{block}.attention.qkv", qkv, width, False) + linear(f"{block}.attention.out", width, width, False)
        rows += vector(f"{block}.attention.q_norm.weight") + vector(f"{block}.attention.k_norm.weight")
        for name in ("w1", "w3"):
            rows += linear(f"{block}.feed_forward.{name}", 2 * width, width, False)
        rows += linear(f"{block}.feed_forward.w2", width, 2 * width, False)
        for name in ("attention_norm1", "attention_norm2", "ffn_norm1", "ffn_norm2"):
            rows += vector(f"{block}.{name}.weight", width)
        rows += [] if block.startswith("context") else linear(f"{block}.adaLN_modulation.{adaln}", 4 * width, D)
    return rows + ([("x_pad_token", [1, width]), ("cap_pad_token", [1, width])] if has_pads else [])


# Name, architecture, original layout, function of diffusers, sizes in its text that are replaced.
LAYOUTS = [
    ("flux", "flux", flux, "convert_flux_transformer_checkpoint_to_diffusers", {"3072": D}),
    ("chroma", "flux", chroma, "convert_chroma_transformer_checkpoint_to_diffusers", {"3072": D}),
    ("flux2", "flux", flux2, "convert_flux2_transformer_checkpoint_to_diffusers", {}),
    ("flux3", "flux3", flux3, "convert_flux3_transformer_checkpoint_to_diffusers", {}),
    ("sd3", "sd3", sd3, "convert_sd3_transformer_checkpoint_to_diffusers", {}),
    ("aura", "aura", aura, "convert_auraflow_transformer_checkpoint_to_diffusers", {}),
    ("ltx", "ltxv", ltx, "convert_ltx_transformer_checkpoint_to_diffusers", {}),
    ("hunyuan_video", "hyvid", hunyuan_video, "convert_hunyuan_video_transformer_to_diffusers", {"3072": D}),
    ("wan", "wan", wan, "convert_wan_transformer_to_diffusers", {}),
    ("lumina2", "lumina2", lambda: lumina(8, 1, False), "convert_lumina2_to_diffusers", {"2304": 24, "768": 8}),
    ("z_image", "lumina2", lambda: lumina(24, 0, True), "convert_z_image_transformer_checkpoint_to_diffusers", {}),
]


def make_one(ctx, name, arch, rows, function, sizes):
    import torch
    from diffusers.loaders import single_file_utils
    from safetensors.torch import save_file
    text = inspect.getsource(getattr(single_file_utils, function))
    for old, new in sizes.items():
        assert old in text
        text = text.replace(old, str(new))
    scope = dict(vars(single_file_utils))
    exec(text, scope)
    state = {}
    for seed, (tensor, shape) in enumerate(rows):
        values = normal(seed, np.arange(int(np.prod(shape)), dtype=np.uint64)).astype("<f2")
        state[tensor] = torch.from_numpy(values.reshape(shape))
    made = scope[function](dict(state))
    assert sum(value.numel() for value in made.values()) == sum(value.numel() for value in state.values())
    folder = ctx.golden / "diffusion-layouts"
    folder.mkdir(exist_ok=True)
    save_file({key: value.clone().contiguous() for key, value in made.items()}, folder / f"{name}.safetensors")
    (folder / f"{name}.safetensors").chmod(0o644)
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    (folder / f"{name}.json").write_text(f'{{"arch": "{arch}", "tensors": [\n{lines}]}}\n')


def make(ctx) -> None:
    for name, arch, rows, function, sizes in LAYOUTS:
        if ctx.wants(name):
            make_one(ctx, name, arch, rows(), function, sizes)
