"""Evaluates augmentations by paired trainings, with the same network, images, epochs
and seeds for each row.
"""

from hba.policy_evaluation.baselines import BASELINES
from hba.policy_evaluation.callbacks import (
    EvaluationCallback,
    EvaluationPlan,
    TensorBoardLogger,
)
from hba.policy_evaluation.evaluation import evaluate
from hba.results.evaluation import RESULTS_NAME, EvaluationResult, EvaluationRow

__all__ = [
    "BASELINES",
    "RESULTS_NAME",
    "EvaluationCallback",
    "EvaluationPlan",
    "EvaluationResult",
    "EvaluationRow",
]
__all__ += ["TensorBoardLogger", "evaluate"]
