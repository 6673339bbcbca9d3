"""State dicts of diffusers' models in the original layouts, written down by hand from the models' own repositories.

`ORIGINALS[family](state, config)` takes the state dict of a transformer or UNet of diffusers and returns the one that a
checkpoint of ComfyUI or of the model's authors has. The caller may check the result with diffusers' own conversion in the
other direction (`loaders/single_file_utils.py`).
"""

import re

import torch


class _Taken:
    """A state dict whose entries are taken one after another; the rest is an error."""

    def __init__(self, state):
        self.state, self.out = dict(state), {}

    def move(self, new: str, *olds: str, change=None):
        """Joins the rows of `olds`, for weights and biases that are there."""
        for end in (".weight", ".bias"):
            found = [self.state.pop(old + end) for old in olds if old + end in self.state]
            if not found:
                continue
            assert len(found) == len(olds), olds
            joined = torch.cat(found) if len(found) > 1 else found[0]
            self.out[new + end] = change(joined) if change else joined

    def rename(self, new: str, old: str):
        if old in self.state:
            self.out[new] = self.state.pop(old)

    def blocks(self, start: str) -> range:
        numbers = {int(name[len(start):].split(".")[0]) for name in self.state if name.startswith(start)}
        return range(max(numbers, default=-1) + 1)

    def done(self):
        assert not self.state, sorted(self.state)
        return {name: value.contiguous() for name, value in self.out.items()}


def swapped(weight):
    """The halves of a matrix exchanged: (scale, shift) of diffusers is (shift, scale) elsewhere."""
    first, second = weight.chunk(2, dim=0)
    return torch.cat([second, first])


def flux(state, config=None):
    taken = _Taken(state)
    move = taken.move
    for new, old in (("time_in", "timestep_embedder"), ("vector_in", "text_embedder"), ("guidance_in", "guidance_embedder")):
        move(f"{new}.in_layer", f"time_text_embed.{old}.linear_1")
        move(f"{new}.out_layer", f"time_text_embed.{old}.linear_2")
    move("txt_in", "context_embedder")
    move("img_in", "x_embedder")
    for i in taken.blocks("transformer_blocks."):
        new, old = f"double_blocks.{i}", f"transformer_blocks.{i}"
        move(f"{new}.img_attn.qkv", *(f"{old}.attn.to_{part}" for part in "qkv"))
        move(f"{new}.txt_attn.qkv", *(f"{old}.attn.add_{part}_proj" for part in "qkv"))
        for a, b in (("img_attn.proj", "attn.to_out.0"), ("txt_attn.proj", "attn.to_add_out"), ("img_mlp.0", "ff.net.0.proj"),
                     ("img_mlp.2", "ff.net.2"), ("txt_mlp.0", "ff_context.net.0.proj"), ("txt_mlp.2", "ff_context.net.2"),
                     ("img_mod.lin", "norm1.linear"), ("txt_mod.lin", "norm1_context.linear")):
            move(f"{new}.{a}", f"{old}.{b}")
        for a, b in (("img_attn.norm.query_norm", "norm_q"), ("img_attn.norm.key_norm", "norm_k"),
                     ("txt_attn.norm.query_norm", "norm_added_q"), ("txt_attn.norm.key_norm", "norm_added_k")):
            taken.rename(f"{new}.{a}.scale", f"{old}.attn.{b}.weight")
    for i in taken.blocks("single_transformer_blocks."):
        new, old = f"single_blocks.{i}", f"single_transformer_blocks.{i}"
        move(f"{new}.linear1", *(f"{old}.attn.to_{part}" for part in "qkv"), f"{old}.proj_mlp")
        move(f"{new}.linear2", f"{old}.proj_out")
        move(f"{new}.modulation.lin", f"{old}.norm.linear")
        taken.rename(f"{new}.norm.query_norm.scale", f"{old}.attn.norm_q.weight")
        taken.rename(f"{new}.norm.key_norm.scale", f"{old}.attn.norm_k.weight")
    move("final_layer.linear", "proj_out")
    move("final_layer.adaLN_modulation.1", "norm_out.linear", change=swapped)
    return taken.done()


def sd3(state, config=None):
    taken = _Taken(state)
    move = taken.move
    taken.rename("pos_embed", "pos_embed.pos_embed")
    move("x_embedder.proj", "pos_embed.proj")
    for new, old in (("t_embedder", "timestep_embedder"), ("y_embedder", "text_embedder")):
        move(f"{new}.mlp.0", f"time_text_embed.{old}.linear_1")
        move(f"{new}.mlp.2", f"time_text_embed.{old}.linear_2")
    move("context_embedder", "context_embedder")
    n_blocks = len(taken.blocks("transformer_blocks."))
    for i in range(n_blocks):
        new, old = f"joint_blocks.{i}", f"transformer_blocks.{i}"
        move(f"{new}.x_block.attn.qkv", *(f"{old}.attn.to_{part}" for part in "qkv"))
        move(f"{new}.x_block.attn2.qkv", *(f"{old}.attn2.to_{part}" for part in "qkv"))
        move(f"{new}.context_block.attn.qkv", *(f"{old}.attn.add_{part}_proj" for part in "qkv"))
        for a, b in (("x_block.attn.ln_q", "attn.norm_q"), ("x_block.attn.ln_k", "attn.norm_k"),
                     ("x_block.attn2.ln_q", "attn2.norm_q"), ("x_block.attn2.ln_k", "attn2.norm_k"),
                     ("context_block.attn.ln_q", "attn.norm_added_q"), ("context_block.attn.ln_k", "attn.norm_added_k"),
                     ("x_block.attn.proj", "attn.to_out.0"), ("x_block.attn2.proj", "attn2.to_out.0"),
                     ("context_block.attn.proj", "attn.to_add_out"), ("x_block.adaLN_modulation.1", "norm1.linear"),
                     ("x_block.mlp.fc1", "ff.net.0.proj"), ("x_block.mlp.fc2", "ff.net.2"),
                     ("context_block.mlp.fc1", "ff_context.net.0.proj"), ("context_block.mlp.fc2", "ff_context.net.2")):
            move(f"{new}.{a}", f"{old}.{b}")
        move(f"{new}.context_block.adaLN_modulation.1", f"{old}.norm1_context.linear",
             change=swapped if i + 1 == n_blocks else None)
    move("final_layer.linear", "proj_out")
    move("final_layer.adaLN_modulation.1", "norm_out.linear", change=swapped)
    return taken.done()


def wan(state, config=None):
    taken = _Taken(state)
    move = taken.move
    move("patch_embedding", "patch_embedding")
    old = "condition_embedder"
    for a, b in (("time_embedding.0", "time_embedder.linear_1"), ("time_embedding.2", "time_embedder.linear_2"),
                 ("text_embedding.0", "text_embedder.linear_1"), ("text_embedding.2", "text_embedder.linear_2"),
                 ("time_projection.1", "time_proj"), ("img_emb.proj.0", "image_embedder.norm1"),
                 ("img_emb.proj.1", "image_embedder.ff.net.0.proj"), ("img_emb.proj.3", "image_embedder.ff.net.2"),
                 ("img_emb.proj.4", "image_embedder.norm2")):
        move(a, f"{old}.{b}")
    for i in taken.blocks("blocks."):
        block = f"blocks.{i}"
        for a, b in (("self_attn", "attn1"), ("cross_attn", "attn2")):
            for c, d in (("q", "to_q"), ("k", "to_k"), ("v", "to_v"), ("o", "to_out.0"), ("norm_q", "norm_q"), ("norm_k", "norm_k"),
                         ("k_img", "add_k_proj"), ("v_img", "add_v_proj"), ("norm_k_img", "norm_added_k")):
                move(f"{block}.{a}.{c}", f"{block}.{b}.{d}")
        for a, b in (("ffn.0", "ffn.net.0.proj"), ("ffn.2", "ffn.net.2"), ("norm3", "norm2")):
            move(f"{block}.{a}", f"{block}.{b}")
        taken.rename(f"{block}.modulation", f"{block}.scale_shift_table")
    taken.rename("head.modulation", "scale_shift_table")
    move("head.head", "proj_out")
    return taken.done()


def unet(state, config):
    """A UNet of Stable Diffusion, whose blocks are numbered through."""
    n_resnets = config["layers_per_block"]
    inner = {"norm1": "in_layers.0", "conv1": "in_layers.2", "time_emb_proj": "emb_layers.1", "norm2": "out_layers.0",
             "conv2": "out_layers.3", "conv_shortcut": "skip_connection"}
    ends = {"conv_in": "input_blocks.0.0", "conv_norm_out": "out.0", "conv_out": "out.2", "time_embedding.linear_1": "time_embed.0",
            "time_embedding.linear_2": "time_embed.2", "add_embedding.linear_1": "label_emb.0.0",
            "add_embedding.linear_2": "label_emb.0.2"}
    has_attention = {int(name.split(".")[1]) for name in state if name.startswith("up_blocks.") and ".attentions." in name}
    out = {}
    for name, value in state.items():
        module, end = name.rsplit(".", 1)
        if module in ends:
            out[f"{ends[module]}.{end}"] = value
            continue
        part, *rest = module.split(".")
        if part == "mid_block":
            kind, j, *rest = rest
            new = f"middle_block.{1 if kind == 'attentions' else 2 * int(j)}"
        else:
            i, kind, j, *rest = rest
            i, j = int(i), int(j)
            step = n_resnets + 1
            place = {"attentions": 1, "resnets": 0}.get(kind)
            if part == "down_blocks":
                new = f"input_blocks.{i * step + j + 1}.{place}" if place is not None else f"input_blocks.{(i + 1) * step}.0"
            elif place is not None:
                new = f"output_blocks.{i * step + j}.{place}"
            else:
                new = f"output_blocks.{i * step + n_resnets}.{2 if i in has_attention else 1}"
            if kind == "downsamplers":
                rest = ["op"]
        if kind == "resnets":
            rest = [inner[rest[0]]]
        out[".".join([new, *rest, end])] = value
    return out


def same(state, config=None):
    """Qwen-Image has the names of diffusers."""
    return dict(state)


def hunyuan_video(state, config=None):
    """Only blocks and the final layer: what adapters change."""
    taken = _Taken({name: value for name, value in state.items() if re.match(r"(single_)?transformer_blocks|proj_out|norm_out", name)})
    move = taken.move
    for i in taken.blocks("transformer_blocks."):
        new, old = f"double_blocks.{i}", f"transformer_blocks.{i}"
        move(f"{new}.img_attn_qkv", *(f"{old}.attn.to_{part}" for part in "qkv"))
        move(f"{new}.txt_attn_qkv", *(f"{old}.attn.add_{part}_proj" for part in "qkv"))
        for a, b in (("img_attn_proj", "attn.to_out.0"), ("txt_attn_proj", "attn.to_add_out"), ("img_mlp.fc1", "ff.net.0.proj"),
                     ("img_mlp.fc2", "ff.net.2"), ("txt_mlp.fc1", "ff_context.net.0.proj"), ("txt_mlp.fc2", "ff_context.net.2"),
                     ("img_mod.linear", "norm1.linear"), ("txt_mod.linear", "norm1_context.linear")):
            move(f"{new}.{a}", f"{old}.{b}")
        for a, b in (("img_attn_q_norm", "norm_q"), ("img_attn_k_norm", "norm_k"), ("txt_attn_q_norm", "norm_added_q"),
                     ("txt_attn_k_norm", "norm_added_k")):
            move(f"{new}.{a}", f"{old}.attn.{b}")
    for i in taken.blocks("single_transformer_blocks."):
        new, old = f"single_blocks.{i}", f"single_transformer_blocks.{i}"
        move(f"{new}.linear1", *(f"{old}.attn.to_{part}" for part in "qkv"), f"{old}.proj_mlp")
        move(f"{new}.linear2", f"{old}.proj_out")
        move(f"{new}.modulation.linear", f"{old}.norm.linear")
        for part in "qk":
            move(f"{new}.{part}_norm", f"{old}.attn.norm_{part}")
    move("final_layer.linear", "proj_out")
    move("final_layer.adaLN_modulation.1", "norm_out.linear", change=swapped)
    return taken.done()


ORIGINALS = {"flux": flux, "sd3": sd3, "wan": wan, "sd1": unet, "sdxl": unet, "qwen_image": same, "hyvid": hunyuan_video}
