"""The paper's three estimators (Leemann et al. 2024).

Equal units share their scores, which are copied to each index at which they stand.
"""

from slalom_xai.estimators.paper.eff import SlalomEff
from slalom_xai.estimators.paper.exact import SlalomExact
from slalom_xai.estimators.paper.fidel import SlalomFidel

__all__ = ["SlalomEff", "SlalomExact", "SlalomFidel"]
