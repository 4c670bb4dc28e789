"""Our ``slalom-eff``, ``slalom-fidel`` and ``slalom`` beside the paper's own implementation.

    pip install --no-deps slalom-explanations==0.1.2
    pip install scipy scikit-learn matplotlib tqdm
    python -m research.benchmarks.published --data reviews.jsonl.gz
    python -m research.benchmarks.published.deletions --data reviews.jsonl.gz --calls 5000

``--data`` holds JSON lines with a field ``text``; the first texts of 40 to 180 tokens are taken.
``--model`` is a folder or hub id of a two-class transformers model, by default the embedded one.

The published package has faults that make it crash or ask the wrong texts. They are repaired in
``package``, each with the reason beside it; its algorithms are left alone.
"""
