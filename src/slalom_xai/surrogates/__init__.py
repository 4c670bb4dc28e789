"""The functions of the methods beside ``slalom``: the paper's SLALOM, linear ones and processes.

Where to start reading:

    formula         the paper's SLALOM, and the reference for all fast forms
    fit             fits it, many texts and candidates at once: ``fit_slalom``, ``fit_many``
    errors          standard errors of its scores
    count_tables    rows of counts, and the products that fits need of them
    row_weights     what residuals say about the weights of rows
    scores          scores of all functions here
    exact_shapley   Shapley values of a SLALOM (``quadrature``)
    recover         closed forms for models that are SLALOMs
    published       the paper's solvers, for comparison

    additive        a linear function
    pairs           a linear function with some pairs of units (``pairs_fit`` finds them)
    process         a Gaussian process, which predicts and does not explain (``process_fit`` finds
                    its kernel by its ``likelihood``)
    near_zero       a number for where zero cannot be divided by
"""
