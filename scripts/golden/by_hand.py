"""What the reference's converter would have to say of families that it has no class for, for arch.py.

Names and keys are those of the specification and of the last llama.cpp that read the family; the order of keys is that
of the class in question then. Each is written as a class of the reference's own kind, so that general keys, tokenizer
and tensor data come from the reference all the same.
"""


def register(name: str):
    """The class for `name`, if it is one of these. Imports the reference."""
    import gguf
    from conversion.base import TextModel

    tensor = gguf.MODEL_TENSOR

    def spare_arch(arch: str, tensors: list):
        # The reference has no id for it; one that no golden uses is lent.
        lent = gguf.MODEL_ARCH.PLM
        gguf.MODEL_ARCH_NAMES[lent] = arch
        gguf.MODEL_TENSORS[lent] = tensors
        return lent

    if name == "PersimmonForCausalLM":
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
    return None
