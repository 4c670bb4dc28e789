#!/usr/bin/env bash
# Runs experiments of the paper at full size on one GPU, by several processes at once.
#
#     research/benchmarks/reproduce_on_gpu.sh DATA OUT SECONDS PROCESSES NAME...
#
# DATA is the folder that docs/experiments.md describes. Each process takes its shard of the cells of each experiment, one experiment after
# the other. What is finished when the time is over stays in OUT, and a second run goes on from there. At the end the tables of what is
# finished are written to OUT. THREADS says how many threads each process has (1). Experiments under the clock (table-2, table-13b) want
# one process, and nothing else on the machine.
set -uo pipefail
[ $# -ge 5 ] || { echo "error: give data, a folder for results, seconds, processes and experiments: research/benchmarks/reproduce_on_gpu.sh DATA OUT SECONDS PROCESSES NAME..." >&2; exit 2; }
data=$1 out=$2 seconds=$3 processes=$4
shift 4
export PYTHONPATH=src:${PYTHONPATH:-} PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=${THREADS:-1}
deadline=$((SECONDS + seconds - 40)) # the tables take a while
logs=$(mktemp -d)
mkdir -p "$out"

shard() { # number
    local name
    for name in "${names[@]}"; do
        [ "$((deadline - SECONDS))" -gt 5 ] || return
        timeout "$((deadline - SECONDS))" python3 -m research "$name" --full --yes --data "$data" --out "$out" --shard "$1/$processes" \
            > "$logs/$1" 2>&1 || echo "$name, shard $1: stopped after $SECONDS s, $(tail -n 1 "$logs/$1")"
    done
}

names=("$@")
for number in $(seq "$processes"); do shard "$number" & done
wait
for name in "${names[@]}"; do
    python3 -m research "$name" --full --data "$data" --out "$out" --finished > "$logs/$name" 2>&1 || tail -n 1 "$logs/$name"
    grep -E '^\*\*' "$logs/$name"
done
