#!/usr/bin/env bash
# Makes golden/cli/smollm2-quantize.txt: digests of what llama-quantize writes of SmolLM2-135M with
# an importance matrix, and with TEXT that matrix too.
#
#   scripts/golden/smollm2_quantize.sh BIN MODEL TYPES [TEXT]        (run by scripts/golden/make)
#
#   BIN     folder of llama-quantize and llama-imatrix
#   MODEL   the bf16 file of golden/cli/smollm2.txt
#   TYPES   file types, divided by spaces
#   TEXT    the matrix of golden/imatrix/smollm2.gguf is of 8 pieces of 256 tokens from the first
#           60000 bytes of the WikiText-2 raw test text
set -euo pipefail

if [ $# -lt 3 ]; then
    sed -n '2,12p' "$0" >&2
    exit 2
fi
bin=$(cd "$1" && pwd) model=$(realpath "$2") types=$3 text=${4:-}
golden=$(cd "$(dirname "$0")/../../golden" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "$text" ]; then
    head -c 60000 "$text" >"$work/text"
    (cd "$work" && "$bin/llama-imatrix" -m "$model" -f text -c 256 --chunks 8 -o m.gguf >log 2>&1)
    cp "$work/m.gguf" "$golden/imatrix/smollm2.gguf"
fi
cd "$work"
# The path is part of the metadata.
cp "$golden/imatrix/smollm2.gguf" smollm2.imatrix.gguf
exec >"$golden/cli/smollm2-quantize.txt"
echo "# SmolLM2-135M-Instruct, --imatrix smollm2.imatrix.gguf: file type, bytes, sha256 of the whole file"
for type in $types; do
    if "$bin/llama-quantize" --imatrix smollm2.imatrix.gguf "$model" out "$type" >log 2>&1; then
        echo "$type $(stat -c %s out) $(sha256sum out | cut -d' ' -f1)"
    else
        echo "$type refused -"
    fi
done
