#!/usr/bin/env bash
# Makes golden/cli/imatrix.txt: digests of what llama-quantize writes with an importance matrix,
# for every type that it has, on golden/arch/llama and golden/arch/mixtral at bf16.
#
#   scripts/golden/imatrix_cli.sh REFERENCE BIN [TEXT]        (run by scripts/golden/make)
#
#   REFERENCE   root of the llama.cpp tree
#   BIN         folder of its llama-quantize and llama-imatrix
#   TEXT        text to make golden/cli/llama.imatrix.gguf from; without it that file is used as it is
#
# Needs python3 (or $PYTHON) with torch, transformers, safetensors and sentencepiece.
set -euo pipefail

if [ $# -lt 2 ]; then
    sed -n '2,11p' "$0" >&2
    exit 2
fi
reference=$1 bin=$2 text=${3:-}
golden=$(cd "$(dirname "$0")/../../golden" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

types="q1_0 q2_0 q4_0 q4_1 mxfp4_moe q5_0 q5_1 iq2_xxs iq2_xs iq2_s iq2_m iq1_s iq1_m tq1_0 tq2_0 q2_k
    q2_k_s iq3_xxs iq3_s iq3_m iq3_xs q3_k_s q3_k_m q3_k_l iq4_nl iq4_xs q4_k_s q4_k_m q5_k_s q5_k_m q6_k
    q8_0 copy"

for model in llama mixtral; do
    "${PYTHON:-python3}" "$reference/convert_hf_to_gguf.py" "$golden/arch/$model" --outtype bf16 \
        --outfile "$model.gguf" >log 2>&1
done
if [ -n "$text" ]; then
    cp "$text" text
    "$bin/llama-imatrix" -m llama.gguf -f text -o "$golden/cli/llama.imatrix.gguf" -c 128 --chunks 3 >log 2>&1
fi
cp "$golden/cli/llama.imatrix.gguf" .
cp "$golden/recipes/imatrix/mixtral.gguf" mixtral.imatrix.gguf

exec >"$golden/cli/imatrix.txt"
echo "# model, file type, bytes, sha256 of the whole file; the matrix is given as MODEL.imatrix.gguf"
for model in llama mixtral; do
    for type in $types; do
        if "$bin/llama-quantize" --imatrix "$model.imatrix.gguf" "$model.gguf" out "$type" 1 >log 2>&1; then
            echo "$model $type $(stat -c %s out) $(sha256sum out | cut -d' ' -f1)"
        else
            echo "$model $type refused -"
        fi
    done
done
