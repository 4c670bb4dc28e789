"""What Lopardo, Precioso and Garreau (2024) prove of a classifier with one attention layer, as code that runs."""
