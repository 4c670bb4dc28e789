#!/usr/bin/env bash
# Every table of research/benchmarks/recorded.py, eight at a time, from the files of: STEP=record research/benchmarks/two_scores_on_gpu.sh
#
#     research/benchmarks/recorded_on_gpu.sh FOLDER [TEXTS]
set -uo pipefail
[ $# -ge 1 ] || { echo "error: give the folder of recorded outputs: research/benchmarks/recorded_on_gpu.sh FOLDER [TEXTS]" >&2; exit 2; }
folder=$1 texts=${2:-20}
export PYTHONPATH=src:${PYTHONPATH:-} OMP_NUM_THREADS=1
for cell in "hide 1000 --process" "hide 2000" "hide 500" "delete 2000"; do
    set -- $cell
    for name in mpnet mpnetb bert6 bert6b ag gpt2 bert2; do
        [ ! -f "$folder/$name.npz" ] || echo "$folder/$name.npz --removal $1 --calls $2 ${3:-}"
    done
done | xargs -P 15 -I{} sh -c "python3 -m research.benchmarks.recorded {} --texts $texts > \"\$(echo '{}' | sed 's/ --/-/g; s/[ .]/-/g; s/-npz//').txt\" 2>&1"
for file in "$folder"/*-removal-*.txt; do
    echo "${file##*/}"
    tail -n 3 "$file"
done
