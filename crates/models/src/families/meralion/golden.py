"""Golden recipes of MERaLiON, by I2R: audio projectors for models of the gemma family."""

from tiny_towers import ONE, WHISPER, whisper, whisper_with, with_biases


def meralion(_: dict) -> dict:
    adapter = {"ln_speech": [16], "speech_audio_adapter.mlp_adapter.0": [24, 48], "speech_audio_adapter.gate_proj": [24, 24],
               "speech_audio_adapter.pool_proj": [24, 24], "speech_audio_adapter.out_proj": [32, 24]}
    return whisper("speech_encoder.") | with_biases(adapter) | {"text_decoder.model.embed_tokens.weight": [384, 32]}


PROJECTORS = {
    "meralion": dict(tokenizer="bpe", preprocessor=None, hand=meralion,
        config=dict(architectures=["MERaLiON2ForConditionalGeneration"], model_type="meralion2",
        speech_mlp_scale_factor=3, text_config=dict(ONE, model_type="gemma2"), speech_config=dict(WHISPER,
        model_type="whisper"))),
}


def fifteen(_: dict) -> dict:
    """Positions for 15 rows, of which each three become one."""
    return meralion(_) | {"speech_encoder.embed_positions.weight": [15, 16]}


def load_meralion(folder):
    """Whisper's encoder, the norm and the adapter as in the authors' plugin for vLLM."""
    import torch.nn.functional as F

    def project(x, tensors):
        part = lambda name: (tensors[f"{name}.weight"], tensors[f"{name}.bias"])
        adapter = lambda x, name: F.linear(x, *part(f"speech_audio_adapter.{name}"))
        x = F.layer_norm(x, (16,), *part("ln_speech"))
        x = F.silu(adapter(x.reshape(len(x), -1, 48), "mlp_adapter.0"))
        return adapter(F.silu(adapter(x, "gate_proj")) * adapter(x, "pool_proj"), "out_proj")

    return whisper_with(folder, "speech_encoder.", project)


def hear_windows(extractor, wave):
    """The processor of MERaLiON 2: windows of mean 0 and variance 1."""
    windows = [wave[start:start + extractor.n_samples] for start in range(0, len(wave), extractor.n_samples)]
    made = extractor(windows, sampling_rate=16000, padding="max_length", do_normalize=True, return_tensors="pt")
    return dict(input_features=made["input_features"]), [5] * len(windows)


AUDIO = {
    "meralion": dict(PROJECTORS["meralion"], hand=fifteen, load=load_meralion, hear=hear_windows,
        config=dict(PROJECTORS["meralion"]["config"], speech_config=dict(WHISPER, model_type="whisper",
        max_source_positions=15))),
}
