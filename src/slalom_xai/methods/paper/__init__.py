"""The paper's SLALOM and its three estimators (Leemann et al. 2024).

``formula`` is the reference, ``shapley`` has its exact Shapley values, and ``fit`` fits it to many
texts at once. ``eff`` and ``fidel`` are Algorithms 1 and 2, ``exact`` is Proposition 5.2.
``distinct_units`` makes scores of all units from what was fitted to the distinct ones.
"""
