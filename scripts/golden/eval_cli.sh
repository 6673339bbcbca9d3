#!/usr/bin/env bash
# Makes the goldens of gguf-eval in golden/eval-cli/: what the reference's tools say of two tiny models.
#
#   scripts/golden/eval_cli.sh REFERENCE BIN        (run by scripts/golden/make)
#
#   REFERENCE   root of the llama.cpp tree
#   BIN         folder of its llama-quantize, llama-perplexity and llama-imatrix
#
# Files and caches are f32, where the reference rounds no activations. The file compared with the base is
# f32 too: the base after Q4_0 and back. The text is LICENSE-APACHE, because it does not change.
# hellaswag.txt, winogrande.csv and multiple-choice.bin there are written by hand.
# Needs python3 (or $PYTHON) with torch, transformers, safetensors and sentencepiece.
set -euo pipefail

if [ $# -ne 2 ]; then
    sed -n '2,13p' "$0" >&2
    exit 2
fi
reference=$1 bin=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
out=$root/golden/eval-cli
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cp "$root/LICENSE-APACHE" text

for model in llama mixtral deepseek3-old; do
    # As arch.py has it converted, whose tokenizers the converter does not know by their hash.
    PYTHONPATH="$reference:$reference/gguf-py:$root/scripts/golden" "${PYTHON:-python3}" - \
        "$root/golden/arch/$model" "$model.gguf" >log 2>&1 <<'CONVERT'
import json, sys
from pathlib import Path
import arch
folder = Path(sys.argv[1])
pre = json.loads((folder / "expected.json").read_text())["pre"]
arch.convert(folder, Path("."), "f32", pre, {}).rename(sys.argv[2])
CONVERT
    "$bin/llama-imatrix" -m "$model.gguf" -f text -c 64 -b 64 --chunks 5 -o "$out/$model.imatrix.gguf" \
        -fa off -ctk f32 -ctv f32 -t 1 >log 2>&1
done
# The reference loses the last lines of its log when it ends; the last one is empty.
for model in llama mixtral deepseek3-old; do
    until tail -n 1 log | grep -aq ' I $'; do
        "$bin/llama-imatrix" -m "$model.gguf" --in-file "$out/$model.imatrix.gguf" --show-statistics >log 2>&1
    done
    sed -nE 's/^[0-9.]+ I ( *(-|[0-9]+)\t)/\1/p' log >"$out/$model.statistics.txt"
    echo >log
done
"$bin/llama-quantize" llama.gguf q4_0.gguf q4_0 1 >log 2>&1
"$bin/llama-quantize" --allow-requantize q4_0.gguf back.gguf f32 1 >log 2>&1

perplexity() { "$bin/llama-perplexity" "$@" -c 64 -b 64 -fa off -ctk f32 -ctv f32 -t 1 2>&1; }
perplexity -m llama.gguf -f text --chunks 4 --kl-divergence-base "$out/llama.kld" >log
perplexity -m back.gguf -f text --chunks 4 --kl-divergence-base "$out/llama.kld" --kl-divergence |
    sed -n '/=====/,$p' | grep -a -E 'PPL|KLD|p:|Δp' >"$out/compare.txt"

# Windows and strides, of two models whose texts begin with a token of their own; and types before whose weights the
# reference rounds activations, with its caches in f16. It loses the last lines of its log when it ends, so it is
# asked for more windows than are kept, and again until its last line is there.
{
    echo "# model, type, context, stride (0 for none), windows: the figure after each; at the end of all windows, with its error"
    for row in "llama f32 64 0 4" "llama f32 64 64 4" "llama f32 64 16 5" "gemma3 f32 64 0 4" "gemma3 f32 100 128 3" \
        "llama f32 64 0 all" "gemma3 f32 64 0 all" "llama f16 64 0 4" "llama bf16 64 0 4" "llama q8_0 64 0 4"; do
        read -r model type context stride windows <<<"$row"
        [ -f "$model.gguf" ] || "${PYTHON:-python3}" "$reference/convert_hf_to_gguf.py" "$root/golden/arch/$model" \
            --outtype f32 --outfile "$model.gguf" >log 2>&1
        file=$model.gguf exact="-fa off -ctk f32 -ctv f32"
        if [ "$type" != f32 ]; then
            file=$type.gguf exact=
            "$bin/llama-quantize" --pure "$model.gguf" "$file" "$type" 1 >log 2>&1
        fi
        # shellcheck disable=SC2086
        measure() { "$bin/llama-perplexity" -m "$file" -f text -c "$context" -b 64 --ppl-stride "$stride" \
            --chunks "$1" $exact -t 1 >log 2>&1 || true; }
        if [ "$windows" = all ]; then
            until measure -1 && grep -aq "Final estimate" log; do :; done
            echo "$row: $(sed -n 's/.*Final estimate: PPL = //p' log)"
        else
            measure $((windows + 8))
            echo "$row: $(grep -ao '\[[0-9]*\][0-9.]*,' log | sed 's/.*]//; s/,//' | head -n "$windows" | paste -sd' ')"
        fi
    done
} >"$out/perplexity.txt"

score() { "$bin/llama-perplexity" -m llama.gguf -c 512 -fa off -ctk f32 -ctv f32 -t 1 -np 8 "$@" 2>&1; }
{
    echo "# task, figures as the reference prints them"
    score --hellaswag -f "$out/hellaswag.txt" | sed -n 's/^.*\(^[0-9][0-9]*\t.*%\t.*\)$/hellaswag \1/p'
    score --winogrande -f "$out/winogrande.csv" | sed -n 's/^\([0-9][0-9]*\t.*\)$/winogrande \1/p'
    score --multiple-choice -bf "$out/multiple-choice.bin" | sed -n 's/^\([0-9][0-9]*\t.*\)$/multiple-choice \1/p'
} >"$out/scores.txt"
