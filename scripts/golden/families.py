"""Recipes of golden checkpoints: the tables of crates/models/src/families/FAMILY/golden.py, each merged over all
families in the order of their names.

A golden.py imports what families share from tiny_models.py, tiny_parts.py, tiny_towers.py, logits_own.py, headers.py and
recipes.py. It imports torch and transformers only inside of functions, so that makers without them can read it. Tables:

  CHECKPOINTS   golden/arch: recipes by name; tiny_models.py lists their keys
  PROJECTORS    golden/projectors: the same; tiny_towers.py lists further keys
  VISION        golden/vision: the same; vision.py lists further keys
  AUDIO         golden/audio: the same; audio.py lists further keys
  FOREIGN       golden/foreign: the same; foreign.py lists further keys
  TOKENIZERS    kinds of tokenizers that no other family has, as KINDS of tiny_tokenizers.py
  WIDE          golden/wide: checkpoints, and keys of their config besides WIDE_TEXT
  LOGITS        golden/logits: checkpoints that transformers does not run as they are; logits.py lists keys
  LOGITS_FILES  golden/logits/files.json: (shapes of a layer, keys) by architecture
  DRAFTS        golden/drafts: (value of llama.cpp's --spec-type, checkpoint of the target) by the checkpoint of the draft
  ENCODER_TYPES, TOWER_TYPES  golden/logits: model types of encoders, and of models with towers
  RECORDS       golden/check-against: checkpoints, and the class of their tokenizer or None for the usual one
  ADAPTERS      golden/lora: dict(base, targets, embedding, norms, dtype, more) by name. `base` is a checkpoint, `targets`
                are endings of names of matrices that have a pair; embedding and norms as mergekit-extract-lora has them
  MEMORY        golden/memory: functions that return a header, by name
  SNAPSHOTS     golden/recipes/snapshots: (architecture, heading, tensors) of a real model
"""

import importlib.util
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "crates/models/src/families"


def read(path: Path):
    """A golden.py as a module."""
    spec = importlib.util.spec_from_file_location(f"golden_{path.parent.name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Leaves no __pycache__ in the sources of the crate.
sys.dont_write_bytecode = True
MODULES = [read(path) for path in sorted(FOLDER.glob("*/golden.py"))]


def merged(table: str) -> dict:
    """The table with the rows of all families."""
    all_rows = {}
    for module in MODULES:
        rows = getattr(module, table, {})
        if twice := all_rows.keys() & rows.keys():
            raise SystemExit(f"{module.__file__}: duplicate in {table}: {', '.join(twice)}")
        all_rows |= rows
    return all_rows


CHECKPOINTS = merged("CHECKPOINTS")
PROJECTORS = merged("PROJECTORS")
VISION = merged("VISION")
AUDIO = merged("AUDIO")
FOREIGN = merged("FOREIGN")
TOKENIZERS = merged("TOKENIZERS")
WIDE = merged("WIDE")
LOGITS = merged("LOGITS")
LOGITS_FILES = merged("LOGITS_FILES")
DRAFTS = merged("DRAFTS")
RECORDS = merged("RECORDS")
ADAPTERS = merged("ADAPTERS")
MEMORY = merged("MEMORY")
SNAPSHOTS = merged("SNAPSHOTS")
ENCODER_TYPES, TOWER_TYPES = (set().union(*(getattr(module, table, ()) for module in MODULES))
                              for table in ("ENCODER_TYPES", "TOWER_TYPES"))
