#!/usr/bin/env bash
# The parts of the speed benchmark that need a GPU, each within a share of a time limit; what was measured is kept whatever happens.
#
#     research/benchmarks/speed_on_gpu.sh OUT SECONDS [PUBLISHED]
#
# OUT/speed-gpu.jsonl grows with every run. PUBLISHED is a folder of wheels, where the published code or what it needs is not installed and
# nothing can be downloaded:
#     pip download --no-deps --only-binary=:all: --python-version 3.12 --platform manylinux_2_28_x86_64 -d PUBLISHED \
#         slalom-explanations==0.1.2 scipy scikit-learn joblib threadpoolctl tqdm
# Libraries that are not there are said and skipped.
set -uo pipefail
[ $# -ge 2 ] || { echo "error: give a folder for results and a number of seconds: research/benchmarks/speed_on_gpu.sh OUT SECONDS [PUBLISHED]" >&2; exit 2; }
out=$1 seconds=$2 published=${3:-}
python=$(command -v python3 || command -v python)
packages=
if [ -n "$published" ]; then
    packages=$(mktemp -d)
    "$python" -m pip install -qq --no-deps --no-index --target "$packages" "$published"/*.whl || echo "the published code is left out" >&2
fi
export PYTHONPATH=src:.:${PYTHONPATH:-} PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
mkdir -p "$out"
deadline=$((SECONDS + seconds))
part() { # share of the whole limit in percent, then options
    local limit=$((seconds * $1 / 100)) left=$((deadline - SECONDS))
    shift
    [ "$limit" -le "$left" ] || limit=$left
    [ "$limit" -gt 10 ] || { echo "left out, no time: $*" >&2; return; }
    timeout $((left > 0 ? left : 1)) "$python" -m research.benchmarks.speed --device cuda --out "$out/speed-gpu.jsonl" --seconds "$limit" \
        ${packages:+--packages "$packages"} "$@" 2>> "$out/speed-gpu.log"
}
ours=slalom-eff,slalom-eff-untested,slalom-fidel,slalom,linear
part 25 --models distil2 --calls 5000 --repeats 5 --methods $ours
part 15 --models llama7b --calls 1000 --repeats 7 --methods slalom-eff,slalom-eff-untested
part 25 --models distil2 --calls 5000 --repeats 2 --methods slalom-eff,published-eff,slalom-fidel,published-fidel
part 15 --models distil6 --calls 5000 --repeats 3 --methods $ours
part 10 --part growth --axes texts --repeats 2
part 20 --part growth --axes tokens,calls,classes --repeats 2
part 10 --part memory
"$python" -m research.benchmarks.speed --tables "$out/speed-gpu.jsonl"
