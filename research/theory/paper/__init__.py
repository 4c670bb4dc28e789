"""The claims of Leemann et al. (2024), from Proposition 4.1 to the appendices."""
