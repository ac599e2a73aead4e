"""Evaluates augmentations by paired trainings: the same network, images, epochs and seeds for each row."""

from hba.policy_evaluation.baselines import BASELINES
from hba.policy_evaluation.callbacks import EvaluationCallback, EvaluationPlan, TensorBoardLogger
from hba.policy_evaluation.evaluation import evaluate
from hba.policy_evaluation.results import EvaluationResult, EvaluationRow
from hba.policy_evaluation.settings import explain
from hba.policy_evaluation.statistics import Resolution
from hba.policy_evaluation.verdict import Verdict
from hba.report.results import RESULTS_NAME

__all__ = [
    "BASELINES",
    "RESULTS_NAME",
    "EvaluationCallback",
    "EvaluationPlan",
    "EvaluationResult",
    "EvaluationRow",
    "Resolution",
    "TensorBoardLogger",
    "Verdict",
    "evaluate",
    "explain",
]
