#!/usr/bin/env bash
# Methods by metrics on several models at once, one process each, on a GPU.
#
#     benchmarks/methods_on_gpu.sh TABLE OUT SECONDS MODEL...
#
# TABLE has a column text. Each model's results go to OUT/NAME.tar, finished or not: slalom bench goes on from there.
set -uo pipefail
table=$1 out=$2 seconds=$3
shift 3
export PYTHONPATH=src:${PYTHONPATH:-} PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=4
methods=slalom,slalom-eff,slalom-fidel,linear,occlusion,gam,gradient,integrated-gradients,smoothgrad,attention-mean,attention-rollout,attn-lrp,random,zero
python3 -c 'import lime.lime_base' 2> /dev/null && methods=$methods,lime
python3 -c 'import shap' 2> /dev/null && methods=$methods,kernel-shap,permutation-shap,partition-shap
work=$(mktemp -d)
for model in "$@"; do
    name=$(basename "$model")
    timeout "$seconds" python3 -m slalom_xai.cli bench --model "$model" --data "$table" --methods "$methods" --texts 0 --budget 1000 --dtype float32 \
        --metrics fidelity,deletion,insertion,removal-rank,simulatability,cost --out "$work/$name" > "$work/$name.log" 2>&1 &
done
wait
for model in "$@"; do
    name=$(basename "$model")
    wc -l "$work/$name/log.jsonl"
    tail -n 3 "$work/$name.log"
    cp "$work/$name.log" "$out/"
    tar czf "$out/$name.tar.gz" -C "$work" "$name"
done
