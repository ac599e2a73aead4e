"""Hypernetwork-Based Augmentation: find a data-augmentation schedule for your own
images in one training.

Importing hba is fast: PyTorch and other slow packages are not imported until you use a
public name that needs them. The import does nothing else, and sets no environment
variable.

If other programs use the cores too, set OMP_WAIT_POLICY=PASSIVE before the first import
of torch, as the command line does. Otherwise, PyTorch's threads spin while they wait
for each other, and a search on busy cores is several times slower than with threads
that yield their core.
"""

import pkgutil
from pathlib import Path
from typing import TYPE_CHECKING

from hba.errors import HbaError as HbaError
from hba.utils.devices import VERSION
from hba.utils.imports import lazy_names

if TYPE_CHECKING:
    from hba import (
        algorithms as algorithms,
        config as config,
        data as data,
        errors as errors,
        exports as exports,
        hypernet as hypernet,
        importers as importers,
        models as models,
        operations as operations,
        own_training as own_training,
        policy as policy,
        policy_choice as policy_choice,
        policy_evaluation as policy_evaluation,
        policy_search as policy_search,
        preprocessing as preprocessing,
        regularization as regularization,
        report as report,
        results as results,
        schedule as schedule,
        tasks as tasks,
        text as text,
        training as training,
        utils as utils,
    )
    from hba.exports import export as export
    from hba.hypernet import HyperNetwork as HyperNetwork
    from hba.importers import import_policy as import_policy
    from hba.operations import (
        OPERATIONS as OPERATIONS,
        Operation as Operation,
        register_operation as register_operation,
    )
    from hba.own_training import ContestResult as ContestResult, contest as contest
    from hba.policy.module import Policy as Policy
    from hba.policy.space import SearchSpace as SearchSpace
    from hba.policy.spaces import SPACES as SPACES, search_space as search_space
    from hba.policy_choice import (
        AutoCallback as AutoCallback,
        AutoResult as AutoResult,
        auto as auto,
    )
    from hba.policy_evaluation import (
        EvaluationCallback as EvaluationCallback,
        EvaluationResult as EvaluationResult,
        evaluate as evaluate,
    )
    from hba.policy_evaluation.train import train as train
    from hba.policy_search.callbacks import (
        SearchCallback as SearchCallback,
        SearchPlan as SearchPlan,
        SearchResult as SearchResult,
        TensorBoardLogger as TensorBoardLogger,
    )
    from hba.policy_search.search import search as search
    from hba.policy_search.seeds import repeated_search as repeated_search
    from hba.regularization.groups import register_regularizer as register_regularizer
    from hba.regularization.regularizer import (
        Hyperparameter as Hyperparameter,
        Regularizer as Regularizer,
    )
    from hba.report.page import write_report as write_report
    from hba.results.answer import Answer as Answer
    from hba.results.compare import Comparison as Comparison, compare as compare
    from hba.results.over_seeds import OverSeeds as OverSeeds
    from hba.schedule.library import (
        load_policy as load_policy,
        policy_names as policy_names,
    )
    from hba.schedule.mixing import BatchTransform as BatchTransform, Mixing as Mixing
    from hba.schedule.schedule import Schedule as Schedule
    from hba.schedule.transform import PolicyTransform as PolicyTransform
    from hba.training.augmentation import Augmentation as Augmentation
    from hba.training.trained_network import (
        TrainedNetwork as TrainedNetwork,
        load_network as load_network,
    )

_NAMES = {
    "hba.policy_choice": ("AutoCallback", "AutoResult", "auto"),
    "hba.exports": ("export",),
    "hba.hypernet": ("HyperNetwork",),
    "hba.importers": ("import_policy",),
    "hba.operations": ("OPERATIONS", "Operation", "register_operation"),
    "hba.own_training": ("ContestResult", "contest"),
    "hba.policy.module": ("Policy",),
    "hba.policy.space": ("SearchSpace",),
    "hba.policy.spaces": ("SPACES", "search_space"),
    "hba.policy_evaluation": (
        "EvaluationCallback",
        "EvaluationResult",
        "evaluate",
    ),
    "hba.policy_evaluation.train": ("train",),
    "hba.policy_search.callbacks": (
        "SearchCallback",
        "SearchPlan",
        "SearchResult",
        "TensorBoardLogger",
    ),
    "hba.policy_search.search": ("search",),
    "hba.policy_search.seeds": ("repeated_search",),
    "hba.regularization.groups": ("register_regularizer",),
    "hba.regularization.regularizer": ("Hyperparameter", "Regularizer"),
    "hba.report.page": ("write_report",),
    "hba.results.answer": ("Answer",),
    "hba.results.compare": ("Comparison", "compare"),
    "hba.results.over_seeds": ("OverSeeds",),
    "hba.schedule.library": ("load_policy", "policy_names"),
    "hba.schedule.mixing": ("BatchTransform", "Mixing"),
    "hba.schedule.schedule": ("Schedule",),
    "hba.schedule.transform": ("PolicyTransform",),
    "hba.training.augmentation": ("Augmentation",),
    "hba.training.trained_network": ("TrainedNetwork", "load_network"),
}
__version__ = VERSION
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
_FOLDERS = [
    name for _, name, is_package in pkgutil.iter_modules(__path__) if is_package
]

# An installed package has hba.cli and hba.policies inside. A checkout, which Python
# finds first if it is started there, has them beside this folder.
_CHECKOUT = Path(__file__).resolve().parents[1]
if (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "policies").is_dir():
    __path__.append(str(_CHECKOUT))

__all__ = sorted([*_MODULES, "HbaError", "__version__"])

if not TYPE_CHECKING:
    # A type checker that saw __getattr__ would take any name for a public one.
    __getattr__, __dir__ = lazy_names(__name__, _MODULES, _FOLDERS)
