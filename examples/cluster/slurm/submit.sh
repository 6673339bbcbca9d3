#!/bin/sh
# Converts with N tasks of a Slurm array: submit.sh N ARGUMENTS OF gguf-convert...
# SBATCH_* variables and #SBATCH lines of the two job files choose partition, time and cores.
set -eu
count=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
plan=$PWD/plan-$$.json
"${GGUF_CONVERT:-gguf-convert}" plan "$plan" "$@"
export PLAN="$plan"
parts=$(sbatch --parsable --array="1-$count" "$here/part.sbatch")
# Only when every task of the array has ended well; a task that never does leaves nothing under the final name.
assembly=$(sbatch --parsable --dependency="afterok:$parts" --kill-on-invalid-dep=yes "$here/assemble.sbatch")
echo "plan $plan, parts are job $parts, the output comes from job $assembly"
