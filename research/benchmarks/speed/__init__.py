"""How fast explanations are, each beside the bare forward passes of its rows.

Measured are our methods, the published SLALOM, SHAP, LIME, Captum and Interpreto.
"""
