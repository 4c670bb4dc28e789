"""Every method, by its class: ``from slalom_xai.methods import Slalom``.

``slalom_xai.methods()`` lists them, so this module can be called: once it is imported, it stands in
the place of the function of the same name.
"""

import sys
from types import ModuleType

from slalom_xai.estimators import *  # noqa: F403
from slalom_xai.estimators import __all__ as __all__
from slalom_xai.estimators import methods


class _ListsMethods(ModuleType):
    """A module that is called as the function of its name."""

    def __call__(self) -> dict[str, str]:
        return methods()


sys.modules[__name__].__class__ = _ListsMethods
