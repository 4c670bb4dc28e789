"""Which cache an explainer uses: on for models that are paid for, off for local ones."""

from __future__ import annotations

from pathlib import Path

from slalom_xai.errors import InputError
from slalom_xai.models import TextModel
from slalom_xai.models.base import ShowsItsWeights, TakesQuestions
from slalom_xai.models.stores import KeepsAnswers
from slalom_xai.queries import AnswerCache
from slalom_xai.queries.cache import KeptAnswers

CacheOption = bool | str | Path | AnswerCache | KeptAnswers | None


def opened_cache(cache: CacheOption, model: TextModel) -> KeptAnswers | None:
    """The answers of a model in the cache that was asked for; None where there is none.

    Args:
        cache: None: a cache for models that keep their answers, and none for others; True: in the
            user's own folder; a folder; a cache; or a cache that is opened under a name.
        model: what is explained. One that keeps its answers uses the cache from now on.

    Raises:
        InputError: no cache, one that cannot be used, or a model that cannot be told from others.
    """
    if cache is False or (cache is None and not isinstance(model, KeepsAnswers)):
        return None
    if isinstance(model, TakesQuestions) and not isinstance(model, KeepsAnswers):
        raise InputError(
            f"a cache was asked for, but the answers of {model.name} are not kept in one: leave "
            "the cache out, or ask a language model on a server, whose answers are kept"
        )
    if isinstance(cache, KeptAnswers):
        opened = cache
    elif isinstance(cache, AnswerCache):
        opened = cache.opened_for(_fingerprint(model))
    elif cache is None or cache is True:
        fingerprint = _fingerprint(model)  # refused before a file is made
        opened = AnswerCache().opened_for(fingerprint)
    elif isinstance(cache, (str, Path)):
        fingerprint = _fingerprint(model)
        opened = AnswerCache(cache).opened_for(fingerprint)
    else:
        raise InputError(
            f"cache is a {type(cache).__name__}: give True, False, a folder or an AnswerCache"
        )
    if isinstance(model, KeepsAnswers):
        model.use(opened)
    return opened


def _fingerprint(model: TextModel) -> str:
    """What tells the model from every other one."""
    if isinstance(model, KeepsAnswers):
        return model.fingerprint
    if isinstance(model, ShowsItsWeights):
        return model.weights_fingerprint()
    raise InputError(
        f"a cache cannot tell {model.name} from other models, because it does not see what "
        "the model is made of: name the model and its version yourself, "
        'cache=AnswerCache().opened_for("my model 1"), or leave the cache out'
    )
