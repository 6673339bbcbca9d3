#!/usr/bin/env bash
# Makes golden/cli/smollm2.txt: digests of what the reference's two steps make of a checkpoint.
#
#   scripts/golden/two_step.sh REFERENCE BIN CHECKPOINT WORK        (run by scripts/golden/make)
#
#   REFERENCE   root of the llama.cpp tree
#   BIN         folder of its llama-quantize
#   CHECKPOINT  the folder that scripts/real-models exports (its name is part of the metadata)
#   WORK        a folder for the files; they stay, to be compared byte by byte
#
# Needs python3 (or $PYTHON) with torch, transformers, safetensors and sentencepiece.
set -euo pipefail

if [ $# -ne 4 ]; then
    sed -n '2,10p' "$0" >&2
    exit 2
fi
reference=$1 quantize=$2/llama-quantize checkpoint=$3 work=$4
golden=$(cd "$(dirname "$0")/../../golden" && pwd)
types="bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q4_k_s q4_k_m q5_k_s q5_k_m q6_k q3_k_s q3_k_m q3_k_l q2_k"

mkdir -p "$work"
"${PYTHON:-python3}" "$reference/convert_hf_to_gguf.py" "$checkpoint" --outtype bf16 \
    --outfile "$work/bf16.gguf" >"$work/log" 2>&1
exec >"$golden/cli/smollm2.txt"
echo "# $(basename "$checkpoint"): steps, file type, bytes, sha256 of the whole file"
for type in $types; do
    steps=convert
    if [ "$type" != bf16 ]; then
        steps=convert+quantize
        "$quantize" "$work/bf16.gguf" "$work/$type.gguf" "$type" >>"$work/log" 2>&1
    fi
    echo "$steps $type $(stat -c %s "$work/$type.gguf") $(sha256sum "$work/$type.gguf" | cut -d' ' -f1)"
done
