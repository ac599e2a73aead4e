"""Language models: regularisation tuned in one training on a folder of text. No image is read here."""

from typing import TYPE_CHECKING

from hba.utils.imports import lazy_names

if TYPE_CHECKING:
    from hba.text.config import TextEvaluationConfig, TextSearchConfig
    from hba.text.corpus import Corpus, Vocabulary
    from hba.text.evaluation import TextEvaluation, evaluate
    from hba.text.lstm import LstmLanguageModel
    from hba.text.result import TextSearchResult
    from hba.text.searching import search

_MODULES = {
    "Corpus": "hba.text.corpus",
    "LstmLanguageModel": "hba.text.lstm",
    "TextEvaluation": "hba.text.evaluation",
    "TextEvaluationConfig": "hba.text.config",
    "TextSearchConfig": "hba.text.config",
    "TextSearchResult": "hba.text.result",
    "Vocabulary": "hba.text.corpus",
    "evaluate": "hba.text.evaluation",
    "search": "hba.text.searching",
}

__all__ = [
    "Corpus",
    "LstmLanguageModel",
    "TextEvaluation",
    "TextEvaluationConfig",
    "TextSearchConfig",
    "TextSearchResult",
    "Vocabulary",
    "evaluate",
    "search",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)
