"""Golden recipes of Whisper, by OpenAI, and sound towers of other models that are based on it."""

from tiny_models import END, OLD
from tiny_towers import ONE, WHISPER, tower, whisper, whisper_with

BOTH_PARTS = dict(END, d_model=16, encoder_layers=1, encoder_attention_heads=4, encoder_ffn_dim=24, decoder_layers=2,
    decoder_attention_heads=2, decoder_ffn_dim=40, num_mel_bins=12, max_source_positions=24, max_target_positions=20,
    pad_token_id=0, decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None)


def with_proj_out(tensors: dict, config) -> dict:
    return tensors | {"proj_out.weight": tensors["model.decoder.embed_tokens.weight"].clone()}


def converter():
    """The converter of Whisper, which the reference lacks."""
    import gguf
    from by_hand import HandWritten

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

    return Whisper


CHECKPOINTS = {
    "whisper": dict(model="whisper", tokenizer="bpe", bare=True, expect=converter, config=BOTH_PARTS,
        **{"class": "WhisperForConditionalGeneration"}),
    # As the Hub has it: keys of transformers 4, and, in files that were PyTorch's once, the embedding a second time
    # as the output.
    "whisper-old": dict(model="whisper", tokenizer="bpe", bare=True, expect=converter, config=BOTH_PARTS,
        **{"class": "WhisperForConditionalGeneration"}, drop=("tie_word_embeddings",), extra=with_proj_out,
        without=("proj_out.weight",), old=dict(OLD, num_hidden_layers=1, forced_decoder_ids=[[1, 5], [2, 7]],
        begin_suppress_tokens=[3, 4])),
}

# Four times as wide inside as outside, as whisper.cpp requires. Fewer tokens than rows of the embedding, as in real models.
FOR_WHISPER_CPP = dict(format="whisper.cpp", model="whisper", tokenizer="bpe", vocab_size=384, bare=True,
    **{"class": "WhisperForConditionalGeneration"})
SMALL_BLOCKS = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0"]


def for_whisper_cpp(n: int, heads: int, layers: tuple, n_mels: int) -> dict:
    return dict(BOTH_PARTS, vocab_size=400, d_model=n, encoder_ffn_dim=4 * n, decoder_ffn_dim=4 * n, encoder_layers=layers[0],
        decoder_layers=layers[1], encoder_attention_heads=heads, decoder_attention_heads=heads, num_mel_bins=n_mels)


FOREIGN = {
    "whisper-f32": dict(FOR_WHISPER_CPP, config=for_whisper_cpp(64, 2, (2, 2), 80), types=SMALL_BLOCKS, dtype="float32",
        vocab=True),
    # As distil-large-v3: more mel bands, fewer layers of the decoder. In two files, with tokenizer.json alone.
    "whisper-v3": dict(FOR_WHISPER_CPP, config=for_whisper_cpp(32, 1, (2, 1), 128), types=SMALL_BLOCKS, max_shard_size="60KB"),
    # The embedding a second time as the output.
    "whisper-f16": dict(FOR_WHISPER_CPP, config=for_whisper_cpp(256, 4, (1, 1), 80), dtype="float16", extra=with_proj_out,
        types=SMALL_BLOCKS + ["q2_k", "q3_k", "q4_k", "q5_k", "q6_k"], vocab=True),
}


def ultravox(_: dict) -> dict:
    return whisper("audio_tower.") | {
        "multi_modal_projector.ln_pre.weight": [128], "multi_modal_projector.linear_1.weight": [64, 128],
        "multi_modal_projector.linear_2.weight": [32, 32], "multi_modal_projector.ln_mid.weight": [32],
        "language_model.model.embed_tokens.weight": [384, 32]}


# Four rows of the encoder are as wide as its feed-forward part.
FOUR_WIDE = dict(WHISPER, intermediate_size=64, encoder_ffn_dim=64)
PROJECTORS = {
    "qwen2audio": tower("qwen2_audio", "Qwen2AudioForConditionalGeneration", dict(model_type="qwen2"),
        dict(preprocessor=None), audio_config=WHISPER),
    "voxtral": tower("voxtral", "VoxtralForConditionalGeneration", dict(model_type="llama", head_dim=8),
        dict(preprocessor=None), audio_config=FOUR_WIDE),
    "audioflamingo3": tower("audioflamingo3", "AudioFlamingo3ForConditionalGeneration", dict(model_type="qwen2"),
        dict(preprocessor=None), audio_config=WHISPER),
    "ultravox": dict(tokenizer="bpe", preprocessor=None, hand=ultravox, config=dict(architectures=["UltravoxModel"],
        model_type="ultravox", stack_factor=8, text_config=dict(ONE, model_type="llama"), audio_config=dict(WHISPER,
        model_type="whisper"))),
}


def windows(wave, extractor):
    return [wave[start:start + extractor.n_samples] for start in range(0, len(wave), extractor.n_samples)]


def hear_one(extractor, wave):
    """The processor of Qwen 2 Audio: one window, the rest is dropped."""
    made = extractor(wave, sampling_rate=16000, padding="max_length", return_attention_mask=True, return_tensors="pt")
    n = ((int(made["attention_mask"].sum()) - 1) // 2 + 1 - 2) // 2 + 1
    return dict(input_features=made["input_features"], feature_attention_mask=made["attention_mask"]), [n]


def hear_apart(extractor, wave):
    """The processor of Audio Flamingo 3: independent windows."""
    made = extractor(windows(wave, extractor), sampling_rate=16000, padding="max_length", return_attention_mask=True,
        return_tensors="pt")
    counts = [((n - 1) // 2 + 1 - 2) // 2 + 1 for n in made["attention_mask"].sum(-1).tolist()]
    return dict(input_features=made["input_features"], input_features_mask=made["attention_mask"]), counts


def hear_whole(extractor, wave):
    """The processor of Voxtral: one spectrogram, cut into windows."""
    made = extractor(wave, sampling_rate=16000, padding=True, truncation=False, pad_to_multiple_of=extractor.n_samples,
        return_tensors="pt")
    bands = made["input_features"][0]
    features = bands.reshape(len(bands), -1, extractor.nb_max_frames).transpose(0, 1)
    return dict(input_features=features), [extractor.nb_max_frames // 8] * len(features)


def long_ultravox(_: dict) -> dict:
    """Windows of 30 seconds, which libmtmd requires. With the stack factor 8 of released models, it miscounts the rows of 1500 positions."""
    return ultravox(_) | {"audio_tower.embed_positions.weight": [1500, 16], "multi_modal_projector.ln_pre.weight": [320],
        "multi_modal_projector.linear_1.weight": [64, 320]}


def load_ultravox(folder):
    """Whisper's encoder without padding to a whole window, and the projector, as in ultravox_model.py."""
    import torch
    import torch.nn.functional as F

    def project(x, tensors):
        part = lambda name: tensors[f"multi_modal_projector.{name}.weight"]
        rms = lambda x, name: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * part(name)
        x = F.pad(x, (0, 0, 0, -x.shape[1] % 8)).reshape(1, -1, 128)
        up, gate = F.linear(rms(x, "ln_pre"), part("linear_1")).chunk(2, -1)
        return F.linear(rms(F.silu(gate) * up, "ln_mid"), part("linear_2"))

    return whisper_with(folder, "audio_tower.", project)


def hear_short(extractor, wave):
    """The processor of Ultravox: no silence after the sound."""
    made = extractor(wave, sampling_rate=16000, padding="longest", pad_to_multiple_of=160, truncation=False,
        return_tensors="pt")
    return dict(input_features=made["input_features"]), [-(-made["input_features"].shape[-1] // 16)]


AUDIO = {
    "qwen2audio": dict(tower("qwen2_audio", "Qwen2AudioForConditionalGeneration", dict(model_type="qwen2",
        num_hidden_layers=2), audio_config=WHISPER), hear=hear_one),
    "audioflamingo3": dict(tower("audioflamingo3", "AudioFlamingo3ForConditionalGeneration", dict(model_type="qwen2",
        num_hidden_layers=2), audio_config=WHISPER), hear=hear_apart),
    "voxtral": dict(tower("voxtral", "VoxtralForConditionalGeneration", dict(model_type="llama", head_dim=8,
        num_hidden_layers=2), audio_config=FOUR_WIDE), hear=hear_whole),
    "ultravox-short": dict(PROJECTORS["ultravox"], load=load_ultravox, hear=hear_short, n_samples=4790),
    "ultravox": dict(PROJECTORS["ultravox"], hand=long_ultravox, by="mtmd", config=dict(PROJECTORS["ultravox"]["config"],
        stack_factor=20)),
}
