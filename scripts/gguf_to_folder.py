"""Saves the model in a GGUF file as a folder that transformers loads, in float16.

python scripts/gguf_to_folder.py SmolLM2-135M-Instruct.Q4_1.gguf data/smollm2

Needs the packages gguf and accelerate. The experiments start from such a folder: see
docs/experiments.md.
"""

import sys
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer


def main(file: Path, folder: Path) -> None:
    """Reads the file and writes the folder."""
    found = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    # The numbers are plain ones by now, and a model that says otherwise is not saved.
    del found.config.quantization_config
    model = AutoModelForCausalLM.from_config(found.config)
    model.load_state_dict(found.state_dict())
    model.half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("error: give a GGUF file and a folder: scripts/gguf_to_folder.py FILE FOLDER")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
