"""What a classifier keys on, over a whole data set, with proof: calls to the model.

    table → data (counts, a sample) → words (the loudest) → findings (trials) → report

Words that should not matter are on lists (``words``). Whether they do is measured: they are
put into texts (``trials``), beside random words. Harmless words differ, too, and a finding must
stand out from their spread (``trials``).

Names are imported when they are used: looking at a finished audit (``files``) needs no model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slalom_xai.system.lazy_names import lazy_names

if TYPE_CHECKING:
    from slalom_xai.data.audit.data import AuditFields
    from slalom_xai.data.audit.findings import TrialSettings
    from slalom_xai.data.audit.rules import NUMBERS, Rule, figures, rule
    from slalom_xai.data.audit.run import Audit, AuditSettings, run_audit
    from slalom_xai.data.audit.summary import record, write_audit
    from slalom_xai.data.audit.words import own_lists, read_word_lists

__all__ = [
    "NUMBERS",
    "Audit",
    "AuditFields",
    "AuditSettings",
    "Rule",
    "TrialSettings",
    "figures",
    "own_lists",
    "read_word_lists",
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
        "AuditSettings": "run",
        "run_audit": "run",
        "NUMBERS": "rules",
        "figures": "rules",
        "record": "summary",
        "read_word_lists": "words",
        "own_lists": "words",
        "write_audit": "summary",
    },
)
