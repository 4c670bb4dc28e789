#!/usr/bin/env bash
# Methods by metrics on several models at once on a GPU, the texts of each model shared by several processes.
#
#     research/benchmarks/methods_on_gpu.sh OUT SECONDS SHARDS "OPTIONS OF slalom bench" MODEL...
#
# Each model's results go to OUT/NAME.tar.gz, finished or not: the same call goes on from there.
set -uo pipefail
out=$1 seconds=$2 shards=$3 options=$4
shift 4
export PYTHONPATH=src:${PYTHONPATH:-} PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1
mkdir -p "$out"
methods=slalom,slalom:value,slalom:importance,slalom:alone,slalom:linearized,slalom:slope,slalom:shapley,slalom-eff,slalom-fidel,linear,occlusion,gam,gradient,integrated-gradients,smoothgrad,attention-mean,attention-rollout,attn-lrp,random,zero
python3 -c 'import lime.lime_base' 2> /dev/null && methods=$methods,lime
python3 -c 'import shap' 2> /dev/null && methods=$methods,kernel-shap,permutation-shap,partition-shap
[[ $options == *--corpus* ]] && methods=$methods,naive-bayes
bench() {
    # shellcheck disable=SC2086  # the options are words
    timeout "$seconds" python3 -m slalom_xai bench --model "$1" --methods "$methods" --texts 0 --dtype float32 $options --out "$2" "${@:3}"
}
for model in "$@"; do
    for shard in $(seq "$shards"); do
        bench "$model" "$out/$(basename "$model")" --shard "$shard/$shards" > "$out/$(basename "$model").$shard.log" 2>&1 &
    done
done
wait
for model in "$@"; do
    name=$(basename "$model")
    echo "$name: $(grep -c '"made"' "$out/$name/log.jsonl") explanations, $(grep -c '"failed"' "$out/$name/log.jsonl") failures"
    tail -qn 1 "$out/$name".*.log
    tar czf "$out/$name.tar.gz" -C "$out/$name" log.jsonl settings.json
done
