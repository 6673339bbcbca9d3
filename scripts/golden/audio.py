"""Makes golden/audio/: sounds, tiny checkpoints of audio models, and the embeddings and logits that transformers or libmtmd compute.

sound.wav, sound.flac and sound.mp3 are a seeded sound of 0.45 seconds at 16 kHz, written by libsndfile; sound.mp3.f32 has the samples
that it reads from the last one. stereo.wav has 0.2 seconds at 44.1 kHz and two channels, and stereo.f32 their mean, resampled to
16 kHz by soxr. spectrogram-N.f32 is the output of WhisperFeatureExtractor for sound.wav with N bands: (45 frames, N). Floats are
f32, little-endian, row-major. A folder is a whole tiny checkpoint as in golden/projectors, with

  features.bin  a line of JSON, then floats: embeddings of the sound, (n_rows, n_embd), and logits of the prompt, (positions,
                n_vocab). The prompt is `before`, the sound, `after`; `positions` counts all of its rows. Ranges are the largest
                number minus the smallest. The sound is sound.wav times `gain`, cut or repeated to `n_samples`, of which the last
                `n_silent` are 0. Logits are missing if the converter does not write the text model.

Recipes are AUDIO of the families' golden.py, with the keys of tiny_towers.py and

  hear       a function from the feature extractor and the sound to inputs of the model and numbers of embeddings by window
  extractor  a function from the config of the encoder to the feature extractor; Whisper's by default
  projector  name of the module whose output is the embeddings; multi_modal_projector by default
  types      a function from a mask of the sound's tokens (0, 1) to further inputs; none by default
  n_samples  length of the sound; that of sound.wav by default
  load       a function from the folder to the model, if transformers does not read the folder itself
  by         "mtmd": rows by libmtmd, for a family that transformers lacks. Its convolutions round their inputs to f16

The length of windows follows from the positions of the tiny model: 0.32 seconds with 16. Weights are as in golden/vision.
"""

import json
import subprocess

import numpy as np

from families import AUDIO
from tiny_towers import PREPROCESSOR
from vision import AFTER, BEFORE, store

RATE, N = 16000, 7200

PROGRAM = r"""
#include "llama.h"
#include "mtmd.h"
#include <cstdio>
#include <cstring>
#include <vector>

int main(int, char ** argv) {
    auto log = [](ggml_log_level level, const char * text, void *) {
        if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
    };
    llama_log_set(log, nullptr);
    mtmd_log_set(log, nullptr);
    llama_backend_init();
    llama_model * model = llama_model_load_from_file(argv[1], llama_model_default_params());
    mtmd_context_params params = mtmd_context_params_default();
    params.use_gpu = params.warmup = false;
    params.n_threads = 1;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    mtmd_context * context = model ? mtmd_init_from_file(argv[2], model, params) : nullptr;
    if (!context) return 1;
    std::vector<float> samples(480000);
    if (fread(samples.data(), sizeof(float), samples.size(), stdin) != samples.size()) return 2;
    const mtmd_bitmap * sound = mtmd_bitmap_init_from_audio(samples.size(), samples.data());
    mtmd_input_text text = { mtmd_default_marker(), strlen(mtmd_default_marker()), false, true };
    mtmd_input_chunks * chunks = mtmd_input_chunks_init();
    if (mtmd_tokenize(context, chunks, &text, &sound, 1)) return 3;
    for (size_t i = 0; i < mtmd_input_chunks_size(chunks); ++i) {
        const mtmd_input_chunk * chunk = mtmd_input_chunks_get(chunks, i);
        if (mtmd_input_chunk_get_type(chunk) != MTMD_INPUT_CHUNK_TYPE_AUDIO) continue;
        if (mtmd_encode_chunk(context, chunk)) return 4;
        const size_t n = mtmd_input_chunk_get_n_tokens(chunk) * llama_model_n_embd(model);
        // The second window has only silence.
        return fwrite(mtmd_get_output_embd(context), sizeof(float), n, stdout) == n ? 0 : 5;
    }
    return 6;
}
"""


def sound(n=N, rate=RATE, shift=0.0):
    """Two gliding tones with overtones, some noise, and a pause."""
    t = np.arange(n) / rate
    voice = lambda pitch, slide: sum(np.sin(2 * np.pi * k * (pitch + slide * t) * t + shift) / k for k in (1, 2, 3, 5))
    noise = np.random.default_rng(20261127).normal(0, 0.01, n)
    loud = np.clip(np.sin(2 * np.pi * 3.1 * t + 0.4 + shift), 0, 1)
    return 0.25 * loud * (voice(180, 150) + 0.5 * voice(410, -90)) + noise * (loud > 0)


def write_sounds(out):
    import soundfile
    import soxr
    import transformers
    mono = np.round(sound() * 32767).astype(np.int16)
    soundfile.write(out / "sound.wav", mono, RATE, subtype="PCM_16")
    soundfile.write(out / "sound.flac", mono, RATE, subtype="PCM_16")
    soundfile.write(out / "sound.mp3", mono.astype(np.float32) / 32768, RATE, format="MP3")
    decoded, rate = soundfile.read(out / "sound.mp3", dtype="float32")
    assert rate == RATE and decoded.ndim == 1
    (out / "sound.mp3.f32").write_bytes(decoded.astype("<f4").tobytes())
    stereo = np.stack([sound(8820, 44100), sound(8820, 44100, 0.5)], -1)
    stereo = np.round(stereo * 32767).astype(np.int16)
    soundfile.write(out / "stereo.wav", stereo, 44100, subtype="PCM_16")
    mean = (stereo.astype(np.float64) / 32768).mean(-1)
    (out / "stereo.f32").write_bytes(soxr.resample(mean, 44100, RATE, quality="VHQ").astype("<f4").tobytes())
    for n_mels in (80, 128):
        extractor = transformers.WhisperFeatureExtractor(feature_size=n_mels)
        made = extractor(samples(out), sampling_rate=RATE, padding=False, truncation=False, return_tensors="np")
        values = made["input_features"][0]
        assert values.shape == (n_mels, N // 160)
        (out / f"spectrogram-{n_mels}.f32").write_bytes(values.T.astype("<f4").tobytes())


def samples(out):
    """The samples of sound.wav, whose header has 44 bytes."""
    return np.frombuffer((out / "sound.wav").read_bytes()[44:], "<i2").astype(np.float32) / 32768


def extractor_of(config):
    """The feature extractor with windows of the length that a tiny model has positions for."""
    import transformers
    extractor = transformers.WhisperFeatureExtractor(feature_size=config.num_mel_bins)
    if positions := getattr(config, "max_source_positions", None):
        extractor.nb_max_frames = 2 * positions
        extractor.n_samples = extractor.nb_max_frames * extractor.hop_length
        extractor.chunk_length = extractor.n_samples / RATE
    return extractor


def packed(head, rows, logits=None):
    span = lambda part: float(part.max() - part.min())
    head = dict(n_rows=len(rows), n_embd=rows.shape[1], range=span(rows), **head)
    parts = [rows]
    if logits is not None:
        head |= dict(n_vocab=logits.shape[1], logits_range=span(logits))
        parts.append(logits[head["positions"]])
    assert all(np.isfinite(part).all() for part in parts)
    return json.dumps(head).encode() + b"\n" + b"".join(part.astype("<f4").tobytes() for part in parts)


def by_transformers(folder, spec, wave):
    import torch
    import transformers
    if "load" in spec:
        model = spec["load"](folder)
    else:
        config = transformers.AutoConfig.from_pretrained(folder)
        model, info = getattr(transformers, spec["class"]).from_pretrained(
            folder, config=config, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
        assert not set(info["missing_keys"]) - {"lm_head.weight"}, info["missing_keys"]
    model.eval()
    inputs, counts = spec["hear"](spec.get("extractor", extractor_of)(model.config.audio_config), wave)
    n_vocab, n_rows = model.config.text_config.vocab_size, sum(counts)
    # A token of the vocabulary that is not in the texts.
    model.config.audio_token_id = n_vocab - 1
    projected = []
    for name, module in model.named_modules():
        if name.endswith(spec.get("projector", "multi_modal_projector")):
            module.register_forward_hook(lambda module, inputs, output: projected.append(output))
    rng = np.random.default_rng(20261121)
    before, after = (rng.integers(3, n_vocab - 1, n).tolist() for n in (BEFORE, AFTER))
    tokens = torch.tensor([before + [n_vocab - 1] * n_rows + after])
    types = torch.zeros_like(tokens)
    types[0, BEFORE:BEFORE + n_rows] = 1
    more = spec["types"](types) if "types" in spec else {}
    with torch.no_grad():
        logits = model(input_ids=tokens, use_cache=False, **inputs, **more).logits[0].float().numpy()
    [rows] = projected
    rows = rows.reshape(len(counts), -1, rows.shape[-1])
    rows = torch.cat([window[:n] for window, n in zip(rows, counts)]).numpy()
    n, end = tokens.shape[1], BEFORE + n_rows
    positions = sorted({0, BEFORE - 1, BEFORE, BEFORE + n_rows // 2, end - 1, end, n - 4, n - 1})
    length = dict(n_samples=len(wave), n_silent=0, gain=1)
    if "load" in spec:
        return packed(length, rows)
    return packed(length | dict(before=before, after=after, positions=positions), rows, logits)


def by_mtmd(ctx, folder, wave):
    import arch
    import projectors
    from families import CHECKPOINTS
    from logits_reference import build_program
    n_silent = 1600
    wave = np.resize(wave, 30 * RATE).astype(np.float32)
    # Loud enough that the floor of mtmd's logarithm, 6e-8, is below the floor of the spectrogram.
    wave *= 2
    wave[-n_silent:] = 0
    program = build_program(PROGRAM, ctx.reference, ctx.libraries, ctx.scratch, ["tools/mtmd"], ["-lmtmd"])
    # Any text model with this embedding length: it is not run.
    name = "apertus"
    pre = json.loads((ctx.golden / "arch" / name / "expected.json").read_text())["pre"]
    text = arch.convert(ctx.checkpoint(name), ctx.scratch, "f32", pre, CHECKPOINTS[name])
    projector = projectors.convert(folder, ctx.scratch, "f32", {})
    ran = subprocess.run([program, text, projector], input=wave.tobytes(), capture_output=True)
    if ran.returncode:
        raise ValueError(f"libmtmd fails ({ran.returncode}): {ran.stderr.decode().strip()[:300]}")
    n_embd = json.loads((ctx.golden / "arch" / name / "config.json").read_text())["hidden_size"]
    return packed(dict(n_samples=len(wave), n_silent=n_silent, gain=2), np.frombuffer(ran.stdout, "<f4").reshape(-1, n_embd))


def make(ctx):
    import transformers
    transformers.utils.logging.set_verbosity_error()
    out = ctx.golden / "audio"
    out.mkdir(exist_ok=True)
    if not ctx.only:
        write_sounds(out)
    for name, spec in AUDIO.items():
        if not ctx.wants(name):
            continue
        files = {"preprocessor_config.json": PREPROCESSOR} if "vision_config" in spec["config"] else {}
        folder = store(ctx, "audio", name, spec, files)
        wave = np.resize(samples(out), spec.get("n_samples", N))
        data = by_mtmd(ctx, folder, wave) if spec.get("by") == "mtmd" else by_transformers(folder, spec, wave)
        (out / name / "features.bin").write_bytes(data)
        print(name, len(data), flush=True)
