"""Makes golden/vision/: tiny checkpoints with eyes, what transformers makes of a picture, and what it predicts behind it.

picture.png, picture.jpg and picture.rgb are the same seeded picture and its pixels as Pillow reads them; `resized.json` has
digests of what Pillow makes of it in other sizes. A folder is a whole tiny checkpoint as in golden/projectors, with

  features.bin  a line of JSON, then f32, little-endian, row-major: the rows that the picture becomes, (n_rows, n_embd); the
                rows that go into the first layers of the text model, `n_deep` times as many; logits of the prompt, (positions,
                n_vocab). The prompt is `before`, the picture, `after`; `positions` counts all of its rows. `max_tokens` is how
                many rows a picture may become, where the family asks. Ranges are the largest number less the smallest.

Pictures are resized by the family's own preprocessor in transformers (by Pillow), with the bounds of mtmd where its file
has no key for them. Weights are four times those of golden/projectors, so that attention is far from even.
"""

import io
import json
import struct

import numpy as np

import checkpoint
from families_projectors import GEMMA4, GEMMA4V, PIXTRAL, QWEN3, SIGLIP, tower
from families_projectors import QWEN35 as QWEN35_TOWER
from families_wrappers import AS_IT_IS, QWEN35, ROPE3, ROPE35
from lib import seed_of, sha256

SIZE = 45, 30
SIZES = [(32, 32), (48, 32), (16, 11), (120, 72), (45, 30), (7, 61), (1, 1)]
BEFORE, AFTER = 5, 9
BREAK = dict(special=["[IMG_BREAK]"])
MEANS = dict(image_mean=[0.5, 0.25, 0.125], image_std=[0.5, 0.75, 0.1])
PLAIN = dict(image_mean=[0.0, 0.0, 0.0], image_std=[1.0, 1.0, 1.0])
GEMMA4_TEXT = dict(GEMMA4, use_bidirectional_attention="vision")
VISION = {
    "qwen3vl": tower("qwen3_vl", "Qwen3VLForConditionalGeneration", dict(
        head_dim=8, num_hidden_layers=4, rope_parameters=dict(ROPE3, mrope_interleaved=True), rms_norm_eps=1e-6),
        vision_config=QWEN3),
    "qwen3.5": tower("qwen3_5", "Qwen3_5ForConditionalGeneration", dict(QWEN35, rope_parameters=ROPE35), AS_IT_IS,
        vision_config=QWEN35_TOWER),
    "gemma3": tower("gemma3", "Gemma3ForConditionalGeneration", dict(
        head_dim=8, num_hidden_layers=6, sliding_window=12, query_pre_attn_scalar=8), vision_config=SIGLIP,
        mm_tokens_per_image=16),
    "pixtral": tower("llava", "LlavaForConditionalGeneration", dict(model_type="mistral", head_dim=8, num_hidden_layers=2),
        BREAK, vision_config=dict(PIXTRAL, image_size=32), vision_feature_layer=-1, vision_feature_select_strategy="full"),
    "mistral3": tower("mistral3", "Mistral3ForConditionalGeneration", dict(
        model_type="mistral", head_dim=8, num_hidden_layers=2, sliding_window=None, rms_norm_eps=1e-5), BREAK,
        vision_config=dict(PIXTRAL, image_size=32)),
    "gemma4": tower("gemma4", "Gemma4ForConditionalGeneration", GEMMA4_TEXT, AS_IT_IS,
        vision_config=dict(GEMMA4V, position_embedding_size=64), audio_config=None),
    "gemma4-clipped": tower("gemma4", "Gemma4ForConditionalGeneration", dict(
        GEMMA4_TEXT, hidden_size_per_layer_input=4), AS_IT_IS, audio_config=None,
        vision_config=dict(GEMMA4V, position_embedding_size=64, use_clipped_linears=True, standardize=True)),
}


def picture():
    """A picture with edges, slopes and grain."""
    width, height = SIZE
    y, x = np.mgrid[:height, :width]
    grain = np.random.default_rng(20261122).integers(0, 60, (height, width, 3))
    slopes = np.stack([4 * x, 6 * y, 255 - 3 * x - 2 * y], -1)
    disc = ((x - 15) ** 2 + (y - 12) ** 2 < 64)[..., None] * np.array([90, -60, 40])
    return np.clip(slopes + grain + disc, 0, 255).astype(np.uint8)


def write_pictures(out):
    from PIL import Image
    pixels = picture()
    image = Image.fromarray(pixels)
    image.save(out / "picture.png", optimize=True)
    # With and without chroma sampled down, as a sequence of rows and progressive.
    image.save(out / "picture.jpg", quality=95, subsampling=0)
    image.save(out / "picture-420.jpg", quality=90, subsampling=2, progressive=True)
    (out / "picture.rgb").write_bytes(pixels.tobytes())
    resized = {}
    for name, how in (("bilinear", Image.Resampling.BILINEAR), ("bicubic", Image.Resampling.BICUBIC)):
        for size in SIZES:
            resized[f"{name} {size[0]} {size[1]}"] = sha256(np.asarray(image.resize(size, how)).tobytes())
    for name in ("picture.jpg", "picture-420.jpg"):
        with io.BytesIO((out / name).read_bytes()) as file:
            decoded = np.asarray(Image.open(file).convert("RGB"))
        (out / f"{name}.rgb").write_bytes(decoded.tobytes())
    (out / "resized.json").write_text(json.dumps(resized, indent=2) + "\n")


def kinds(path):
    """Larger matrices than usual; the upper bounds of what is clipped above the lower ones."""
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    made = {}
    for name, entry in json.loads(data[8:8 + n]).items():
        if name != "__metadata__" and name.endswith("_max"):
            made[name] = "one"
        elif name != "__metadata__" and len(entry["shape"]) > 1:
            made[name] = "wide"
        elif name.endswith(("std_scale", "layer_scalar")):
            made[name] = "near-one"
    return made


def qwen3vl(model, image, processor):
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil as Processor
    # A patch of 4 and squares of 2 x 2: 64 pixels to an embedding, of which mtmd takes 8 to 4096.
    size = dict(shortest_edge=8 * 64, longest_edge=4096 * 64)
    made = Processor(size=size, patch_size=4, merge_size=2, temporal_patch_size=2, **processor)(image, return_tensors="pt")
    out = model.model.get_image_features(made["pixel_values"], made["image_grid_thw"], return_dict=True)
    rows = out.pooler_output[0]
    deep = getattr(out, "deepstack_features", None) or []
    deep = [part[0] if isinstance(part, (tuple, list)) else part for part in deep]
    return rows, deep, dict(made), [model.config.image_token_id] * len(rows)


def gemma3(model, image, processor):
    from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil as Processor
    made = Processor(size=dict(height=32, width=32), **processor)(image, return_tensors="pt")
    pixels = dict(pixel_values=made["pixel_values"])
    rows = model.model.get_image_features(**pixels, return_dict=True).pooler_output[0]
    return rows, [], pixels, [model.config.image_token_id] * len(rows)


def pixtral(model, image, processor):
    import torch
    from transformers.models.pixtral.image_processing_pil_pixtral import PixtralImageProcessorPil as Processor
    vision, side = model.config.vision_config, getattr(model.config, "spatial_merge_size", 1)
    factor = vision.patch_size * side
    made = Processor(size=dict(longest_edge=vision.image_size), patch_size=dict(height=factor, width=factor),
                     **processor)(image, return_tensors="pt")
    inputs = dict(pixel_values=made["pixel_values"], image_sizes=torch.as_tensor(made["image_sizes"]))
    rows = model.model.get_image_features(**inputs, return_dict=True).pooler_output[0]
    height, width = inputs["image_sizes"][0].tolist()
    line = [model.config.image_token_id] * (width // factor) + [model.break_token]
    ids = (line * (height // factor))[:-1]
    # The token between rows of embeddings: its row is the file's copy of it.
    placed = model.get_input_embeddings().weight[torch.tensor(ids)].clone()
    placed[torch.tensor(ids) == model.config.image_token_id] = rows
    return placed, [], inputs, ids


def gemma4(model, image, processor):
    from transformers.models.gemma4.image_processing_pil_gemma4 import Gemma4ImageProcessorPil as Processor
    vision = model.config.vision_config
    made = Processor(max_soft_tokens=70, patch_size=vision.patch_size, pooling_kernel_size=vision.pooling_kernel_size,
                     do_normalize=False)(image, return_tensors="pt")
    inputs = dict(pixel_values=made["pixel_values"], image_position_ids=made["image_position_ids"])
    rows = model.model.get_image_features(**inputs, return_dict=True).pooler_output[0]
    return rows, [], inputs, [model.config.image_token_id] * len(rows)


HOW = {"qwen3.5": qwen3vl} | dict(qwen3vl=qwen3vl, gemma3=gemma3, pixtral=pixtral, mistral3=pixtral, gemma4=gemma4)


def features(name, folder, spec, processor):
    import torch
    import transformers
    from PIL import Image
    config = transformers.AutoConfig.from_pretrained(folder)
    model, info = getattr(transformers, spec["class"]).from_pretrained(
        folder, config=config, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    missing = [key for key in info["missing_keys"] if "head" not in key.rsplit(".", 2)[0] or "lm_head" in key]
    assert not [key for key in missing if key != "lm_head.weight"], missing
    model.eval()
    added = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    model.break_token = next((token["id"] for token in added if token["content"] == "[IMG_BREAK]"), None)
    n_vocab = model.config.text_config.vocab_size
    # One that no text here has, inside of the vocabulary.
    model.config.image_token_id = n_vocab - 1
    family = name.partition("-")[0]
    # Exactly the pixels of the file, as Pillow gives them to the preprocessor.
    with torch.no_grad():
        rows, deep, inputs, ids = HOW[family](model, Image.fromarray(picture()), processor)
        rng = np.random.default_rng(20261121)
        before, after = (rng.integers(3, n_vocab - 1, n).tolist() for n in (BEFORE, AFTER))
        tokens = torch.tensor([before + ids + after])
        types = torch.zeros_like(tokens)
        types[0, len(before):len(before) + len(ids)] = 1
        more = dict(gemma3=dict(token_type_ids=types), gemma4=dict(mm_token_type_ids=types),
                    qwen3vl=dict(mm_token_type_ids=types.int())).get(family.replace("3.5", "3vl"), {})
        logits = model(input_ids=tokens, use_cache=False, **inputs, **more).logits[0].float().numpy()
    n = tokens.shape[1]
    positions = sorted({0, BEFORE - 1, BEFORE, BEFORE + 1, BEFORE + len(ids) // 2, BEFORE + len(ids) - 1,
                        BEFORE + len(ids), n - 4, n - 1})
    rows = rows.float().numpy()
    deep = [part.float().numpy() for part in deep]
    assert all(np.isfinite(part).all() for part in (rows, logits, *deep))
    span = lambda part: float(part.max() - part.min())
    head = dict(n_rows=len(rows), n_embd=rows.shape[1], n_deep=len(deep), range=max(map(span, [rows, *deep])), before=before,
                after=after, positions=positions, n_vocab=logits.shape[1], logits_range=span(logits))
    if family == "gemma4":
        head["max_tokens"] = 70
    parts = [rows, *deep, logits[positions]]
    return json.dumps(head).encode() + b"\n" + b"".join(part.astype("<f4").tobytes() for part in parts)


def make(ctx):
    import transformers
    from arch import make_checkpoint
    transformers.utils.logging.set_verbosity_error()
    out = ctx.golden / "vision"
    out.mkdir(exist_ok=True)
    if not ctx.only:
        write_pictures(out)
    for name, spec in VISION.items():
        if not ctx.wants(name):
            continue
        folder = ctx.scratch / "vision" / name
        processor = PLAIN if name.startswith("gemma4") else MEANS
        files = {"preprocessor_config.json": dict(processor, image_seq_length=16) if name == "gemma3" else processor}
        tokenizer = make_checkpoint(name, spec | dict(files=files), folder)
        weights = checkpoint.seed_weights(folder, seed_of(name), kinds(folder / "model.safetensors"))
        checkpoint.store(folder, seed_of(name), weights, tokenizer, "tokenizer_config" in spec, ctx.golden, "vision")
        data = features(name, folder, spec, processor)
        (out / name / "features.bin").write_bytes(data)
        print(name, len(data), flush=True)
