#!/usr/bin/env bash
# What can only be tried where a GPU is: half precision, the tests with that machine's torch, and trainings in minutes.
#
#     research/benchmarks/on_gpu.sh tests OUT
#     research/benchmarks/on_gpu.sh train DATA OUT
#
# DATA holds ag_news_train.jsonl.gz, ag_news_test.jsonl.gz, imdb_clean.csv.xz (text, label), imdb_test.jsonl.gz and the folder
# minilm, a pretrained encoder. Logs and small models go to OUT.
set -uo pipefail
export PYTHONPATH=src:tests:${PYTHONPATH:-} PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
slalom() { python3 -m slalom_xai "$@"; }

run_tests() {
    local out=$1
    python3 -c 'import torch, transformers, sys; print(sys.version.split()[0], torch.__version__, transformers.__version__)'
    OMP_NUM_THREADS=1 python3 -m pytest -q -p no:cacheprovider -p no:benchmark -n 12 tests/integration/test_devices.py tests/contract \
        tests/integration/test_readings.py tests/integration/test_models.py tests/integration/test_planted.py > "$out/tests.log" 2>&1
    tail -n 12 "$out/tests.log"
}

run_trainings() {
    local data=$1 out=$2 work
    work=$(mktemp -d)
    slalom train "$data/ag_news_train.jsonl.gz" --init "$data/minilm" --test "$data/ag_news_test.jsonl.gz" --out "$work/ag" > "$out/ag.log" 2>&1
    slalom train "$data/ag_news_train.jsonl.gz" --test "$data/ag_news_test.jsonl.gz" --out "$work/ag-tiny" --half > "$out/ag-tiny.log" 2>&1
    tail -n 5 "$out"/{ag,ag-tiny}.log
    for model in ag ag-tiny; do
        python3 -m research.benchmarks.all_classes --model "$work/$model" --data "$data/ag_news_test.jsonl.gz" --texts 20 > "$out/$model-classes.log" 2>&1
        tail -n 8 "$out/$model-classes.log"
    done
    slalom train "$data/imdb_clean.csv.xz" --labels negative,positive --init "$data/minilm" --rate 8e-5 --epochs 3 \
        --test "$data/imdb_test.jsonl.gz" --out "$work/teacher" > "$out/teacher.log" 2>&1
    tail -n 6 "$out/teacher.log"
    slalom train "$data/imdb_clean.csv.xz" --labels negative,positive --teacher "$work/teacher" --parts 4 --size tiny --epochs 6 --half \
        --test "$data/imdb_test.jsonl.gz" --out "$work/embedded" > "$out/embedded.log" 2>&1
    tail -n 6 "$out/embedded.log"
    tar cf "$out/small-models.tar" -C "$work" ag-tiny embedded
}

case ${1:-} in
    tests) run_tests "$2" ;;
    train) run_trainings "$2" "$3" ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
