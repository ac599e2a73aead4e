"""The settings of a search that are compared with each other, by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from common.records import Run
from common.settings import NEUTRAL
from common.settings import PAPER as AS_IN_PAPER

from hba.algorithms import Algorithm
from hba.errors import SettingsError
from quality.trials import AugmentedValidation, EarlySteps

PAPER = "paper"
"""What all others are compared with."""
DEFAULT = "from-randaugment-half-validation"
"""What `hba search` does without settings."""
FORMER = "from-randaugment"
"""What it did before."""
STRENGTH = "strength"
"""What it did before that, from the middle of every range."""
DRAWS = "lookahead-draws"
"""What it did first, in version 0.1.0: look-ahead without a strength that is searched first."""


@dataclass(frozen=True)
class Candidate:
    """What it does in one line, and its settings of SearchConfig over the paper's. trial: its algorithm, where that is
    not one of hba's.
    """

    text: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    trial: type[Algorithm] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """As records keep them."""
        own = {} if self.trial is None else {"algorithm": self.trial.name}
        return {**AS_IN_PAPER, **self.changes, **own}


_MIDDLE = {"initial_fraction": 0.5}
_LOOKAHEAD = {
    "algorithm": "lookahead",
    **_MIDDLE,
    "reward_draws": 1,
    "reward_derivative": "exact",
    "init": "fraction",
    "count": "fixed",
    "sigma": 1.0,
    "spread_over": "none",
    "spread_share": 1.0,
    "warm_up_epochs": 0,
    "lambda_betas": (0.9, 0.999),
    "strength_learning_rate": 0.0,
    "divergence_weight": 0.0,
    "val_batch_size": None,
}
_LIMIT = {**_LOOKAHEAD, "calibrate": True, "reward_limit": 1.0}
_DRAWS = {**_LOOKAHEAD, "reward_draws": 4, "train_steps": 4}
_STRENGTH = {
    **_DRAWS,
    "train_steps": 5,
    "count": "searched",
    "spread_over": "magnitudes",
    "spread_share": 0.5,
    "lambda_betas": (0.98, 0.999),
    "strength_learning_rate": 0.1,
    "divergence_weight": 0.1,
}
_FROM_RANDAUGMENT = {**_STRENGTH, "init": "randaugment"}
_FORMER = {**_FROM_RANDAUGMENT, "divergence_weight": 0.03, "reward_derivative": "auto"}
_DEFAULT = {**_FORMER, "val_batch_size": 50}
_LATE = {"warm_up_epochs": None}

CANDIDATES: Mapping[str, Candidate] = MappingProxyType(
    {
        PAPER: Candidate("as in the paper"),
        "sigma-0.5": Candidate("half the noise on lambda", {"sigma": 0.5}),
        "sigma-2": Candidate("twice the noise on lambda", {"sigma": 2.0}),
        "sigma-decay": Candidate("noise on lambda falls from 1 to 0.2", {"sigma_end": 0.2}),
        "warm-up": Candidate("first lambda step after 20 epochs", {"warm_up_epochs": 20}),
        "batch-statistics": Candidate("BatchNorm by the batch in lambda steps", {"val_statistics": "batch"}),
        "calibrate": Candidate("validation logits divided by the best temperature", {"calibrate": True}),
        "val-500": Candidate("500 validation images in a lambda step", {"val_batch_size": 500}),
        "slow-betas": Candidate("hypergradients averaged over 100 lambda steps", {"lambda_betas": (0.99, 0.999)}),
        "trust-region": Candidate("lambda steps of at most 0.1 logits", {"trust_radius": 0.1}),
        "bounded": Candidate("logits between -3 and 3", {"logit_bound": 3.0}),
        "centered": Candidate("response centered at lambda (Delta-STN, 3.1)", {"response": "centered"}),
        "separate": Candidate("centered, weights learnt apart (3.2)", {"response": "separate"}),
        "linearized": Candidate("separate, in the linearized network (3.3)", {"response": "linearized"}),
        "no-response-decay": Candidate("no weight decay on the response", {"response_weight_decay": 0.0}),
        "middle": Candidate("all hyperparameters start in the middle", _MIDDLE),
        "lookahead": Candidate("look-ahead from the middle", _LOOKAHEAD),
        "lookahead-calibrate": Candidate("look-ahead, calibrated", {**_LOOKAHEAD, "calibrate": True}),
        "lookahead-limit": Candidate("look-ahead, calibrated, rewards within 1", _LIMIT),
        "lookahead-every": Candidate(
            "look-ahead, calibrated, within 1, after every step", {**_LIMIT, "train_steps": 1}
        ),
        DRAWS: Candidate("look-ahead, 4 draws for each image, after every 4th step", _DRAWS),
        "lookahead-draws-calibrate": Candidate("4 draws, calibrated", {**_DRAWS, "calibrate": True}),
        "lookahead-draws-val": Candidate("4 draws, and 4 validation batches", {**_DRAWS, "val_batches": 4}),
        "lookahead-draws-often": Candidate("4 draws, after every 2nd step", {**_DRAWS, "train_steps": 2}),
        "lookahead-draws-warm-up": Candidate(
            "4 draws, first lambda step after 20 epochs", {**_DRAWS, "warm_up_epochs": 20}
        ),
        "hba-lookahead": Candidate("4 draws, and the hypergradient of HBA", {**_DRAWS, "algorithm": "hba-lookahead"}),
        STRENGTH: Candidate("4 draws, strength first, pulled to the middle, with a spread", _STRENGTH),
        "strength-fixed-count": Candidate("the same without a search of K", {**_STRENGTH, "count": "fixed"}),
        "strength-unshared": Candidate(
            "the same without shared coordinates", {**_STRENGTH, "strength_learning_rate": 0.0}
        ),
        "strength-free": Candidate("the same without a pull to the start", {**_STRENGTH, "divergence_weight": 0.0}),
        "strength-bare": Candidate("the same, used without a spread", {**_STRENGTH, "spread_over": "none"}),
        "strength-spread": Candidate("the same, used with all of the spread", {**_STRENGTH, "spread_share": 1.0}),
        "strength-late": Candidate("the same in the second half of the epochs", {**_STRENGTH, **_LATE}),
        "strength-randaugment": Candidate("the same from RandAugment", _FROM_RANDAUGMENT),
        "strength-randaugment-light": Candidate(
            "the same from RandAugment, a third of the pull", {**_FROM_RANDAUGMENT, "divergence_weight": 0.03}
        ),
        "strength-randaugment-free": Candidate(
            "the same from RandAugment, without a pull", {**_FROM_RANDAUGMENT, "divergence_weight": 0.0}
        ),
        "strength-randaugment-fast": Candidate(
            "the same from RandAugment, with larger steps of strength",
            {**_FROM_RANDAUGMENT, "strength_learning_rate": 0.3},
        ),
        "strength-randaugment-two": Candidate(
            "the same from RandAugment, 2 draws for each image", {**_FROM_RANDAUGMENT, "reward_draws": 2}
        ),
        FORMER: Candidate(
            "the same from RandAugment, a third of the pull, rewards by differences",
            _FORMER,
        ),
        f"{FORMER}-fixed-count": Candidate("that without a search of K", {**_FORMER, "count": "fixed"}),
        f"{FORMER}-unshared": Candidate("that without shared coordinates", {**_FORMER, "strength_learning_rate": 0.0}),
        f"{FORMER}-spread-all": Candidate(
            "that, used with half the spread of probabilities too", {**_FORMER, "spread_over": "all"}
        ),
        f"{FORMER}-search-spread": Candidate("that, with a search of the spread", {**_FORMER, "search_spread": True}),
        f"{FORMER}-short-average": Candidate(
            "that, with gradients averaged over 10 lambda steps", {**_FORMER, "lambda_betas": (0.9, 0.999)}
        ),
        f"{FORMER}-early-steps": Candidate(
            "that, with lambda steps twice as large at first, which fall linearly to nothing", _FORMER, EarlySteps
        ),
        f"{FORMER}-augmented-validation": Candidate(
            "that, with validation images that went through the baseline augmentation", _FORMER, AugmentedValidation
        ),
        f"{FORMER}-three-draws": Candidate("that, with 3 draws for each image", {**_FORMER, "reward_draws": 3}),
        f"{FORMER}-six-steps": Candidate("that, after every 6th step", {**_FORMER, "train_steps": 6}),
        DEFAULT: Candidate("that, with 50 validation images in a lambda step, half a batch", _DEFAULT),
        f"{FORMER}-bfloat16": Candidate("that, with --fast", {**_FORMER, "fast": True}),
        "strength-first": Candidate("the same from RandAugment, in the second half", {**_FROM_RANDAUGMENT, **_LATE}),
    }
)


def find_candidate(name: str) -> Candidate:
    """The candidate of that exact name; SettingsError with the known names otherwise."""
    if name not in CANDIDATES:
        raise SettingsError(f"unknown candidate {name!r}; known: {', '.join(CANDIDATES)}")
    return CANDIDATES[name]


def is_of(name: str, run: Run) -> bool:
    """Whether a run had the settings that the candidate has now; what is no candidate has none of its own."""
    if name not in CANDIDATES:
        return True
    settings = {**run.settings, **NEUTRAL, **CANDIDATES[name].settings}
    return replace(run, settings=settings).digest == run.digest
