"""Hypernetwork-Based Augmentation: search a data-augmentation schedule for your own images in one training."""

from hba.errors import HbaError
from hba.evaluation import EvaluationObserver, EvaluationResult, evaluate
from hba.hypernet import HyperNetwork
from hba.library import load_policy, policy_names
from hba.operations import OPERATIONS, Operation
from hba.policy import Policy
from hba.schedule import Schedule
from hba.search import SearchObserver, SearchResult, search
from hba.space import SearchSpace
from hba.transform import PolicyTransform

__all__ = [
    "OPERATIONS",
    "EvaluationObserver",
    "EvaluationResult",
    "HbaError",
    "HyperNetwork",
    "Operation",
    "Policy",
    "PolicyTransform",
    "Schedule",
    "SearchObserver",
    "SearchResult",
    "SearchSpace",
    "evaluate",
    "load_policy",
    "policy_names",
    "search",
]
