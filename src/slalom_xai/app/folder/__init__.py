"""A folder that ``slalom corpus`` or ``slalom audit`` filled, to look at; nothing is written."""

from slalom_xai.app.folder.audit import AuditFolder
from slalom_xai.app.folder.corpus import StoredCorpus
from slalom_xai.app.folder.opening import open_folder

__all__ = ["AuditFolder", "StoredCorpus", "open_folder"]
