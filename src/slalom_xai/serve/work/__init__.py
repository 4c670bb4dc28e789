"""What worker processes do: they load a model, explain its jobs and answer quick questions."""
