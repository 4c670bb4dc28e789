"""The models of a model: what an explanation predicts, how it is fitted, what its scores are.

Where to start reading:

    formula         the function itself, and the reference for all fast forms
    problem         what a fit solves (``assembly`` builds it from requests)
    projection      values solved out, by one linear solution
    curvature       slope and curvature in the importances (``scaled_counts`` has the products)
    search          damped steps in the importances (``batching``: several texts at once)
    fit             the way in: ``fit_slalom``, ``fit_many``
    influence       the covariance of what was fitted (``sandwich``, ``whole_text``)
    row_weights     what residuals say about weights and penalties

    scores          scores and their standard errors (``score_slopes``)
    exact_shapley   Shapley values (``quadrature``)
    additive        the linear surrogate
    pairs           a linear surrogate with some pairs of units (``pairs_fit`` finds them)
    process         a Gaussian process, which predicts and does not explain (``conditioning``: what
                    it learns of rows; ``process_fit``: its kernel, by ``likelihood``, ``scoring``)
    quality         how well a surrogate predicts, in numbers and in words
    recover         closed forms for models that are SLALOMs
    published       the paper's solvers, for comparison
    count_tables    rows of counts, and the three products that fits need of them
    near_zero       a number for where zero cannot be divided by
"""
