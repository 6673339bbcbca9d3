"""Takes the codebooks of the IQ types out of the reference's source.

Prints the SHA-256 of the little-endian bytes of every table, both the encoder's (packed codes, inside
`iq2xs_init_impl` and `iq3xs_init_impl` of ggml/src/ggml-quants.c) and the decoder's (expanded values,
ggml/src/ggml-common.h). The test `crates/quant/src/grids/tests.rs` holds these sums. With `--input write=1` the packed
codes become one Rust file for each grid; run rustfmt on them afterwards. Needs nothing but Python.
"""

import re
import struct

from lib import sha256

ENCODER = {  # name here -> table in ggml-quants.c, the function that holds it, dimensions, bits, used by
    "iq2_xxs": ("kgrid_2bit_256", "iq2xs_init_impl", 8, 2, "IQ2_XXS"),
    "iq2_xs": ("kgrid_2bit_512", "iq2xs_init_impl", 8, 2, "IQ2_XS"),
    "iq2_s": ("kgrid_2bit_1024", "iq2xs_init_impl", 8, 2, "IQ2_S"),
    "iq1": ("kgrid_1bit_2048", "iq2xs_init_impl", 8, 2, "IQ1_S and IQ1_M"),
    "iq3_xxs": ("kgrid_256", "iq3xs_init_impl", 4, 3, "IQ3_XXS"),
    "iq3_s": ("kgrid_512", "iq3xs_init_impl", 4, 3, "IQ3_S"),
}
DECODER = {  # table in ggml-common.h -> struct code
    "iq2xxs_grid": "Q", "iq2xs_grid": "Q", "iq2s_grid": "Q", "iq1s_grid": "Q", "iq3xxs_grid": "I", "iq3s_grid": "I",
    "ksigns_iq2xs": "B", "kmask_iq2xs": "B", "kvalues_iq4nl": "b",
}


def numbers(text):
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    return [int(word, 0) for word in re.findall(r"-?(?:0x[0-9a-fA-F]+|\d+)", text)]


def make(ctx):
    grids = ctx.golden.parent / "crates/quant/src/grids"
    quants = (ctx.reference / "ggml/src/ggml-quants.c").read_text()
    common = (ctx.reference / "ggml/src/ggml-common.h").read_text()
    for name, (table, function, dims, bits, users) in ENCODER.items():
        match = re.search(rf"static const uint16_t {table}\[\w+\] = \{{(.*?)\}};", quants, re.S)
        codes = numbers(match[1])
        assert len(codes) & (len(codes) - 1) == 0, table
        total = sha256(struct.pack(f"<{len(codes)}H", *codes))
        print(f"{table:16} {len(codes):5} u16  {total}")
        if "write" in ctx.inputs:
            lines = [
                f"//! The {len(codes)} codebook points of {users}: {dims} digits of {bits} bits each, lowest bits first.",
                "//!",
                f"//! Origin: table `{table}` in `{function}`, `ggml/src/ggml-quants.c` of llama.cpp (as vendored in",
                "//! llama-cpp-python 0.3.36), written by `scripts/golden/iq_grids.py`.",
                "",
                "/// The packed points, in the order of their index.",
                f"pub const CODES: [u16; {len(codes)}] = [{', '.join(map(str, codes))}];",
            ]
            (grids / f"{name}.rs").write_text("\n".join(lines) + "\n")
    for table, code in DECODER.items():
        match = re.search(rf"GGML_TABLE_BEGIN\(\w+, {table}, (\w+)\)(.*?)GGML_TABLE_END", common, re.S)
        values = numbers(match[2])
        total = sha256(struct.pack(f"<{len(values)}{code}", *values))
        print(f"{table:16} {len(values):5} {dict(Q='u64', I='u32', B='u8', b='i8')[code]:4} {total}")

