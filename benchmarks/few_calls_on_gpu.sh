#!/usr/bin/env bash
# Trains the models of the few-calls benchmark all at once on one GPU, and measures them two at a time.
#
#     benchmarks/few_calls_on_gpu.sh DATA OUT SECONDS SEED [TEXTS]
#
# DATA is as for meaning_on_gpu.sh. Texts come from imdb_acc.jsonl.gz and ag_test.jsonl.gz, in which no model is trained; those of the
# tables *final.jsonl.gz and design.jsonl.gz, and the first 100 of either table, are left out, because they have been used before. SEED
# trains the models and chooses the texts; TEXTS are short ones and as many long ones. Lines go to OUT/MODEL.jsonl, finished or not. A
# second run with the same OUT and with MODELS, a folder of trained models, goes on where the first stopped. RACE names the models of the
# race with LIME, ONLY the models that are wanted (all five), AT_ONCE says how many models share the GPU, and THREADS how many threads each has
# for fits. The model of DistilBERT's size comes last and takes the time that is left.
set -uo pipefail
[ $# -ge 4 ] || { echo "error: give data, a folder for results, seconds and a seed: benchmarks/few_calls_on_gpu.sh DATA OUT SECONDS SEED [TEXTS]" >&2; exit 2; }
data=$1 out=$2 seconds=$3 seed=$4 texts=${5:-20}
export PYTHONPATH=src:${PYTHONPATH:-} PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1
models=${MODELS:-$(mktemp -d)} race=${RACE:-bert2} device=${DEVICE:-cuda} threads=${THREADS:-4}
only=${ONLY:-bert6 bert2 gpt2 ag distil}
logs=$(mktemp -d)
deadline=$((SECONDS + seconds - 15)) # the tables take a few seconds
at_once=${AT_ONCE:-2}                # more models share a GPU badly
learnt=0.7                           # accuracy that a model needs to be measured
mkdir -p "$out" "$models"

train() { # name, seconds, then options
    local name=$1 limit=$2
    shift 2
    [[ " $only " == *" $name "* ]] || return
    if [ ! -d "$models/$name" ]; then
        timeout "$limit" python3 -m slalom_xai train "$@" --seed "$seed" --out "$models/$name" > "$logs/$name.train" 2>&1 || rm -rf "${models:?}/$name"
        grep -E '^test' "$logs/$name.train" > "$models/$name.test" || tail -n 1 "$logs/$name.train"
    fi
    echo "$name: trained after $SECONDS s, $(cat "$models/$name.test" 2> /dev/null)"
}

# A model that was given counts as well.
has_learnt() {
    [ -d "$models/$1" ] || return 1
    [ ! -f "$models/$1.test" ] || awk -v least=$learnt '{ exit !($3 + 0 >= least) }' "$models/$1.test"
}

measure() { # name, models that share the time left, itself among them
    local name=$1 waiting=$2 source=imdb_acc used=()
    local left=$((deadline - SECONDS)) share
    [ "$name" != ag ] || source=ag_test
    [ "$left" -gt 20 ] || { echo "$name: left out, no time"; return; }
    [ "$waiting" -ge "$at_once" ] || waiting=$at_once
    share=$((left * at_once / waiting - 25)) # loading and the last step take a while
    for table in "$data"/*final.jsonl.gz "$data"/design.jsonl.gz; do [ ! -f "$table" ] || used+=("$table"); done
    local raced=0
    [[ " $race " != *" $name "* ]] || raced=20
    OMP_NUM_THREADS=$threads timeout "$left" python3 -m benchmarks.few_calls --device "$device" --model "$models/$name" --data "$data/$source.jsonl.gz" \
        --offset 100 ${used:+--without "${used[@]}"} --texts "$texts" --seed "$seed" --race $raced --seconds "$share" \
        --out "$out/$name.jsonl" > "$logs/$name.measure" 2>&1 || echo "$name: stopped, $(tail -n 1 "$logs/$name.measure")"
    echo "$name: measured after $SECONDS s, $(grep "^$name: " "$logs/$name.measure")"
}

reviews=("$data/imdb_train.csv.xz" --labels negative,positive --test "$data/imdb_acc.jsonl.gz")
train bert2 "$seconds" "${reviews[@]}" --init "$data/minilm" --layers 2 --rate 8e-5 --epochs 3 &
train bert6 "$seconds" "${reviews[@]}" --init "$data/minilm" --rate 8e-5 --epochs 2 &
train gpt2 "$seconds" "${reviews[@]}" --family gpt2 --epochs 6 &
train ag "$seconds" "$data/ag_train.jsonl.gz" --test "$data/ag_test.jsonl.gz" --init "$data/minilm" --layers 2 --epochs 2 &
train distil 130 "${reviews[@]}" --layers 6 --width 768 --vocabulary 30000 --rate 1e-4 --epochs 3 &
wait
able=()
for name in $only; do
    if has_learnt "$name"; then able+=("$name"); else echo "$name: left out, it has not learnt enough"; fi
done
waiting=${#able[@]}
[ "$waiting" -lt 2 ] || [[ " ${able[*]} " != *" distil "* ]] || waiting=$((waiting - 1))
for name in "${able[@]}"; do
    [ "$(jobs -rp | wc -l)" -lt "$at_once" ] || wait -n
    measure "$name" "$waiting" &
    waiting=$((waiting - 1))
done
wait
python3 -m benchmarks.few_calls --tables "$out"/*.jsonl
