"""Makes golden/names/model-ids.json: what the reference takes model names for.

"""

import json

NAMES = """
meta-llama/Llama-2-7b-chat-hf
Meta-Llama-3.1-8B-Instruct
SmolLM2-135M-Instruct
HuggingFaceTB/SmolLM2-1.7B
Mixtral-8x7B-v0.1
mistralai/Mistral-7B-Instruct-v0.2
Mistral-Small-24B-Instruct-2501
Qwen2.5-Coder-0.5B-Instruct-GGUF
Qwen/Qwen3-235B-A22B-Instruct-2507
Phi-3-mini-4k-instruct
microsoft/Phi-3-medium-128k-instruct
NousResearch/Hermes-2-Pro-Llama-3-8B
bigscience/bloom-7b1-petals
bloom-7b1
stablelm-2-1_6b-chat
deepseek-coder-1.3b-instruct
Grok-1
gpt2
gpt2-xl
gpt2-medium
tiny-random-llama
llama
my-lora-adapter-chat-lora
vision-model-vision
a
-
--
7B
v1.0
1.0
x-7B
X-7b-7B-7b
x-small-7B
x-small
x-SMALL-large
x-xxl
x-1.5T-big
base-v1-v2
base-v1-tune-v2
Base-1.0-2.0-3.0
iter2-model-iter5
model-f16
model-Q4_0
model-q4_k_m-7b
model-iq2_xxs
model-bf16-FP32-chat
3-model-7B
3b-model
./model-7B
../x/model
/abs
/abs/model-7B
org/
org/name/more-7B
two words-7B
a sentence
Ünïcode-ß-7B-straße
under_score-name-7B
dots.in.name-1.1B
8x7B-first
x-8x7B
x-8x22b-instruct
x-A2.7B-chat
x-a3b
x-16x1.5b
x-0.1M-chat
x-100k
x-135m
x-128K-ctx
x-120b-1M
x-500kb
x-7b2
x-12b34
don't-panic-7b
O'Neil-model
CamelCase-lower-UPPER
v2-alpha
alpha-v2-beta
alpha-beta-v2
alpha-2-beta-7b
model-1_000m
x-7B-
-x-7B
x--7B
x-Chat-INSTRUCT
x-7Bx
x-K
x-1K
""".strip("\n").splitlines() + ["", " ", " padded-name ", "tab\tname"]


def make(ctx) -> None:
    from gguf import Metadata
    cases = []
    for name in NAMES:
        for total_params in (0, 135_000_000, 7_241_732_096, 46_702_792_704, -20_000_000):
            cases.append(dict(id=name, total_params=total_params, title=Metadata.id_to_title(name),
                              components=Metadata.get_model_id_components(name, total_params)))
    out = ctx.golden / "names" / "model-ids.json"
    out.write_text("[\n" + ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases) + "\n]\n")
