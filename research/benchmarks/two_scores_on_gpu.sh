#!/usr/bin/env bash
# Trains seven models and measures how much of what removals do the printed scores reproduce, beside one score per word, a linear fit and a
# Gaussian process on the same calls; with STEP=reading, whether the scores stay and mean what they say, and how often explanations warn;
# with STEP=record, writes the models' outputs to OUT/MODEL.npz, and those on other texts, to design on, to OUT/MODEL-design.npz
# (research/benchmarks/recorded.py reads both).
#
#     research/benchmarks/two_scores_on_gpu.sh DATA OUT SECONDS SEED [TEXTS]
#
# DATA holds reviews.csv.xz (text, label), imdb_test.jsonl.gz, ag_news_train.jsonl.gz, ag_news_test.jsonl.gz and the folders minilm and
# mpnet, pretrained encoders of 6 and 12 layers. Texts are those of the test tables with 25 to 110 words, an odd number in the table, drawn by
# SEED. MODELS, a folder of trained models, is used and filled. Results go to OUT/MODEL-REMOVAL-CALLS, finished or not, and the tables of
# them are printed by: python -m research.benchmarks.two_scores OUT
set -uo pipefail
[ $# -ge 4 ] || { echo "error: give data, a folder for results, seconds and a seed: research/benchmarks/two_scores_on_gpu.sh DATA OUT SECONDS SEED [TEXTS]" >&2; exit 2; }
data=$1 out=$2 seconds=$3 seed=$4 texts=${5:-20}
export PYTHONPATH=src:${PYTHONPATH:-} PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=${THREADS:-1}
models=${MODELS:-$(mktemp -d)} only=${ONLY:-bert2 gpt2 bert6 mpnet ag bert6b mpnetb} shards=${SHARDS:-3}
deadline=$((SECONDS + seconds))
mkdir -p "$out" "$models"

train() { # name, then options
    local name=$1
    shift
    [[ " $only " == *" $name "* ]] || return
    [ -d "$models/$name" ] || OMP_NUM_THREADS=2 python3 -m slalom_xai train "$@" --seed "$seed" --out "$models/$name" > "$models/$name.log" 2>&1
    echo "$name: after $SECONDS s, $(grep -E '^test' "$models/$name.log" || tail -n 1 "$models/$name.log")"
}

measure() { # name, table, removal, calls, methods, metrics
    [[ " $only " == *" $1 "* ]] || return
    local shard
    for shard in $(seq "$shards"); do
        timeout $((deadline - SECONDS)) python3 -m slalom_xai bench --model "$models/$1" --data "$2" --texts "$texts" --seed "$seed" \
            --granularity word --removal "$3" --budget "$4" --methods "$5" --metrics "${6:-fidelity,cost}" --shard "$shard/$shards" \
            --out "$out/$1-$3-$4${6:+-$6}" > "$out/$1-$3-$4.$shard.log" 2>&1 &
    done
    wait
}

record() { # name, table
    [[ ${STEP:-fidelity} = record && " $only " == *" $1 "* ]] || return
    local orders=0
    [[ $1 != bert2 && $1 != bert6 ]] || orders=100
    python3 -m research.benchmarks.record_removals "$models/$1" "$models/$2.jsonl" "$out/$1.npz" --texts "$texts" --orders "$orders" \
        --seconds $(((deadline - SECONDS) * 5 / 6))
    python3 -m research.benchmarks.record_removals "$models/$1" "$models/$2-design.jsonl" "$out/$1-design.npz" --texts 10 --removals hide \
        --seconds $((deadline - SECONDS))
}

for table in imdb ag; do
    source=$data/imdb_test.jsonl.gz
    [ "$table" != ag ] || source=$data/ag_news_test.jsonl.gz
    python3 -m research.benchmarks.two_scores --choose "$source" "$models/$table.jsonl"
    python3 -m research.benchmarks.two_scores --design --choose "$source" "$models/$table-design.jsonl"
done
reviews=("$data/reviews.csv.xz" --labels negative,positive --test "$data/imdb_test.jsonl.gz")
train bert2 "${reviews[@]}" --init "$data/minilm" --layers 2 --rate 8e-5 --epochs 3 && record bert2 imdb &
train bert6 "${reviews[@]}" --init "$data/minilm" --rate 8e-5 --epochs 2 && record bert6 imdb &
train gpt2 "${reviews[@]}" --family gpt2 --epochs 6 && record gpt2 imdb &
train ag "$data/ag_news_train.jsonl.gz" --test "$data/ag_news_test.jsonl.gz" --init "$data/minilm" --epochs 2 && record ag ag &
train mpnet "${reviews[@]}" --init "$data/mpnet" --rate 2e-5 --epochs 1 && record mpnet imdb &
(seed=$((seed + 1)) && train bert6b "${reviews[@]}" --init "$data/minilm" --rate 5e-5 --epochs 2) && record bert6b imdb & # two more deep models
(seed=$((seed + 1)) && train mpnetb "${reviews[@]}" --init "$data/mpnet" --rate 3e-5 --epochs 1) && record mpnetb imdb &
wait
[ "$seconds" -gt 0 ] && [ "${STEP:-fidelity}" != record ] || exit 0
if [ "${STEP:-fidelity}" = reading ]; then
    for name in $only; do
        table=$models/imdb.jsonl
        [ "$name" != ag ] || table=$models/ag.jsonl
        timeout $((deadline - SECONDS)) python3 -m research.benchmarks.reading "$table" --model "$models/$name" --texts "$texts" > "$out/$name.reading" 2>&1 &
    done
    for name in bert2 bert6; do
        measure "$name" "$models/imdb.jsonl" hide 1000 slalom meaning &
        timeout $((deadline - SECONDS)) python3 -m research.benchmarks.seeds --model "$models/$name" --data "$models/imdb.jsonl" --texts "$texts" --budget 1000 \
            --many 10000 --out "$out/$name.seeds.jsonl" > "$out/$name.seeds" 2>&1 &
    done
    wait
    tail -n 9 "$out"/*.reading
    for log in "$out"/*-meaning/log*.jsonl; do echo "$log"; python3 -c "
import json, statistics, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
found = [row['values']['shapley_r2'] for row in rows if row.get('metric') == 'meaning' and row.get('values')]
print('sampled Shapley values: median R²', round(statistics.median(found), 3), 'of', len(found), 'texts')" "$log"; done
    python3 -m research.benchmarks.seeds --tables "$out"/*.seeds.jsonl
    exit
fi
for name in $only; do
    [[ $name != *b ]] || continue
    table=$models/imdb.jsonl
    [ "$name" != ag ] || table=$models/ag.jsonl
    {
        measure "$name" "$table" hide 2000 slalom,linear,one-score
        measure "$name" "$table" hide 500 slalom,linear,one-score
        measure "$name" "$table" delete 2000 slalom,linear,one-score
        measure "$name" "$table" hide 1000 slalom,gp
    } &
done
wait
python3 -m research.benchmarks.two_scores "$out"
