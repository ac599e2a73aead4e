"""Language models: regularization tuned in one training on a folder of text."""

from hba.text.config import TextEvaluationConfig, TextSearchConfig
from hba.text.evaluation import TextEvaluation, evaluate
from hba.text.lstm import LstmLanguageModel
from hba.text.problem import search
from hba.text.reader import Corpus, Vocabulary

__all__ = [
    "Corpus",
    "LstmLanguageModel",
    "TextEvaluation",
    "TextEvaluationConfig",
    "TextSearchConfig",
    "Vocabulary",
]
__all__ += ["evaluate", "search"]
