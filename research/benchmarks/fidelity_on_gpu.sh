#!/usr/bin/env bash
# Trains the models of the fidelity benchmark and runs it, all at once on one GPU: each model is measured as soon as it is trained.
#
#     research/benchmarks/fidelity_on_gpu.sh DATA OUT SECONDS SEED [TEXTS]
#
# DATA is as for train_imdb.sh, with imdb_final.jsonl.gz, the held-out reviews. Results go to OUT/MODEL.jsonl, finished or not.
set -uo pipefail
data=$1 out=$2 seconds=$3 seed=$4 texts=${5:-30}
export PYTHONPATH=src:${PYTHONPATH:-} PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1
models=$(mktemp -d)
deadline=$((SECONDS + seconds))
pipeline() {
    local name=$1 also=$2 shards=3
    research/benchmarks/train_imdb.sh "$data" "$models" "$seed" "$name"
    for shard in $(seq $shards); do
        timeout $((deadline - SECONDS)) python3 -m research.benchmarks.fidelity --model "$models/$name" --data "$data/imdb_final.jsonl.gz" --texts "$texts" \
            --out "$out/$name.jsonl" --also "$also" --shard "$shard/$shards" > "$out/$name.$shard.log" 2>&1 &
    done
    wait
}
mkdir -p "$out"
for name in bert2 bert6; do pipeline "$name" lime & done
for name in distil gpt2 gpt6; do pipeline "$name" "" & done
wait
tail -qn 2 "$out"/*.log
for file in "$out"/*.jsonl; do echo "$file: $(wc -l < "$file") lines"; done
