"""What Lopardo, Precioso and Garreau (2024) prove of one attention layer, as code that runs."""
