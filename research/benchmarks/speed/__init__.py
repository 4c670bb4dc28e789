"""How long explanations take, each beside the bare forward passes of its perturbed texts.

Measured are our methods, the published SLALOM, SHAP, LIME, Captum and Interpreto.
"""
