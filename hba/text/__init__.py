"""Language models: regularisation tuned in one training on a folder of text. No image is read here."""

from typing import TYPE_CHECKING

from hba.utils.imports import lazy_names

if TYPE_CHECKING:
    from hba.text.config import TextEvaluationConfig, TextSearchConfig
    from hba.text.evaluation import TextEvaluation, evaluate
    from hba.text.lstm import LstmLanguageModel
    from hba.text.reader import Corpus, Vocabulary
    from hba.text.task import search

_MODULES = {
    "Corpus": "hba.text.reader",
    "LstmLanguageModel": "hba.text.lstm",
    "TextEvaluation": "hba.text.evaluation",
    "TextEvaluationConfig": "hba.text.config",
    "TextSearchConfig": "hba.text.config",
    "Vocabulary": "hba.text.reader",
    "evaluate": "hba.text.evaluation",
    "search": "hba.text.task",
}

__all__ = [
    "Corpus",
    "LstmLanguageModel",
    "TextEvaluation",
    "TextEvaluationConfig",
    "TextSearchConfig",
    "Vocabulary",
    "evaluate",
    "search",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)
