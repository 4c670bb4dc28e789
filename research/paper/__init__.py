"""The paper's experiments as code that runs: our numbers beside the printed ones."""
