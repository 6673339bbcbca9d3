"""What the reference's converter would say of families that it has no class for: CLASSES, which families name under
`expect`.

Names and keys are those of the GGUF specification, of Persimmon those of the last llama.cpp that read it. Each is
written as a class of the reference's own kind, so that general keys, tokenizer and tensor data come from the reference
all the same.
"""

import re

import gguf
from conversion.base import TextModel


class HandWritten(TextModel):
    """A converter whose keys and names come from subclasses."""
    model_arch = gguf.MODEL_ARCH.GPTJ
    arch_name = "gptj"
    names: dict[str, str] = {}

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.gguf_writer.kv_data[0]["general.architecture"].value = self.arch_name
        self.gguf_writer.arch = self.arch_name

    def modify_tensors(self, data_torch, name, bid):
        for pattern, new_name in self.names.items():
            if match := re.fullmatch(pattern, name):
                yield match.expand(new_name), self.reshape(new_name, data_torch)
                return
        raise ValueError(name)

    def reshape(self, new_name, data_torch):
        return data_torch


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


class Rwkv4(HandWritten):
    model_arch = gguf.MODEL_ARCH.GPTJ
    arch_name = "rwkv"
    names = {
        r"rwkv\.embeddings\.weight": r"token_embd.weight",
        r"rwkv\.blocks\.0\.pre_ln\.(\w+)": r"token_embd_norm.\1",
        r"rwkv\.ln_out\.(\w+)": r"output_norm.\1",
        r"head\.weight": r"output.weight",
        r"rwkv\.blocks\.(\d+)\.ln1\.(\w+)": r"blk.\1.attn_norm.\2",
        r"rwkv\.blocks\.(\d+)\.ln2\.(\w+)": r"blk.\1.attn_norm_2.\2",
        r"rwkv\.blocks\.(\d+)\.attention\.time_(decay|first)": r"blk.\1.time_mix_\2.weight",
        r"rwkv\.blocks\.(\d+)\.attention\.time_mix_([kvr])\w+": r"blk.\1.time_mix_lerp_\2.weight",
        r"rwkv\.blocks\.(\d+)\.feed_forward\.time_mix_([kr])\w+": r"blk.\1.channel_mix_lerp_\2.weight",
        r"rwkv\.blocks\.(\d+)\.attention\.(\w+)\.weight": r"blk.\1.time_mix_\2.weight",
        r"rwkv\.blocks\.(\d+)\.feed_forward\.(\w+)\.weight": r"blk.\1.channel_mix_\2.weight",
    }

    def reshape(self, new_name, data_torch):
        return data_torch.squeeze()

    def set_gguf_parameters(self):
        w = self.gguf_writer
        w.add_uint32("rwkv.architecture_version", 4)
        w.add_uint32("rwkv.context_length", 256)
        w.add_uint32("rwkv.block_count", 2)
        w.add_uint32("rwkv.embedding_length", 32)
        w.add_uint32("rwkv.feed_forward_length", 128)
        w.add_float32("rwkv.attention.layer_norm_epsilon", 1e-5)
        w.add_file_type(self.ftype)


class Whisper(HandWritten):
    """Encoder and decoder: names of the specification behind enc. and dec., as gguf-py has them for T5."""
    model_arch = gguf.MODEL_ARCH.GPTJ
    arch_name = "whisper"
    layer = r"model\.(enc|dec)oder\.layers\.(\d+)\."
    names = {
        r"model\.encoder\.conv([12])\.(\w+)": r"enc.conv1d.\1.\2",
        r"model\.(enc|dec)oder\.embed_positions\.weight": r"\1.pos_embd.weight",
        r"model\.(enc|dec)oder\.layer_norm\.(\w+)": r"\1.output_norm.\2",
        r"model\.decoder\.embed_tokens\.weight": r"token_embd.weight",
        layer + r"self_attn\.([qkv])_proj\.(\w+)": r"\1.blk.\2.attn_\3.\4",
        layer + r"self_attn\.out_proj\.(\w+)": r"\1.blk.\2.attn_output.\3",
        layer + r"self_attn_layer_norm\.(\w+)": r"\1.blk.\2.attn_norm.\3",
        layer + r"encoder_attn\.([qkv])_proj\.(\w+)": r"\1.blk.\2.cross_attn_\3.\4",
        layer + r"encoder_attn\.out_proj\.(\w+)": r"\1.blk.\2.cross_attn_output.\3",
        layer + r"encoder_attn_layer_norm\.(\w+)": r"\1.blk.\2.cross_attn_norm.\3",
        layer + r"fc1\.(\w+)": r"\1.blk.\2.ffn_up.\3",
        layer + r"fc2\.(\w+)": r"\1.blk.\2.ffn_down.\3",
        layer + r"final_layer_norm\.(\w+)": r"\1.blk.\2.ffn_norm.\3",
    }

    def __init__(self, folder, *args, hparams=None, **kwargs):
        # The base class wants to know a number of layers.
        hparams = dict(self.load_hparams(folder, False), num_hidden_layers=1)
        super().__init__(folder, *args, hparams=hparams, **kwargs)

    def tensor_force_quant(self, name, new_name, bid, n_dims):
        # Positions and convolutions, as the reference has them in GPT-2 and Mamba.
        return gguf.GGMLQuantizationType.F32 if "pos_embd" in new_name or "conv1d" in new_name else False

    def set_gguf_parameters(self):
        w = self.gguf_writer
        w.add_uint32("whisper.encoder.context_length", 24)
        w.add_uint32("whisper.encoder.embedding_length", 16)
        w.add_uint32("whisper.encoder.block_count", 1)
        w.add_uint32("whisper.encoder.mels_count", 12)
        w.add_uint32("whisper.encoder.attention.head_count", 4)
        w.add_uint32("whisper.decoder.context_length", 20)
        w.add_uint32("whisper.decoder.embedding_length", 16)
        w.add_uint32("whisper.decoder.block_count", 2)
        w.add_uint32("whisper.decoder.attention.head_count", 2)
        w.add_file_type(self.ftype)



TENSOR = gguf.MODEL_TENSOR


def spare_arch(arch: str, tensors: list):
    """The reference has no id for it; one that no golden uses is lent."""
    lent = gguf.MODEL_ARCH.PLM
    gguf.MODEL_ARCH_NAMES[lent] = arch
    gguf.MODEL_TENSORS[lent] = tensors
    return lent


class Persimmon(TextModel):
    # llama.cpp until 2025: PersimmonModel of convert_hf_to_gguf.py, MODEL_ARCH.PERSIMMON of gguf-py.
    model_arch = spare_arch("persimmon", [
        TENSOR.TOKEN_EMBD, TENSOR.OUTPUT, TENSOR.OUTPUT_NORM, TENSOR.ATTN_NORM, TENSOR.ATTN_QKV, TENSOR.ATTN_OUT,
        TENSOR.FFN_NORM, TENSOR.FFN_DOWN, TENSOR.FFN_UP, TENSOR.ATTN_Q_NORM, TENSOR.ATTN_K_NORM])

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


CLASSES = dict(gptj=GptJ, persimmon=Persimmon, rwkv=Rwkv4, whisper=Whisper)
