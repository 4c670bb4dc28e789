#!/usr/bin/env bash
# Do scores mean what they say? Trains four models and measures them, all at once on one GPU.
#
#     research/benchmarks/meaning_on_gpu.sh DATA OUT SECONDS SEED TEXTS [OLD]
#
# DATA holds minilm (a folder of all-MiniLM-L6-v2), imdb_train.csv.xz, imdb_acc.jsonl.gz,
# ag_train.jsonl.gz, ag_test.jsonl.gz, and the texts to explain, which nobody has seen:
# final.jsonl.gz and ag_final.jsonl.gz. OLD is the src folder of the version to compare errors with.
# Results go to OUT, finished or not.
set -uo pipefail
data=$1 out=$2 seconds=$3 seed=$4 texts=$5 old=${6:-}
export PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1
models=${MODELS:-$(mktemp -d)}
logs=$(mktemp -d)
deadline=$((SECONDS + seconds))
mkdir -p "$out" "$models"

# The source folder, a name for the log, and a command that is stopped at the deadline.
with() {
    local source=$1 log=$2
    shift 2
    PYTHONPATH=$source timeout $((deadline - SECONDS)) python3 "$@" > "$logs/$log" 2>&1
}

measured() {
    local name=$1 reviews=$2
    shift 2
    [ -d "$models/$name" ] || with src "$name.train" -m slalom_xai train "$@" --seed "$seed" --out "$models/$name"
    echo "$name: trained after $SECONDS s, $(grep -E '^test' "$logs/$name.train")"
    local common=(--device cuda --model "$models/$name" --data "$reviews" --texts "$texts")
    for shard in 1/2 2/2; do
        for version in ${old:+new old}; do
            local source=src
            [ "$version" = old ] && source=$old
            with "$source" "$name.$version.${shard%/*}" -m research.benchmarks.fidelity "${common[@]}" \
                --methods slalom --shard $shard --out "$out/$name.$version.jsonl" &
        done
    done
    with src "$name.meaning" -m slalom_xai bench "${common[@]}" --methods slalom,occlusion,linear \
        --metrics meaning --budget 2000 --out "$out/$name.meaning" &
    wait
    echo "$name: compared after $SECONDS s"
    for shard in 1/3 2/3 3/3; do
        with src "$name.seeds.${shard%/*}" -m research.benchmarks.seeds "${common[@]}" --shard $shard \
            --out "$out/$name.seeds.jsonl" &
    done
    wait
    echo "$name: done after $SECONDS s"
}

reviews=("$data/imdb_train.csv.xz" --labels negative,positive --test "$data/imdb_acc.jsonl.gz")
measured bert2 "$data/final.jsonl.gz" "${reviews[@]}" --init "$data/minilm" --layers 2 --rate 8e-5 --epochs 3 &
measured bert6 "$data/final.jsonl.gz" "${reviews[@]}" --init "$data/minilm" --rate 8e-5 --epochs 2 &
measured gpt2 "$data/final.jsonl.gz" "${reviews[@]}" --family gpt2 --epochs 6 &
measured ag "$data/ag_final.jsonl.gz" "$data/ag_train.jsonl.gz" --test "$data/ag_test.jsonl.gz" \
    --init "$data/minilm" --layers 2 --epochs 2 &
wait
tail -qn 1 "$logs"/*
export PYTHONPATH=src
[ -z "$old" ] || python3 -m research.benchmarks.fidelity --tables "$out"/*.new.jsonl --over "$out"/*.old.jsonl
python3 -m research.benchmarks.seeds --tables "$out"/*.seeds.jsonl
