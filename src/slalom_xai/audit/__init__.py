"""What a classifier keys on, over a whole data set, with proof: calls to the model.

    table → data (counts, a sample) → words (the loudest) → findings (trials) → report

Words that should not matter are on lists (``word_lists``). Whether they do is measured: they are
put into texts (``trials``), beside random words. Harmless words differ, too, and a finding must
stand out from their spread (``spread``).

Names are imported when they are used: looking at a finished audit (``files``) needs no model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slalom_xai.system.lazy_names import lazy_names

if TYPE_CHECKING:
    from slalom_xai.audit.data import AuditFields
    from slalom_xai.audit.figures import NUMBERS, figures
    from slalom_xai.audit.findings import TrialSettings
    from slalom_xai.audit.rules import Rule, rule
    from slalom_xai.audit.run import Audit, run_audit
    from slalom_xai.audit.settings import AuditSettings
    from slalom_xai.audit.summary import record
    from slalom_xai.audit.word_lists import checked_lists, own_lists
    from slalom_xai.audit.writing import write_audit

__all__ = [
    "NUMBERS",
    "Audit",
    "AuditFields",
    "AuditSettings",
    "Rule",
    "TrialSettings",
    "checked_lists",
    "figures",
    "own_lists",
    "record",
    "rule",
    "run_audit",
    "write_audit",
]

__getattr__ = lazy_names(
    __name__,
    {
        "AuditFields": "data",
        "TrialSettings": "findings",
        "Rule": "rules",
        "rule": "rules",
        "Audit": "run",
        "AuditSettings": "settings",
        "run_audit": "run",
        "NUMBERS": "figures",
        "figures": "figures",
        "record": "summary",
        "checked_lists": "word_lists",
        "own_lists": "word_lists",
        "write_audit": "writing",
    },
)
