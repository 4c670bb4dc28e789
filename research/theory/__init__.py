"""The claims of the paper and of the slides about the scores, as code that runs."""
