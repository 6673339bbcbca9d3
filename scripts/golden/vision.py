"""Makes golden/vision/: tiny checkpoints of vision models, and the embeddings and logits that transformers computes for a picture.

picture.png, picture.jpg and picture.rgb are the same seeded picture and its pixels as Pillow reads them; `resized.json` has
digests of what Pillow makes of it in other sizes. A folder is a whole tiny checkpoint as in golden/projectors, with

  features.bin  a line of JSON, then f32, little-endian, row-major: the rows that the picture becomes, (n_rows, n_embd); the
                rows that go into the first layers of the text model, `n_deep` times as many; logits of the prompt, (positions,
                n_vocab). The prompt is `before`, the picture, `after`; `positions` counts all of its rows. `max_tokens` is how
                many rows a picture may become, where the family asks. Ranges are the largest number less the smallest.

Recipes are VISION of the families' golden.py, with the keys of tiny_towers.py and

  look        a function from model, picture and keys of the preprocessor to rows, rows of the first layers, inputs and ids. For
              a picture in tiles, instead of ids: a list of (text before a tile, number of its rows), and the text after the last
  repeat      (columns, rows): the picture is repeated in this grid
  types       a function from a mask of the picture's tokens (0, 1) to further inputs; none by default
  processor   keys of the preprocessor; PREPROCESSOR by default
  max_tokens  the number of rows that a picture may become
  tower_only  True: no logits, because the text part cannot be converted

Pictures are resized by the family's own preprocessor in transformers (by Pillow), with the bounds of mtmd where its file
has no key for them. Weights are four times those of golden/projectors, so that attention is far from even.
"""

import io
import json
import struct

import numpy as np

import checkpoint
from families import VISION
from lib import seed_of, sha256
from tiny_towers import PREPROCESSOR

SIZE = 45, 30
SIZES = [(32, 32), (48, 32), (16, 11), (120, 72), (45, 30), (7, 61), (1, 1)]
BEFORE, AFTER = 5, 9
# A token that replaces the special tokens between tiles, which tiny tokenizers lack.
MARK = 7


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
    for name in ("bilinear", "bicubic", "lanczos"):
        how = Image.Resampling[name.upper()]
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


def of_tiles(tiles, text_after, image_token):
    """Ids of a picture in tiles, and keys of the head."""
    marks = lambda text: [MARK] if text else []
    ids = [id for text, n_rows in tiles for id in marks(text) + [image_token] * n_rows] + marks(text_after)
    listed = [dict(text=text, ids=marks(text), n_rows=n_rows) for text, n_rows in tiles]
    return ids, dict(tiles=listed, text_after=text_after, ids_after=marks(text_after))


def features(folder, spec, processor):
    import torch
    import transformers
    from PIL import Image
    config = transformers.AutoConfig.from_pretrained(folder)
    model, info = getattr(transformers, spec["class"]).from_pretrained(
        folder, config=config, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    missing = [key for key in info["missing_keys"] if "head" not in key.rsplit(".", 2)[0] or "lm_head" in key]
    assert not [key for key in missing if key != "lm_head.weight"], missing
    model.eval()
    tokenizer = folder / "tokenizer.json"
    added = json.loads(tokenizer.read_text())["added_tokens"] if tokenizer.is_file() else []
    model.break_token = next((token["id"] for token in added if token["content"] == "[IMG_BREAK]"), None)
    n_vocab = model.config.text_config.vocab_size
    # One that no text here has, inside of the vocabulary.
    model.config.image_token_id = n_vocab - 1
    # Exactly the pixels of the file, as Pillow gives them to the preprocessor.
    with torch.no_grad():
        columns, lines = spec.get("repeat", (1, 1))
        seen = Image.fromarray(np.tile(picture(), (lines, columns, 1)))
        rows, deep, inputs, ids = spec["look"](model, seen, processor)
        tiles = {}
        if isinstance(ids, tuple):
            ids, tiles = of_tiles(*ids, model.config.image_token_id)
        rng = np.random.default_rng(20261121)
        before, after = (rng.integers(3, n_vocab - 1, n).tolist() for n in (BEFORE, AFTER))
        tokens = torch.tensor([before + ids + after])
        types = torch.zeros_like(tokens)
        types[0, len(before):len(before) + len(ids)] = 1
        more = spec["types"](types) if "types" in spec else {}
        logits = model(input_ids=tokens, use_cache=False, **inputs, **more).logits[0].float().numpy()
    n = tokens.shape[1]
    positions = sorted({0, BEFORE - 1, BEFORE, BEFORE + 1, BEFORE + len(ids) // 2, BEFORE + len(ids) - 1,
                        BEFORE + len(ids), n - 4, n - 1})
    if spec.get("tower_only"):
        positions = []
    rows = rows.float().numpy()
    deep = [part.float().numpy() for part in deep]
    assert all(np.isfinite(part).all() for part in (rows, logits, *deep))
    span = lambda part: float(part.max() - part.min())
    head = dict(n_rows=len(rows), n_embd=rows.shape[1], n_deep=len(deep), range=max(map(span, [rows, *deep])), before=before,
                after=after, positions=positions, n_vocab=logits.shape[1], logits_range=span(logits))
    if "max_tokens" in spec:
        head["max_tokens"] = spec["max_tokens"]
    if "repeat" in spec:
        head["repeat"] = spec["repeat"]
    head |= tiles
    parts = [rows, *deep, logits[np.array(positions, int)]]
    return json.dumps(head).encode() + b"\n" + b"".join(part.astype("<f4").tobytes() for part in parts)


def store(ctx, kind, name, spec, files):
    """Makes the checkpoint of a recipe with seeded weights and these files, and stores it in golden/KIND; the whole folder."""
    from arch import make_checkpoint
    folder = ctx.scratch / kind / name
    tokenizer = make_checkpoint(name, spec | dict(files=files), folder)
    weights = checkpoint.seed_weights(folder, seed_of(name), kinds(folder / "model.safetensors"))
    checkpoint.store(folder, seed_of(name), weights, tokenizer, "tokenizer_config" in spec, ctx.golden, kind)
    return folder


def make(ctx):
    import transformers
    transformers.utils.logging.set_verbosity_error()
    out = ctx.golden / "vision"
    out.mkdir(exist_ok=True)
    if not ctx.only:
        write_pictures(out)
    for name, spec in VISION.items():
        if not ctx.wants(name):
            continue
        processor = spec.get("processor", PREPROCESSOR)
        files = {"preprocessor_config.json": processor | spec.get("preprocessor", {})}
        folder = store(ctx, "vision", name, spec, files)
        data = features(folder, spec, processor)
        (out / name / "features.bin").write_bytes(data)
        print(name, len(data), flush=True)
