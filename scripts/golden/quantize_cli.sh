#!/usr/bin/env bash
# Makes golden/cli/quantize.txt: digests of what llama-quantize and llama-gguf-split write for every
# option, on golden/arch/llama and golden/arch/mixtral at bf16.
#
#   scripts/golden/quantize_cli.sh BIN CONVERT        (run by scripts/golden/make)
#
#   BIN       folder of llama-quantize and llama-gguf-split
#   CONVERT   makes the bf16 files: `CONVERT CHECKPOINT OUT -t bf16`. Our own gguf-convert will do,
#             since golden/cli/two-step.txt holds its bf16 files to the reference's.
#
# A line is: name of the case | arguments for gguf-quantize | file bytes sha256 for each file that
# comes of it. The arguments are the reference's own, but for IN OUT TYPE, which come last, and for
# --split-max-*, which are those of llama-gguf-split on the file that llama-quantize wrote.
set -euo pipefail

if [ $# -ne 2 ]; then
    sed -n '2,14p' "$0" >&2
    exit 2
fi
bin=$(cd "$1" && pwd) convert=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
golden=$(cd "$(dirname "$0")/../../golden" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

for model in llama mixtral; do
    # The folder's name is the model's.
    cp -r "$golden/arch/$model" "$model"
    "$convert" "$model" "$model.gguf" -t bf16 --quiet
done
cp "$golden/cli/llama.imatrix.gguf" llama.imatrix.gguf
cp "$golden/recipes/imatrix/mixtral.gguf" mixtral.imatrix.gguf
cp "$golden/recipes/imatrix/mixtral.dat" mixtral.imatrix.dat
printf 'ffn_up=q5_k\nattn_k=q3_k  blk\\.1\\.ffn_down=iq4_nl\n' >types.txt
# A split input, and quantized ones.
"$bin/llama-quantize" llama.gguf copy.gguf copy 1 >log 2>&1
"$bin/llama-gguf-split" --split-max-tensors 6 copy.gguf split >log 2>&1
for type in q8_0 q4_k_m q6_k f16 f32; do
    "$bin/llama-quantize" llama.gguf "$type.gguf" "$type" 1 >log 2>&1
done

list() {
    for file in $(cd out && ls); do
        printf ' %s %s %s' "$file" "$(stat -c %s "out/$file")" "$(sha256sum "out/$file" | cut -d' ' -f1)"
    done
}

# quantize NAME ARGUMENTS...
quantize() {
    local name=$1
    shift
    rm -rf out && mkdir out
    local rest=("$@") split=()
    if [ "${1:0:11}" = --split-max ]; then
        split=("$1" "$2")
        rest=("${@:3}")
    fi
    if "$bin/llama-quantize" "${rest[@]}" 1 >log 2>&1; then
        if [ ${#split[@]} -gt 0 ]; then
            mv out/x.gguf whole.gguf
            "$bin/llama-gguf-split" "${split[@]}" whole.gguf out/x >>log 2>&1
        fi
        echo "$name|$*|$(list)"
    else
        cat log >&2
        echo "$name|$*| refused"
    fi
}

exec >"$golden/cli/quantize.txt"
echo "# case | arguments of gguf-quantize | file bytes sha256 ..."
quantize leave-output --leave-output-tensor llama.gguf out/x.gguf q4_k_m
quantize pure --pure llama.gguf out/x.gguf q4_k_m
quantize pure-weighted --pure --imatrix llama.imatrix.gguf llama.gguf out/x.gguf iq4_xs
quantize include-weights --imatrix llama.imatrix.gguf --include-weights ffn_down --include-weights attn_q llama.gguf out/x.gguf q4_k_m
quantize exclude-weights --imatrix llama.imatrix.gguf --exclude-weights ffn_down llama.gguf out/x.gguf q4_k_m
quantize imatrix-legacy --imatrix mixtral.imatrix.dat mixtral.gguf out/x.gguf q4_k_m
quantize output-type --output-tensor-type q8_0 llama.gguf out/x.gguf q4_k_m
quantize embedding-type --token-embedding-type f16 llama.gguf out/x.gguf q4_k_m
quantize tensor-type --tensor-type 'blk\.(0|1)\.attn_[qk]=q8_0' --tensor-type ffn_down=q6_k llama.gguf out/x.gguf q4_k_m
quantize tensor-type-file --tensor-type-file types.txt llama.gguf out/x.gguf q4_k_m
quantize prune-first --prune-layers 0 llama.gguf out/x.gguf q4_k_m
quantize prune-last --prune-layers 1 llama.gguf out/x.gguf q5_k_s
quantize prune-weighted --prune-layers 0 --imatrix llama.imatrix.gguf llama.gguf out/x.gguf iq3_xxs
quantize prune-mixtral --prune-layers 0 --imatrix mixtral.imatrix.gguf mixtral.gguf out/x.gguf q3_k_m
quantize override-int --override-kv llama.context_length=int:777 llama.gguf out/x.gguf q8_0
quantize override-many --override-kv general.name=str:Another --override-kv llama.rope.freq_base=float:500000 --override-kv new.flag=bool:true --override-kv new.count=int:3 llama.gguf out/x.gguf q4_0
quantize override-heads --override-kv llama.attention.head_count_kv=int:1 llama.gguf out/x.gguf q2_k
quantize override-and-weighted --override-kv new.flag=bool:false --imatrix llama.imatrix.gguf --prune-layers 1 llama.gguf out/x.gguf q4_0
quantize split-input split-00001-of-00004.gguf out/x.gguf q4_k_m
quantize keep-split --keep-split split-00001-of-00004.gguf out/x.gguf q4_k_m
quantize keep-split-copy --keep-split split-00001-of-00004.gguf out/x.gguf copy
quantize keep-split-pruned --keep-split --prune-layers 1 split-00001-of-00004.gguf out/x.gguf q4_0
quantize split-max-tensors --split-max-tensors 6 llama.gguf out/x.gguf q4_k_m
quantize split-max-size --split-max-size 1M llama.gguf out/x.gguf q8_0
quantize split-max-one --split-max-tensors 100 llama.gguf out/x.gguf q4_0
quantize copy llama.gguf out/x.gguf copy
quantize copy-quantized q4_k_m.gguf out/x.gguf copy
quantize copy-pruned --prune-layers 1 q4_k_m.gguf out/x.gguf COPY
quantize number llama.gguf out/x.gguf 15
quantize f16 llama.gguf out/x.gguf f16
quantize f32 llama.gguf out/x.gguf f32
quantize bf16-of-f32 f32.gguf out/x.gguf bf16
for from in q8_0 q4_k_m q6_k; do
    for to in q4_0 q5_k_m q2_k f16 f32 q8_0; do
        quantize "requantize-$from-$to" --allow-requantize $from.gguf out/x.gguf $to
    done
    quantize "requantize-$from-iq3_s-weighted" --allow-requantize --imatrix llama.imatrix.gguf $from.gguf out/x.gguf iq3_s
    quantize "requantize-$from-leave" --allow-requantize --leave-output-tensor $from.gguf out/x.gguf q3_k_s
done
quantize refused-requantize q4_k_m.gguf out/x.gguf q4_0
for type in iq2_xxs iq2_xs iq2_s iq2_m iq1_s iq1_m q2_k_s iq3_xxs iq3_xs; do
    quantize "refused-$type" llama.gguf out/x.gguf $type
done
for from in f16 f32; do
    for to in q4_k_m q8_0 iq4_xs tq2_0; do
        quantize "$from-$to" $from.gguf out/x.gguf $to
    done
done
for type in q1_0 q2_0 mxfp4_moe tq1_0 tq2_0 iq3_s iq3_m iq4_nl iq4_xs; do
    quantize "unweighted-$type" llama.gguf out/x.gguf $type
    quantize "unweighted-mixtral-$type" mixtral.gguf out/x.gguf $type
done
