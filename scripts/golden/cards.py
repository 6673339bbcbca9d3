"""Makes golden/config/general.json: the general.* keys that the reference makes of model cards.

One entry for each: front matter, generation config, `_name_or_path`, folder name, overrides,
model name, number of parameters, and the keys as the writer has them.
"""

import json
import logging
import tempfile
from pathlib import Path

VARIANTS = [
    dict(folder="llama"), dict(folder="Llama-3.2-1B-Instruct"), dict(folder="two words 7B"),
        dict(folder="x-7B-chat-v2"),
    dict(folder="a", path="meta-llama/Llama-2-7b-hf"), dict(folder="a", path="./local-7B"),
        dict(folder="a", path="/abs"),
    dict(folder="a-b", path="/home/me/models/x-7B"), dict(folder="folder-1B", path=""),
    dict(folder="f", card={}), dict(folder="f", card=dict(license="mit")),
        dict(folder="f", card=dict(license=["mit", "gpl"])),
    dict(folder="f", card=dict(license="other", license_name="n", license_link="l")),
        dict(folder="f", card=dict(license=None)),
    dict(folder="f", card=dict(license="", tags=[], languages=[])),
        dict(folder="f", card=dict(language="en", languages=["de", "fr"])),
    dict(folder="f", card=dict(language=["en"], tags="one", pipeline_tag="text-generation")),
    dict(folder="f", card=dict(pipeline_tag="fill-mask")), dict(folder="f", card=dict(tags=None, language=None)),
    dict(folder="f", card=dict(name="n", model_name="m", author="a", model_author="b", model_creator="c")),
    dict(folder="f", card=dict(model_name="m", model_creator="c", model_type="llama", model_version="1")),
    dict(folder="f", card=dict(version="v3", organization="o", description="d", finetune="ft", basename="bn",
        size_label="3B",
                               url="u", doi="do", uuid="uu", repo_url="ru")),
    dict(folder="f", card=dict(model_organization="o", model_description="d", model_finetune="ft", model_basename="bn",
                               model_size_label="3B", model_url="u", model_doi="do", model_uuid="uu",
                                   model_repo_url="ru")),
    dict(folder="f-13B-tune", card=dict(basename="bn", finetune="")),
    dict(folder="f", card=dict(base_model="org/name-7B-v1")),
        dict(folder="f", card=dict(base_model=["a/b", "c", "d/e/f", "with space"])),
    dict(folder="f", card=dict(base_models=["x/y"], base_model_sources=["z"])),
        dict(folder="f", card=dict(base_model=None)),
    dict(folder="f", card=dict(base_model=[])), dict(folder="f", card=dict(base_model=None, base_models=["x/y"])),
    dict(folder="f", card=dict(base_model=[dict(name="N", author="A", version="V", organization="O", description="D",
        url="U",
                                                doi="DO", uuid="UU", repo_url="RU", other="?")])),
    dict(folder="f", card=dict(base_model=["https://huggingface.co/org/name-v2",
        "https://huggingface.co/org/name/tree/main",
                                           "http://huggingface.co/o/n", "https://example.org/a/b", "ssh://git/x",
                                           "https://huggingface.co/only"])),
    dict(folder="f", card=dict(datasets="one")), dict(folder="f",
        card=dict(datasets=["a/b-v1.5", "https://huggingface.co/datasets/x/y"])),
    dict(folder="f", card=dict(dataset="d", dataset_sources=["e"])),
        dict(folder="f", card=dict(datasets=[dict(name="N", repo_url="R")])),
    dict(folder="f", generation=dict(temperature=1, top_k=50, top_p=0.95, min_p=0.1, repetition_penalty=1.05)),
    dict(folder="f", generation=dict(penalty_repeat=1.5, repetition_penalty=1.05, penalty_last_n=64, mirostat=2,
        mirostat_tau=5.0,
                                     mirostat_eta=0.1, xtc_probability=0.5, xtc_threshold=0.2,
                                         sequence="temperature;top_k")),
    dict(folder="f", generation=dict(temperature=None, do_sample=True, eos_token_id=[1, 2])),
    dict(folder="f", overrides={"general.name": "Over", "general.author": "Me", "general.license.name": "LN",
        "general.license": "x",
                                "general.tags": ["t"], "general.languages": ["xx"], "general.sampling.temp": 0.25,
                                "general.base_models": [dict(name="B")], "general.datasets": [dict(name="D", url="U")],
                                "general.url": "U", "general.quantized_by": "Q", "general.source.doi": "S"},
         card=dict(name="Card", license="mit", tags=["a"], base_model="a/b")),
    dict(folder="f", overrides={"general.version": None, "general.size_label": "9B"}, card=dict(version="v1")),
    dict(folder="f", model_name="Given", card=dict(name="Card"), overrides={"general.name": "Over"}),
    dict(folder="x-70b-chat", total_params=135_000_000), dict(folder="x-7b-chat", total_params=7_000_000_000),
    dict(folder="x-8x7B-v0.1", total_params=46_702_792_704), dict(folder="x", total_params=1_000_000_000_000),
    dict(folder="x", total_params=1234), dict(folder="x", total_params=1), dict(folder="x", total_params=999_999_999),
]


def make(ctx) -> None:
    logging.disable(logging.CRITICAL)
    import gguf
    import numpy
    kinds = {"STRING": "str", "UINT32": "u32", "INT32": "i32", "FLOAT32": "f32", "ARRAY": "arr[str]"}
    entries = []
    for variant in VARIANTS:
        total = variant.setdefault("total_params", 5000)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / variant["folder"]
            folder.mkdir()
            if "card" in variant:
                (folder / "README.md").write_text("---\n" + json.dumps(variant["card"]) + "\n---\n")
            if "generation" in variant:
                (folder / "generation_config.json").write_text(json.dumps(variant["generation"]))
            config = {"_name_or_path": variant["path"]} if "path" in variant else {}
            (folder / "config.json").write_text(json.dumps(config))
            overrides = folder / "overrides.json"
            overrides.write_text(json.dumps(variant.get("overrides", {})))
            metadata = gguf.Metadata.load(overrides, folder, variant.get("model_name"), total)
            if metadata.name is None:
                metadata.name = folder.name
            if metadata.size_label is None and total > 0:
                metadata.size_label = gguf.size_label(total, total, 0, 0)
            writer = gguf.GGUFWriter(path=None, arch="llama")
            metadata.set_gguf_meta_model(writer)
        variant["keys"] = [[key, kinds[value.type.name], float(numpy.float32(value.value))
            if value.type.name == "FLOAT32" else value.value]
                           for key, value in writer.kv_data[0].items() if key != "general.architecture"]
        entries.append(variant)
    out = ctx.golden / "config" / "general.json"
    out.write_text("[\n" + ",\n".join(json.dumps(entry) for entry in entries) + "\n]\n")
