"""Checkpoints of version 6, which hba 0.1.0 wrote: the same values under other names."""

from collections.abc import Mapping
from typing import Any

from hba.algorithms import SearchState
from hba.algorithms.lambda_steps import GradientState
from hba.algorithms.population import PopulationModel
from hba.algorithms.state import InnerModel
from hba.utils.snapshot import snapshot

TOTALS = ("train_loss", "train_error", "train_steps", "lambda_loss", "lambda_steps")
"""Of an epoch, in the order of the one tensor that they were."""
BOOKS = ("epochs", "rows", "metrics", "seconds", "lengthened")
MOVER = {"optimizer": "lambda_optimizer", "val_stream": "val_stream", "moves": "moves"}
POPULATION = ("optimizer", "schedule", "weights", "buffers", "best_weights", "best_buffers")
ONE_MODEL = {"optimizer": "weight_optimizer", "schedule": "weight_schedule"}


def as_now(old: Mapping[str, Any], state: SearchState[InnerModel]) -> dict[str, Any]:
    """A checkpoint as Checkpointer writes it now. state: one of the same search, that knows what was not saved then."""
    search = {name: old[name] for name in ("lam", "train_stream", "generator", "step")}
    search["totals"] = dict(zip(TOTALS, old["totals"].unbind(), strict=True))
    search |= {name: old[name] for name in ("noise", "lam_rows") if name in old}
    if "lambda_optimizer" in old:
        search["mover"] = {name: old[then] for name, then in MOVER.items()}
        # There were no shared coordinates.
        assert isinstance(state, GradientState)
        search["mover"] |= {"strength": snapshot(state.mover.strength), "start": state.mover.start}
    return {
        "search": {**search, "learner": _learner(old, state.learner)},
        # Nothing was deployed with a spread, so it was not noted.
        "history": {**{name: old[name] for name in BOOKS}, "spreads": [0.0] * len(old["rows"])},
        "default_generators": old["default_generators"],
    }


def _learner(old: Mapping[str, Any], learner: InnerModel) -> dict[str, Any]:
    if isinstance(learner, PopulationModel):
        # Its weights are never looked at.
        return {**{name: old[name] for name in POPULATION}, "template": learner.template.state_dict()}
    network = "network" if "network" in old else "hypernetwork"
    return {**{name: old[then] for name, then in ONE_MODEL.items()}, network: old[network]}
