"""Hypernetwork-Based Augmentation: search a data-augmentation schedule for your own images in one training."""

import os
from pathlib import Path

__version__ = "0.1.0"

# PyTorch's threads spin while they wait for each other. Where another program wants a core too, a search is then
# several times slower than with threads that give their core away. Works only before torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from hba.errors import HbaError
from hba.hypernet import HyperNetwork
from hba.operations import OPERATIONS, Operation, register_operation
from hba.policy.module import Policy
from hba.policy.space import SearchSpace
from hba.policy.spaces import SPACES, search_space
from hba.policy_evaluation import EvaluationObserver, EvaluationResult, evaluate

# The function takes the place of the package in this namespace; `from hba.algorithms.state import ...` works as ever.
from hba.policy_search.observer import SearchObserver
from hba.policy_search.plan import SearchPlan
from hba.policy_search.result import SearchResult
from hba.policy_search.run import search
from hba.schedule.library import load_policy, policy_names
from hba.schedule.schedule import Schedule
from hba.schedule.transform import PolicyTransform

# An installed package has hba.cli and hba.policies inside. A checkout, which Python finds first where it is started in
# it, has them beside this folder.
_CHECKOUT = Path(__file__).resolve().parents[1]
if (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "policies").is_dir():
    __path__.append(str(_CHECKOUT))

__all__ = [
    "OPERATIONS",
    "SPACES",
    "EvaluationObserver",
    "EvaluationResult",
    "HbaError",
    "HyperNetwork",
    "Operation",
    "Policy",
    "PolicyTransform",
    "Schedule",
    "SearchObserver",
    "SearchPlan",
    "SearchResult",
    "SearchSpace",
    "__version__",
    "evaluate",
    "load_policy",
    "policy_names",
    "register_operation",
    "search",
    "search_space",
]
