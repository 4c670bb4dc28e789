#!/usr/bin/env bash
# The speed benchmark on a GPU, part by part within a time limit; a later run does the parts that are left.
#
#     research/benchmarks/speed_on_gpu.sh OUT SECONDS [WHEELS]
#
# Results of each part go to OUT/speed-gpu-PART.jsonl. WHEELS is a folder of wheels for what is not installed, where nothing can be
# downloaded: pydantic, scipy and what else slalom-xai needs, and for the published code slalom-explanations, scikit-learn and tqdm:
#     pip download --only-binary=:all: --python-version 3.12 --platform manylinux_2_28_x86_64 --no-deps -d WHEELS slalom-explanations==0.1.2 ...
# Libraries that are not there are reported as failed.
set -uo pipefail
[ $# -ge 2 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
out=$1 deadline=$((SECONDS + $2)) wheels=${3:-}
python=$(command -v python3 || command -v python)
packages=
if [ -n "$wheels" ]; then
    packages=$(mktemp -d)
    trap 'rm -rf "$packages"' EXIT
    "$python" -m pip install -qq --no-deps --no-index --target "$packages" "$wheels"/*.whl || echo "wheels are left out" >&2
fi
export PYTHONPATH=src:.:$packages:${PYTHONPATH:-} PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
mkdir -p "$out"
for part in one list agreement growth long sooner users; do
    results=$out/speed-gpu-$part.jsonl left=$((deadline - SECONDS))
    [ ! -f "$results" ] || continue
    [ "$left" -gt 10 ] || { echo "$part: left for a later run" >&2; continue; }
    rm -f "$results.unfinished"
    timeout "$left" "$python" -m research.benchmarks.speed --device cuda --part "$part" --out "$results.unfinished" 2>> "$out/speed-gpu.log" &&
        mv "$results.unfinished" "$results" || { echo "$part: unfinished" >&2; tail -n 3 "$out/speed-gpu.log" >&2; }
done
"$python" -m research.benchmarks.speed --tables "$out"/speed-gpu-*.jsonl*
