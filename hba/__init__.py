"""Hypernetwork-Based Augmentation: search a data-augmentation schedule for your own images in one training.

An import of hba imports neither PyTorch nor anything else that takes long: public names are imported when they are
first used. Nothing is done besides, and no environment variable is set.

Where other programs want the cores too, set OMP_WAIT_POLICY=PASSIVE before the first import of torch, as the command
line does. PyTorch's threads spin while they wait for each other, and a search among busy neighbours is then several
times slower than with threads that yield their core.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from hba.errors import HbaError
from hba.utils.devices import VERSION as __version__
from hba.utils.imports import lazy_names

if TYPE_CHECKING:
    from hba import algorithms as algorithms
    from hba import config as config
    from hba import data as data
    from hba import errors as errors
    from hba import exports as exports
    from hba import hypernet as hypernet
    from hba import importers as importers
    from hba import models as models
    from hba import operations as operations
    from hba import policy as policy
    from hba import policy_evaluation as policy_evaluation
    from hba import policy_search as policy_search
    from hba import preprocessing as preprocessing
    from hba import regularization as regularization
    from hba import report as report
    from hba import schedule as schedule
    from hba import text as text
    from hba import training as training
    from hba import utils as utils
    from hba.exports import export
    from hba.hypernet import HyperNetwork
    from hba.importers import import_policy
    from hba.operations import OPERATIONS, Operation, register_operation
    from hba.policy.module import Policy
    from hba.policy.space import SearchSpace
    from hba.policy.spaces import SPACES, search_space
    from hba.policy_evaluation import EvaluationCallback, EvaluationResult, Verdict, evaluate
    from hba.policy_search.callbacks import SearchCallback, TensorBoardLogger
    from hba.policy_search.result import SearchPlan, SearchResult
    from hba.policy_search.search import search
    from hba.policy_search.seeds import repeated_search
    from hba.regularization.groups import register_regularizer
    from hba.regularization.regularizer import Hyperparameter, Regularizer
    from hba.report.compare import Comparison, compare
    from hba.report.over_seeds import OverSeeds
    from hba.report.page import write_report
    from hba.schedule.library import load_policy, policy_names
    from hba.schedule.schedule import Schedule
    from hba.schedule.transform import PolicyTransform
    from hba.training.augmentation import Augmentation

_NAMES = {
    "hba.exports": ("export",),
    "hba.hypernet": ("HyperNetwork",),
    "hba.importers": ("import_policy",),
    "hba.operations": ("OPERATIONS", "Operation", "register_operation"),
    "hba.policy.module": ("Policy",),
    "hba.policy.space": ("SearchSpace",),
    "hba.policy.spaces": ("SPACES", "search_space"),
    "hba.policy_evaluation": ("EvaluationCallback", "EvaluationResult", "Verdict", "evaluate"),
    "hba.policy_search.callbacks": ("SearchCallback", "TensorBoardLogger"),
    "hba.policy_search.result": ("SearchPlan", "SearchResult"),
    "hba.policy_search.search": ("search",),
    "hba.policy_search.seeds": ("repeated_search",),
    "hba.regularization.groups": ("register_regularizer",),
    "hba.regularization.regularizer": ("Hyperparameter", "Regularizer"),
    "hba.report.compare": ("Comparison", "compare"),
    "hba.report.over_seeds": ("OverSeeds",),
    "hba.report.page": ("write_report",),
    "hba.schedule.library": ("load_policy", "policy_names"),
    "hba.schedule.schedule": ("Schedule",),
    "hba.schedule.transform": ("PolicyTransform",),
    "hba.training.augmentation": ("Augmentation",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
_FOLDERS = [file.parent.name for file in Path(__file__).parent.glob("*/__init__.py")]

# An installed package has hba.cli and hba.policies inside. A checkout, which Python finds first where it is started in
# it, has them beside this folder.
_CHECKOUT = Path(__file__).resolve().parents[1]
if (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "policies").is_dir():
    __path__.append(str(_CHECKOUT))

__all__ = [
    "OPERATIONS",
    "SPACES",
    "Augmentation",
    "Comparison",
    "EvaluationCallback",
    "EvaluationResult",
    "HbaError",
    "HyperNetwork",
    "Hyperparameter",
    "Operation",
    "OverSeeds",
    "Policy",
    "PolicyTransform",
    "Regularizer",
    "Schedule",
    "SearchCallback",
    "SearchPlan",
    "SearchResult",
    "SearchSpace",
    "TensorBoardLogger",
    "Verdict",
    "__version__",
    "compare",
    "evaluate",
    "export",
    "import_policy",
    "load_policy",
    "policy_names",
    "register_operation",
    "register_regularizer",
    "repeated_search",
    "search",
    "search_space",
    "write_report",
]

if not TYPE_CHECKING:
    # A type checker that saw __getattr__ would take any name for a public one.
    __getattr__, __dir__ = lazy_names(__name__, _MODULES, _FOLDERS)
