"""GGUF files that no converter writes: headers with the sizes of real models (MEMORY of the families' golden.py, for
memory.py), and layers of tiny models (LOGITS_FILES, for logits_files.py)."""


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


# Sizes of tiny models.
N_EMBD, N_HEAD, N_HEAD_KV, N_FF, N_LAYER = 16, 4, 2, 24, 2
ROPE = {"rope.dimension_count": N_EMBD // N_HEAD}


def plain_layer(n_head_kv=N_HEAD_KV, n_ff=N_FF, bias=False):
    """Shapes of a plain layer, rows first."""
    width, narrow = N_EMBD, n_head_kv * N_EMBD // N_HEAD
    shapes = {"attn_norm": [width], "attn_q": [width, width], "attn_k": [narrow, width], "attn_v": [narrow, width],
              "attn_output": [width, width], "ffn_norm": [width], "ffn_gate": [n_ff, width], "ffn_up": [n_ff, width],
              "ffn_down": [width, n_ff]}
    named = {f"{name}.weight": shape for name, shape in shapes.items()}
    return named | ({f"attn_{x}.bias": shapes[f"attn_{x}"][:1] for x in "qkv"} if bias else {})


def fused(shapes):
    """One projection for all, whose feed-forward part is half as wide as the key says."""
    rest = {name: shape for name, shape in shapes.items() if name[:6] not in ("attn_q", "attn_k", "attn_v")}
    return rest | {"attn_qkv.weight": [3 * N_EMBD, N_EMBD], "attn_qkv.bias": [3 * N_EMBD]}
