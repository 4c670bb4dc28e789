"""The paper and the slides run again, and the benchmarks; not part of the installed package.

``python -m research --list`` shows what can be reproduced, docs/reproduction.md what came out.
"""
