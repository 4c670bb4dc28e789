"""One value and one importance for each item of a vocabulary, whatever text it stands in.

    texts or a list → items → design (rows) → evidence (the model's answers) → fitting → result

Values are measured: the model's answers to texts that an item fills. Importances are fitted to
short sequences of random items and to shortened texts, all items at once.
"""

from slalom_xai.data.vocabulary.build import VocabularyPlan, build_vocabulary
from slalom_xai.data.vocabulary.result import Quality, Vocabulary, VocabularyItem

__all__ = ["Quality", "Vocabulary", "VocabularyItem", "VocabularyPlan", "build_vocabulary"]
