"""How much an audit asks."""

from __future__ import annotations

from dataclasses import dataclass

from slalom_xai.audit.findings import TRIALS, TrialSettings
from slalom_xai.audit.subgroups import GROUPS, GroupSettings


@dataclass(frozen=True)
class AuditSettings:
    """How much is asked.

    Attributes:
        texts: that are drawn from the table.
        screened: texts in which every word of the lists is put in the first round; a third of all
            texts at most.
        glanced: of these, texts in which the other words are put.
        tried: words of either kind for each class that are tested: those on lists, and others.
        trial_texts: in which these are put.
        least: texts that must hold a word which is on no list.
        most: words on no list in the first round.
        attacked: texts that are attacked.
        explained: texts that are explained.
        trials: how words are tested.
        groups: how much is asked about groups of texts.
        seed: of all chances.
    """

    texts: int = 1000
    screened: int = 24
    glanced: int = 4
    tried: int = 40
    trial_texts: int = 100
    least: int = 5
    most: int = 2000
    attacked: int = 20
    explained: int = 20
    trials: TrialSettings = TRIALS
    groups: GroupSettings = GROUPS
    seed: int = 0


SETTINGS = AuditSettings()
