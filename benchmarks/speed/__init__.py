"""How fast explanations are: ours, the published SLALOM, SHAP, LIME, Captum and Interpreto, each beside the bare forward passes of its rows."""
