"""Golden recipes of Persimmon, by Adept."""

from tiny_models import OLD, tiny


def converter():
    """The converter of Persimmon, which the reference lost in 2025."""
    import gguf
    from by_hand import spare_arch
    from conversion.base import TextModel
    tensor = gguf.MODEL_TENSOR

    class Persimmon(TextModel):
        # llama.cpp until 2025: PersimmonModel of convert_hf_to_gguf.py, MODEL_ARCH.PERSIMMON of gguf-py.
        model_arch = spare_arch("persimmon", [
            tensor.TOKEN_EMBD, tensor.OUTPUT, tensor.OUTPUT_NORM, tensor.ATTN_NORM, tensor.ATTN_QKV, tensor.ATTN_OUT,
            tensor.FFN_NORM, tensor.FFN_DOWN, tensor.FFN_UP, tensor.ATTN_Q_NORM, tensor.ATTN_K_NORM])

        def set_gguf_parameters(self):
            config, writer = self.hparams, self.gguf_writer
            head = config["hidden_size"] // config["num_attention_heads"]
            writer.add_context_length(config["max_position_embeddings"])
            writer.add_embedding_length(config["hidden_size"])
            writer.add_block_count(config["num_hidden_layers"])
            writer.add_feed_forward_length(config["intermediate_size"])
            writer.add_rope_dimension_count(head // 2)
            writer.add_head_count(config["num_attention_heads"])
            writer.add_head_count_kv(config["num_attention_heads"])
            writer.add_rope_freq_base(self.rope_parameters["rope_theta"])
            writer.add_layer_norm_eps(config["layer_norm_eps"])
            writer.add_file_type(self.ftype)

        def set_vocab(self):
            self._set_vocab_sentencepiece()

    return Persimmon


CHECKPOINTS = {
    "persimmon": tiny(model="persimmon", expect=converter, config=dict(tie_word_embeddings=False)),
    "persimmon-old": tiny(model="persimmon", expect=converter, drop=("qk_layernorm",), old=dict(OLD,
        rope_theta=25000.0, partial_rotary_factor=0.5, rope_scaling=None)),
}
