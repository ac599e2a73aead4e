"""Policy evaluation of several augmentations side by side: same network, images, epochs and seeds for each."""

from hba.policy_evaluation.callbacks import EvaluationCallback
from hba.policy_evaluation.contenders import RIVALS
from hba.policy_evaluation.plan import EvaluationPlan
from hba.policy_evaluation.resolution import Resolution
from hba.policy_evaluation.result import EvaluationResult, EvaluationRow
from hba.policy_evaluation.run import evaluate
from hba.policy_evaluation.settings import explain
from hba.policy_evaluation.tensorboard import TensorBoardLogger
from hba.policy_evaluation.verdict import Verdict
from hba.report.results import RESULTS_NAME

__all__ = [
    "RESULTS_NAME",
    "RIVALS",
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
