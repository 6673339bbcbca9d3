"""Makes golden/gguf-handcrafted: the files that llama.cpp's tests/test-gguf.cpp makes by hand, by its own code, and what it expects of
each. Needs a C++ compiler.

Its random bytes stand for truth values too, and the specification wants 0 or 1: here the lowest bit of each is kept, so that a
file has the fault that its name says and no other. KV_BAD_BOOL is one of its good files with a byte that is neither.

The data of its files are the bytes 0, 1, ... 255, 0, ...; they are counted in the list and not stored.
"""

import hashlib
import re
import struct
import subprocess
import tempfile
from pathlib import Path

SEED = 42
PROGRAM = r"""
#define main test_gguf_main
#include "test-gguf.cpp"
#undef main
int main(int argc, char ** argv) {
    for (auto kind : {KINDS}) {
        FILE * file = get_handcrafted_file(%d, kind);
        FILE * copy = fopen((std::string(argv[1]) + "/" + handcrafted_file_type_name(kind)).c_str(), "wb");
        for (int c; (c = fgetc(file)) != EOF;) fputc(c, copy);
        fclose(copy);
        printf("%%s %%d %%s\n", handcrafted_file_type_name(kind).c_str(), kind, expect_context_not_null(kind) ? "loads" : "refused");
    }
}
"""
WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def bools(data):
    """Where truth values lie, as far as the pairs can be read."""
    found, at = [], 24
    (pairs,) = struct.unpack_from("<Q", data, 16)
    try:
        for _ in range(min(pairs, 1000)):
            (length,) = struct.unpack_from("<Q", data, at)
            at += 8 + length
            (kind,) = struct.unpack_from("<I", data, at)
            at += 4
            count = 1
            if kind == 9:
                kind, count = struct.unpack_from("<IQ", data, at)
                at += 12
            if kind == 8:
                for _ in range(count):
                    (length,) = struct.unpack_from("<Q", data, at)
                    at += 8 + length
                continue
            if kind == 7:
                found += range(at, at + count)
            at += WIDTHS[kind] * count
    except (struct.error, KeyError, OverflowError):
        pass
    return [at for at in found if at < len(data)]


def make(ctx):
    tests = Path(ctx.reference) / "tests"
    source = (tests / "test-gguf.cpp").read_text()
    kinds = re.findall(r"^    (HANDCRAFTED_\w+) += ", source, re.MULTILINE)
    out = ctx.golden / "gguf-handcrafted"
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "files").mkdir()
        program = (PROGRAM % SEED).replace("KINDS", ", ".join(kinds))
        (folder / "all.cpp").write_text(program)
        libraries = Path(ctx.build) / "bin"
        ggml = Path(ctx.reference) / "ggml"
        subprocess.run(["c++", "-std=c++17", "-O1", f"-I{ggml}/include", f"-I{ggml}/src", f"-I{tests}", "all.cpp", "-o", "all",
            f"-L{libraries}", "-lggml", "-lggml-base", "-lggml-cpu", f"-Wl,-rpath,{libraries}"], cwd=folder, check=True)
        listed = subprocess.run(["./all", "files"], cwd=folder, check=True, capture_output=True, text=True).stdout
        rows = []
        for line in listed.splitlines():
            name, kind, verdict = line.split()
            data = bytearray((folder / "files" / name).read_bytes())
            for at in bools(data):
                data[at] &= 1
            rows.append((name, verdict, data, int(kind) > 3000))
    good = bytearray(next(data for name, _, data, _ in rows if name == "KV_RANDOM_KV"))
    good[bools(good)[0]] = 2
    rows.append(("KV_BAD_BOOL", "refused", good, False))
    lines = []
    for name, verdict, data, has_data in rows:
        n_data = 0
        # From behind: every byte is one more than the one before it, and the first is 0.
        if has_data:
            n_data = 1
            while len(data) > n_data and data[-n_data - 1] == (data[-n_data] - 1) % 256:
                n_data += 1
            n_data -= (256 - data[-n_data]) % 256 if n_data > 1 else n_data
        assert data[len(data) - n_data :] == bytes(i % 256 for i in range(n_data))
        (out / f"{name}.header").write_bytes(data[: len(data) - n_data])
        lines.append(f"{name}\t{verdict}\t{n_data}\t{hashlib.sha256(data).hexdigest()}\n")
    (out / "list.tsv").write_text("".join(lines))
