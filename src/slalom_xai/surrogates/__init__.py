"""The models of a model: what an explanation predicts, how it is fitted, what its scores are."""
