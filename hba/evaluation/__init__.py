"""Policy evaluation of several augmentations side by side: same network, images, epochs and seeds for each."""

from hba.evaluation.contenders import RIVALS
from hba.evaluation.observer import EvaluationObserver
from hba.evaluation.plan import EvaluationPlan
from hba.evaluation.resolution import Resolution
from hba.evaluation.result import RESULTS_NAME, EvaluationResult, EvaluationRow
from hba.evaluation.run import evaluate

__all__ = [
    "RESULTS_NAME",
    "RIVALS",
    "EvaluationObserver",
    "EvaluationPlan",
    "EvaluationResult",
    "EvaluationRow",
    "Resolution",
    "evaluate",
]
