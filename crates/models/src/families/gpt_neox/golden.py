"""Golden recipes of GPT-J and GPT-NeoX, by EleutherAI."""

from tiny_models import END, OLD

RAW = ("model_type",)

WIDE = {"gptneox": {}}


def gptj_converter():
    """The converter of GPT-J, which the reference lacks."""
    import gguf
    from by_hand import HandWritten

    class GptJ(HandWritten):
        model_arch = gguf.MODEL_ARCH.GPTJ
        names = {
            r"transformer\.wte\.weight": r"token_embd.weight",
            r"transformer\.ln_f\.(\w+)": r"output_norm.\1",
            r"lm_head\.(\w+)": r"output.\1",
            r"transformer\.h\.(\d+)\.ln_1\.(\w+)": r"blk.\1.attn_norm.\2",
            r"transformer\.h\.(\d+)\.attn\.([qkv])_proj\.weight": r"blk.\1.attn_\2.weight",
            r"transformer\.h\.(\d+)\.attn\.out_proj\.weight": r"blk.\1.attn_output.weight",
            r"transformer\.h\.(\d+)\.mlp\.fc_in\.(\w+)": r"blk.\1.ffn_up.\2",
            r"transformer\.h\.(\d+)\.mlp\.fc_out\.(\w+)": r"blk.\1.ffn_down.\2",
        }

        def set_gguf_parameters(self):
            w = self.gguf_writer
            w.add_uint32("gptj.context_length", 64)
            w.add_uint32("gptj.embedding_length", 32)
            w.add_uint32("gptj.block_count", 2)
            w.add_uint32("gptj.feed_forward_length", 128)
            w.add_uint32("gptj.rope.dimension_count", 4)
            w.add_uint32("gptj.attention.head_count", 4)
            w.add_float32("gptj.attention.layer_norm_epsilon", 1e-5)
            w.add_file_type(self.ftype)

    return GptJ


CHECKPOINTS = {
    "gptneox": dict(model="gpt_neox", tokenizer="bpe", reference=dict(set=dict(rotary_pct=0.25), drop=RAW)),
    "gptneox-old": dict(model="gpt_neox", tokenizer="bpe", config=dict(use_parallel_residual=False),
        reference=dict(drop=RAW), old=dict(OLD, rotary_pct=0.5, rotary_emb_base=10000)),
    "gptj": dict(model="gptj", tokenizer="bpe", bare=True, expect=gptj_converter, config=dict(END, n_positions=64,
        n_embd=32, n_layer=2, n_head=4, rotary_dim=4)),
}
