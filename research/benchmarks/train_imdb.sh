#!/usr/bin/env bash
# Trains the models of the benchmarks on IMDB by `slalom train`, all at once on one GPU.
#
#     research/benchmarks/train_imdb.sh DATA OUT SEED NAME...
#
# DATA holds imdb_train.csv.xz (text, label), imdb_acc.jsonl.gz (texts to score the models on) and the folder minilm, a pretrained
# encoder. NAME is among bert2, bert6 (the first layers of MiniLM), distil (of DistilBERT's size, from scratch), gpt2 and gpt6
# (decoders of 2 and 6 layers, from scratch). Models and logs go to OUT.
set -uo pipefail
data=$1 out=$2 seed=$3
shift 3
export PYTHONPATH=src:${PYTHONPATH:-} PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=2
declare -A recipe=(
    [bert2]="--init $data/minilm --layers 2 --rate 8e-5 --epochs 3"
    [bert6]="--init $data/minilm --rate 8e-5 --epochs 3"
    [distil]="--layers 6 --width 768 --vocabulary 30000 --epochs 4 --rate 1e-4"
    [gpt2]="--family gpt2 --epochs 8"
    [gpt6]="--family gpt2 --size base --epochs 4"
)
mkdir -p "$out"
for name in "$@"; do
    # shellcheck disable=SC2086  # the options are words
    python3 -m slalom_xai train "$data/imdb_train.csv.xz" --labels negative,positive ${recipe[$name]} --seed "$seed" \
        --test "$data/imdb_acc.jsonl.gz" --out "$out/$name" > "$out/$name.log" 2>&1 &
done
wait
for name in "$@"; do
    echo "$name: $(grep -E '^test|parameters' "$out/$name.log" | tr '\n' ' ')"
done
