"""Makes golden/memory/: headers of models as wide as real ones, and the memory that libllama says they take.

Needs a C++ compiler. A header has the keys and tensors of a few layers of each kind; its data are a hole, which libllama never
reads (`no_alloc`), so that whole widths cost nothing. NAME.head is the file up to its data; expected.json has for each header and
use the buffers that libllama prints, in MiB as it prints them.
"""

import json
import math
import re
import subprocess

import numpy as np

PROGRAM = r"""
#include "llama.h"
#include <cstdio>
#include <cstdlib>

// FILE N_CTX N_SEQ KV_TYPE ALL_LOGITS
int main(int argc, char ** argv) {
    llama_log_set([](ggml_log_level, const char * text, void *) { fputs(text, stderr); }, nullptr);
    llama_backend_init();
    llama_model_params model_params = llama_model_default_params();
    model_params.no_alloc = true;
    model_params.load_mode = LLAMA_LOAD_MODE_NONE;
    // Weights in other orders are for single CPUs, and would be counted twice.
    model_params.use_extra_bufts = false;
    llama_model * model = llama_model_load_from_file(argv[1], model_params);
    if (!model) return 1;
    llama_context_params params = llama_context_default_params();
    params.n_ctx = atoi(argv[2]);
    params.n_seq_max = atoi(argv[3]);
    params.type_k = params.type_v = (ggml_type) atoi(argv[4]);
    params.n_outputs_max = atoi(argv[5]) ? 0 : params.n_seq_max;
    params.swa_full = false;
    llama_context * context = llama_init_from_model(model, params);
    if (!context) return 2;
    llama_free(context);
    llama_model_free(model);
    return 0;
}
"""

# (context of each sequence, sequences, type of keys and values, whether all logits are wanted)
USES = [(4096, 1, "f16", False), (32768, 1, "f16", False), (32768, 1, "q8_0", False), (8192, 4, "f16", False),
        (1000, 1, "f16", False), (4096, 1, "f16", True)]
TYPES = {"f16": 1, "q8_0": 8}


class Header:
    """Keys and tensors of a file."""

    def __init__(self, arch, n_embd, n_layer, n_vocab, n_ff, **keys):
        self.arch, self.n_embd, self.n_layer, self.n_vocab, self.n_ff = arch, n_embd, n_layer, n_vocab, n_ff
        self.keys = {"context_length": 131072, "embedding_length": n_embd, "block_count": n_layer,
                     "feed_forward_length": n_ff, "vocab_size": n_vocab} | keys
        self.tensors = []
        self.add("token_embd.weight", n_embd, n_vocab)

    def add(self, name, *dims):
        """A tensor, its row length first."""
        self.tensors.append((name, dims))

    def norms(self, i, *names, biases=False):
        for name in names:
            self.add(f"blk.{i}.{name}.weight", self.n_embd)
            if biases:
                self.add(f"blk.{i}.{name}.bias", self.n_embd)

    def attention(self, i, n_head, n_head_kv, width, norms=False, biases=False, gated=False):
        parts = [("q", n_head * (2 if gated else 1)), ("k", n_head_kv), ("v", n_head_kv)]
        for part, n in parts:
            self.add(f"blk.{i}.attn_{part}.weight", self.n_embd, n * width)
            if biases:
                self.add(f"blk.{i}.attn_{part}.bias", n * width)
        self.add(f"blk.{i}.attn_output.weight", n_head * width, self.n_embd)
        if biases:
            self.add(f"blk.{i}.attn_output.bias", self.n_embd)
        for part in "qk" if norms else "":
            self.add(f"blk.{i}.attn_{part}_norm.weight", width)

    def mlp(self, i, n_ff=None, suffix=""):
        n_ff = n_ff or self.n_ff
        for part, n_in, n_out in [("gate", self.n_embd, n_ff), ("up", self.n_embd, n_ff), ("down", n_ff, self.n_embd)]:
            self.add(f"blk.{i}.ffn_{part}{suffix}.weight", n_in, n_out)

    def experts(self, i, n, n_ff, biases=False):
        self.add(f"blk.{i}.ffn_gate_inp.weight", self.n_embd, n)
        if biases:
            self.add(f"blk.{i}.ffn_gate_inp.bias", n)
        for part, n_in, n_out in [("gate", self.n_embd, n_ff), ("up", self.n_embd, n_ff), ("down", n_ff, self.n_embd)]:
            self.add(f"blk.{i}.ffn_{part}_exps.weight", n_in, n_out, n)
            if biases:
                self.add(f"blk.{i}.ffn_{part}_exps.bias", n_out, n)

    def mamba2(self, i, d_inner, d_state, n_group, n_head, norm=True):
        n_conv = d_inner + 2 * n_group * d_state
        self.add(f"blk.{i}.ssm_in.weight", self.n_embd, d_inner + n_conv + n_head)
        self.add(f"blk.{i}.ssm_conv1d.weight", 4, n_conv)
        self.add(f"blk.{i}.ssm_conv1d.bias", n_conv)
        self.add(f"blk.{i}.ssm_dt.bias", n_head)
        self.add(f"blk.{i}.ssm_a", 1, n_head)
        self.add(f"blk.{i}.ssm_d", 1, n_head)
        if norm:
            self.add(f"blk.{i}.ssm_norm.weight", d_inner // n_group, n_group)
        self.add(f"blk.{i}.ssm_out.weight", d_inner, self.n_embd)

    def mamba(self, i, d_inner, d_state, dt_rank, norms=False):
        self.add(f"blk.{i}.ssm_in.weight", self.n_embd, 2 * d_inner)
        self.add(f"blk.{i}.ssm_conv1d.weight", 4, d_inner)
        self.add(f"blk.{i}.ssm_conv1d.bias", d_inner)
        self.add(f"blk.{i}.ssm_x.weight", d_inner, dt_rank + 2 * d_state)
        self.add(f"blk.{i}.ssm_dt.weight", dt_rank, d_inner)
        self.add(f"blk.{i}.ssm_dt.bias", d_inner)
        if norms:
            for part, n in [("dt", dt_rank), ("b", d_state), ("c", d_state)]:
                self.add(f"blk.{i}.ssm_{part}_norm.weight", n)
        self.add(f"blk.{i}.ssm_a", d_state, d_inner)
        self.add(f"blk.{i}.ssm_d", d_inner)
        self.add(f"blk.{i}.ssm_out.weight", d_inner, self.n_embd)

    def ends(self, output=True, norm="output_norm", biases=False):
        self.add(f"{norm}.weight", self.n_embd)
        if biases:
            self.add(f"{norm}.bias", self.n_embd)
        if output:
            self.add("output.weight", self.n_embd, self.n_vocab)
        return self


RMS = {"attention.layer_norm_rms_epsilon": 1e-6}
LAYER = {"attention.layer_norm_epsilon": 1e-5}


def heads(n_head, n_head_kv, width=None):
    keys = {"attention.head_count": n_head, "attention.head_count_kv": n_head_kv}
    return keys | ({"attention.key_length": width, "attention.value_length": width} if width else {})


def ssm(inner, state, rank, group=None):
    keys = {"ssm.conv_kernel": 4, "ssm.inner_size": inner, "ssm.state_size": state, "ssm.time_step_rank": rank}
    return keys | ({"ssm.group_count": group} if group else {})


def llama():
    """Llama 3 8B: plain grouped attention."""
    h = Header("llama", 4096, 4, 128256, 14336, **RMS, **heads(32, 8), **{"rope.dimension_count": 128})
    for i in range(4):
        h.norms(i, "attn_norm", "ffn_norm")
        h.attention(i, 32, 8, 128)
        h.mlp(i)
    return h.ends()


def gpt2():
    """GPT-2 XL: no grouping, learned positions, a fused projection, no gate."""
    h = Header("gpt2", 1600, 4, 50257, 6400, **LAYER, **heads(25, 25), **{"context_length": 32768})
    h.add("position_embd.weight", 1600, 32768)
    for i in range(4):
        h.norms(i, "attn_norm", "ffn_norm", biases=True)
        for name, n_in, n_out in [("attn_qkv", 1600, 4800), ("attn_output", 1600, 1600), ("ffn_up", 1600, 6400),
                                  ("ffn_down", 6400, 1600)]:
            h.add(f"blk.{i}.{name}.weight", n_in, n_out)
            h.add(f"blk.{i}.{name}.bias", n_out)
    return h.ends(biases=True)


def gemma3():
    """Gemma 3 4B: windows in five of six layers."""
    h = Header("gemma3", 2560, 6, 262208, 10240, **RMS, **heads(8, 4, 256),
               **{"attention.sliding_window": 1024, "rope.freq_base": 1e6})
    for i in range(6):
        h.norms(i, "attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
        h.attention(i, 8, 4, 256, norms=True)
        h.mlp(i)
    return h.ends(output=False)


def gpt_oss():
    """gpt-oss 20B: windows of 128 in every other layer, experts with biases."""
    h = Header("gpt-oss", 2880, 4, 201088, 2880, **RMS, **heads(64, 8, 64),
               **{"attention.sliding_window": 128, "expert_count": 32, "expert_used_count": 4,
                  "expert_feed_forward_length": 2880, "rope.dimension_count": 64, "rope.freq_base": 150000.0})
    for i in range(4):
        h.norms(i, "attn_norm", "post_attention_norm")
        h.attention(i, 64, 8, 64, biases=True)
        h.add(f"blk.{i}.attn_sinks.weight", 64)
        h.experts(i, 32, 2880, biases=True)
    return h.ends()


def deepseek2():
    """DeepSeek V3, fewer experts: latent attention, a dense layer before mixtures."""
    h = Header("deepseek2", 7168, 3, 129280, 18432, **RMS, **(heads(128, 1, 576) | {"attention.value_length": 512}),
               **{"attention.q_lora_rank": 1536, "attention.kv_lora_rank": 512, "attention.key_length_mla": 192,
                  "attention.value_length_mla": 128, "rope.dimension_count": 64,
                  "leading_dense_block_count": 1, "expert_count": 16, "expert_used_count": 8,
                  "expert_feed_forward_length": 2048, "expert_shared_count": 1, "expert_weights_scale": 2.5,
                  "expert_weights_norm": True, "expert_gating_func": 2})
    for i in range(3):
        h.norms(i, "attn_norm", "ffn_norm")
        for name, *dims in [("attn_q_a", 7168, 1536), ("attn_q_a_norm", 1536), ("attn_q_b", 1536, 128 * 192),
                            ("attn_kv_a_mqa", 7168, 576), ("attn_kv_a_norm", 512), ("attn_k_b", 128, 512, 128),
                            ("attn_v_b", 512, 128, 128), ("attn_output", 128 * 128, 7168)]:
            h.add(f"blk.{i}.{name}.weight", *dims)
        if i == 0:
            h.mlp(i)
        else:
            h.experts(i, 16, 2048)
            h.add(f"blk.{i}.exp_probs_b.bias", 16)
            h.mlp(i, 2048, "_shexp")
    return h.ends()


def jamba():
    """Jamba Mini: Mamba in seven of eight layers, mixtures in every other one."""
    kv = [0, 0, 0, 0, 8, 0, 0, 0]
    h = Header("jamba", 4096, 8, 65536, 14336, **RMS, **ssm(8192, 16, 256),
               **{"attention.head_count": 32, "attention.head_count_kv": kv, "expert_count": 16,
                  "expert_used_count": 2})
    for i in range(8):
        h.norms(i, "attn_norm", "ffn_norm")
        if kv[i]:
            h.attention(i, 32, 8, 128)
        else:
            h.mamba(i, 8192, 16, 256, norms=True)
        if i % 2:
            h.experts(i, 16, 14336)
        else:
            h.mlp(i)
    return h.ends()


def granite_hybrid():
    """Granite 4 H Tiny: Mamba 2 in most layers, mixtures with a shared expert."""
    kv = [0, 0, 0, 0, 0, 4]
    h = Header("granitehybrid", 1536, 6, 100352, 512, **RMS, **ssm(3072, 128, 48, 1),
               **{"attention.head_count": 12, "attention.head_count_kv": kv, "expert_count": 64, "expert_used_count": 6,
                  "expert_shared_feed_forward_length": 1024, "rope.dimension_count": 128})
    for i in range(6):
        h.norms(i, "attn_norm", "ffn_norm")
        if kv[i]:
            h.attention(i, 12, 4, 128)
        else:
            h.mamba2(i, 3072, 128, 1, 48)
        h.experts(i, 64, 512)
        h.mlp(i, 1024, "_shexp")
    return h.ends(output=False)


def qwen3next():
    """Qwen 3 Next, fewer experts: delta nets in three of four layers, gated attention in the fourth."""
    h = Header("qwen3next", 2048, 4, 151936, 5120, **RMS, **heads(16, 2, 256), **ssm(4096, 128, 32, 16),
               **{"expert_count": 64, "expert_used_count": 10, "expert_feed_forward_length": 512,
                  "expert_shared_feed_forward_length": 512, "rope.dimension_count": 64, "rope.freq_base": 1e7})
    for i in range(4):
        h.norms(i, "attn_norm", "post_attention_norm")
        if i == 3:
            h.attention(i, 16, 2, 256, norms=True, gated=True)
        else:
            for name, *dims in [("attn_qkv.weight", 2048, 8192), ("attn_gate.weight", 2048, 4096),
                                ("ssm_conv1d.weight", 4, 8192), ("ssm_dt.bias", 32), ("ssm_a", 32),
                                ("ssm_ba.weight", 2048, 64), ("ssm_norm.weight", 128), ("ssm_out.weight", 4096, 2048)]:
                h.add(f"blk.{i}.{name}", *dims)
        h.experts(i, 64, 512)
        h.add(f"blk.{i}.ffn_gate_inp_shexp.weight", 2048)
        h.mlp(i, 512, "_shexp")
    return h.ends()


def mamba():
    """Mamba 2.8B: states alone."""
    h = Header("mamba", 2560, 4, 50280, 0, **RMS, **ssm(5120, 16, 160), **{"attention.head_count": 0})
    for i in range(4):
        h.norms(i, "attn_norm")
        h.mamba(i, 5120, 16, 160)
    return h.ends(output=False)


def rwkv7():
    """RWKV 7 2.9B: states and token shifts."""
    n = 2560
    h = Header("rwkv7", n, 4, 65536, 4 * n, **LAYER, **{
        "attention.head_count": 0, "wkv.head_size": 64, "attention.decay_lora_rank": 96, "attention.iclr_lora_rank": 96,
        "attention.value_residual_mix_lora_rank": 64, "attention.gate_lora_rank": 320})
    for bias in ("weight", "bias"):
        h.add(f"token_embd_norm.{bias}", n)
    for i in range(4):
        h.norms(i, "attn_norm", "attn_norm_2", "time_mix_ln", biases=True)
        low = {"w": 96, "a": 96, "v": 64 if i else 96, "g": 320}
        for part, rank in low.items():
            if part != "g":
                h.add(f"blk.{i}.time_mix_{part}0.weight", n)
            h.add(f"blk.{i}.time_mix_{part}1.weight", n, rank)
            h.add(f"blk.{i}.time_mix_{part}2.weight", rank, n)
        h.add(f"blk.{i}.time_mix_lerp_fused.weight", n, 1, 1, 6)
        h.norms(i, "time_mix_k_k", "time_mix_k_a", "time_mix_r_k", "channel_mix_lerp_k")
        for part in ("key", "value", "receptance", "output"):
            h.add(f"blk.{i}.time_mix_{part}.weight", n, n)
        h.add(f"blk.{i}.channel_mix_key.weight", n, 4 * n)
        h.add(f"blk.{i}.channel_mix_value.weight", 4 * n, n)
    return h.ends(biases=True)


def lfm2():
    """LFM2 1.2B: short convolutions and grouped attention."""
    kv = [0, 0, 8, 0]
    h = Header("lfm2", 2048, 4, 65536, 8192, **RMS, **{
        "attention.head_count": 32, "attention.head_count_kv": kv, "shortconv.l_cache": 3, "rope.freq_base": 1e6})
    for i in range(4):
        h.norms(i, "attn_norm", "ffn_norm")
        if kv[i]:
            h.attention(i, 32, 8, 64, norms=True)
        else:
            h.add(f"blk.{i}.shortconv.conv.weight", 3, 2048)
            h.add(f"blk.{i}.shortconv.in_proj.weight", 2048, 3 * 2048)
            h.add(f"blk.{i}.shortconv.out_proj.weight", 2048, 2048)
        h.mlp(i)
    return h.ends(output=False, norm="token_embd_norm")


def falcon_h1():
    """Falcon-H1 1.5B: Mamba 2 and attention side by side in every layer."""
    h = Header("falcon-h1", 2048, 4, 65537, 4096, **RMS, **heads(8, 2, 128), **ssm(3072, 256, 48, 1))
    for i in range(4):
        h.norms(i, "attn_norm")
        h.mamba2(i, 3072, 256, 1, 48, norm=False)
        h.attention(i, 8, 2, 128)
        h.add(f"blk.{i}.ffn_norm", 2048)
        h.mlp(i)
    return h.ends()


def llama4():
    """Llama 4 Scout, fewer layers: chunks of 8192 in three of four layers, a shared expert."""
    h = Header("llama4", 5120, 4, 202048, 16384, **RMS, **heads(40, 8, 128),
               **{"expert_count": 16, "expert_used_count": 1, "expert_feed_forward_length": 8192,
                  "interleave_moe_layer_step": 1, "rope.dimension_count": 128, "rope.freq_base": 500000.0})
    for i in range(4):
        h.norms(i, "attn_norm", "ffn_norm")
        h.attention(i, 40, 8, 128)
        h.experts(i, 16, 8192)
        h.mlp(i, 8192, "_shexp")
    return h.ends()


HEADERS = [llama, gpt2, gemma3, gpt_oss, deepseek2, jamba, granite_hybrid, qwen3next, mamba, rwkv7, lfm2, falcon_h1, llama4]


def write(header, path):
    """The file, its data a hole; where these begin."""
    import gguf
    writer = gguf.GGUFWriter(path, header.arch)
    for key, value in header.keys.items():
        add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, list: writer.add_array}[type(value)]
        add(f"{header.arch}.{key}", value)
    writer.add_string("tokenizer.ggml.model", "none")
    for name, dims in header.tensors:
        # Matrices as F16; vectors, and what is multiplied element by element, as F32.
        is_vector = len(dims) == 1 or re.search(r"ssm_(a|d|norm|conv1d)|shortconv.conv|lerp_fused|_exps.bias", name)
        dtype = gguf.GGMLQuantizationType.F32 if is_vector else gguf.GGMLQuantizationType.F16
        n_bytes = (4 if is_vector else 2) * math.prod(dims)
        writer.add_tensor_info(name, tuple(reversed(dims)), np.dtype("float32"), n_bytes, raw_dtype=dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    out = writer.fout[0]
    out.flush()
    at = out.tell()
    start = -(-at // 32) * 32
    end = start + sum(-(-info.nbytes // 32) * 32 for info in writer.tensors[0].values())
    out.truncate(end)
    writer.close()
    return at


def measure(program, path, context, n_seq, kv_type, all_logits):
    """The buffers that the library prints."""
    args = [context * n_seq, n_seq, TYPES[kv_type], int(all_logits)]
    ran = subprocess.run([program, path, *map(str, args)], capture_output=True, text=True)
    if ran.returncode:
        raise ValueError(f"libllama fails ({ran.returncode}): {ran.stderr[-2000:]}")
    # Where nothing is allocated, buffers of caches are empty, and a line below says what they would take.
    kinds = {"llama_kv_cache: size": "kv", "llama_memory_recurrent: size": "states", "compute buffer size": "compute",
             " output buffer size": "output"}
    buffers = dict.fromkeys(kinds.values(), 0.0)
    for kind, size in re.findall(f"({'|'.join(kinds)}) = +([0-9.]+) MiB", ran.stderr):
        # There are two caches where some layers have windows.
        buffers[kinds[kind]] = round(buffers[kinds[kind]] + float(size), 2)
    return buffers


def make(ctx):
    from logits_reference import build_program
    program = build_program(PROGRAM, ctx.reference, ctx.libraries, ctx.scratch)
    folder = ctx.golden / "memory"
    folder.mkdir(exist_ok=True)
    path = folder / "expected.json"
    expected = json.loads(path.read_text()) if path.exists() else {}
    for make_header in HEADERS:
        name = make_header.__name__.replace("_", "-")
        if not ctx.wants(name):
            continue
        file = ctx.scratch / f"{name}.gguf"
        at = write(make_header(), file)
        with open(file, "rb") as opened:
            (folder / f"{name}.head").write_bytes(opened.read(at))
        uses = []
        for context, n_seq, kv_type, all_logits in USES:
            buffers = measure(program, file, context, n_seq, kv_type, all_logits)
            uses.append({"context": context, "parallel": n_seq, "kv_type": kv_type, "all_logits": all_logits} | buffers)
        expected[name] = {"file_bytes": file.stat().st_size, "uses": uses}
        file.unlink()
    path.write_text(json.dumps(dict(sorted(expected.items())), indent=1) + "\n")
