"""The candidates: settings of a search that are compared with each other, by name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from common.settings import PAPER as AS_IN_PAPER

from hba.errors import SettingsError

PAPER = "paper"
"""`hba search --paper`; all other candidates change some of its settings."""
DEFAULT = "from-randaugment-half-validation"
"""`hba search --space hba`."""
FORMER = "from-randaugment"
"""The default with whole batches of validation images. Its parts are exchanged one by one."""
DRAWS = "lookahead-draws"
"""Look-ahead alone: four draws for each image, from the middle of every range."""


@dataclass(frozen=True)
class Candidate:
    """Settings of a search. text: one line that says what it does. changes: settings that differ from the paper's."""

    text: str
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        return {**AS_IN_PAPER, "space": "hba", **self.changes}


_DRAWS = {
    "algorithm": "lookahead",
    "initial_fraction": 0.5,
    "reward_draws": 4,
    "train_steps": 4,
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
_FORMER = {
    **_DRAWS,
    "init": "randaugment",
    "train_steps": 5,
    "count": "searched",
    "spread_over": "magnitudes",
    "spread_share": 0.5,
    "lambda_betas": (0.98, 0.999),
    "strength_learning_rate": 0.1,
    "divergence_weight": 0.03,
    "reward_derivative": "auto",
}


def _former_with(text: str, **changes: Any) -> Candidate:
    return Candidate(text, {**_FORMER, **changes})


CANDIDATES: Mapping[str, Candidate] = MappingProxyType(
    {
        PAPER: Candidate("as in the paper"),
        "warm-up": Candidate("first lambda step after 20 epochs", {"warm_up_epochs": 20}),
        "val-500": Candidate("500 validation images in a lambda step", {"val_batch_size": 500}),
        "separate": Candidate("centered response, weights learnt apart (Delta-STN, 3.2)", {"response": "separate"}),
        "middle": Candidate("all hyperparameters start in the middle", {"initial_fraction": 0.5}),
        DRAWS: Candidate("look-ahead from the middle, 4 draws for each image, after every 4th step", _DRAWS),
        FORMER: Candidate("look-ahead from RandAugment, strength first, with a pull and a spread", _FORMER),
        f"{FORMER}-fixed-count": _former_with("that without a search of K", count="fixed"),
        f"{FORMER}-unshared": _former_with("that without shared coordinates", strength_learning_rate=0.0),
        f"{FORMER}-spread-all": _former_with("that, used with half the spread of probabilities too", spread_over="all"),
        f"{FORMER}-short-average": _former_with(
            "that, with gradients averaged over 10 lambda steps", lambda_betas=(0.9, 0.999)
        ),
        f"{FORMER}-three-draws": _former_with("that, with 3 draws for each image", reward_draws=3),
        f"{FORMER}-six-steps": _former_with("that, after every 6th step", train_steps=6),
        f"{FORMER}-bfloat16": _former_with("that, with --fast", fast=True),
        DEFAULT: _former_with("that, with 50 validation images in a lambda step, half a batch", val_batch_size=50),
    }
)


def find_candidate(name: str) -> Candidate:
    """The candidate with that exact name. Raises SettingsError with the known names if there is none."""
    if name not in CANDIDATES:
        raise SettingsError(f"unknown candidate {name!r}; known: {', '.join(CANDIDATES)}")
    return CANDIDATES[name]
