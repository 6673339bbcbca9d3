"""Golden recipes of MERaLiON, by I2R: audio projectors for models of the gemma family."""

from tiny_towers import ONE, WHISPER, whisper, with_biases


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
