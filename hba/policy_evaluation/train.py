"""hba.train: trains a network with a policy, and saves everything that is needed to use
it.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from hba.data.images import EvaluationData
from hba.data.load import AnyDataset
from hba.errors import HbaError, HbaWarning, SettingsError
from hba.exports.export import export
from hba.policy_evaluation.baselines import respread
from hba.policy_evaluation.evaluation import evaluate
from hba.schedule.library import POLICY_NAME, load_policy
from hba.schedule.schedule import Schedule
from hba.training.trained_network import TrainedNetwork, load_network

PIPELINE_NAME = "pipeline.py"
"""The policy as a torchvision transform, in the folder of a run."""


def train(
    policy: Schedule | str | Path,
    data: str | Path | EvaluationData | tuple[AnyDataset, AnyDataset] | None = None,
    *,
    out: str | Path,
    seed: int = 0,
    network: nn.Module | Callable[[int], nn.Module] | None = None,
    resume: bool = False,
    **settings: Any,
) -> TrainedNetwork:
    """Train a network with the policy on all images except the test split, and measure
    this split after the last epoch.

    Args:
        policy: A schedule, its file, or the name of a recipe or of a shipped one.
        data: The data, as `hba.evaluate` takes them.
        out: A folder for network.pt and network.json, which `hba.load_network` reads,
            policy.json, pipeline.py (the policy as a torchvision transform that does
            not need hba), results.json and report.html.
        seed: Seed of the weights, batches and draws.
        network: Your own network instead of the setting `model`.
        resume: Continue the training in `out` with the same arguments.
        settings: As `hba.evaluate` takes them, including preset, config, cluster,
            allow_seen, callback and progress; with_val is on by default.

    Returns:
        The trained network.

    Raises:
        HbaError: For what cannot work.
        DivergedError: If the loss is not finite.
    """
    of_one: dict[str, Any] = {
        "against": (),
        "seeds": 1,
        "first_seed": seed,
        "jobs": 1,
        "keep_network": True,
    }
    if wrong := [name for name in of_one if name in settings]:
        raise SettingsError(
            f"hba.train trains one network; omit {wrong[0]}, or call hba.evaluate"
        )
    schedule = policy if isinstance(policy, Schedule) else load_policy(policy)
    result = evaluate(
        policy,
        data,
        out=out,
        network=network,
        resume=resume,
        **{"with_val": True, **of_one, **settings},
    )
    trained = load_network(out, network=network)
    policy = respread(schedule, result.config.spread).for_channels(
        trained.info.channels
    )
    if note := write_policy(policy, Path(out)):
        warnings.warn(note, HbaWarning, stacklevel=2)
    return trained


def write_policy(schedule: Schedule, folder: Path) -> str | None:
    """Write policy.json and pipeline.py, each atomically.

    Args:
        schedule: The policy.
        folder: The folder of the files.

    Returns:
        A note if there can be no pipeline.py.
    """
    schedule.save(folder / POLICY_NAME)
    try:
        export(schedule, "torchvision", folder / PIPELINE_NAME)
    except HbaError as error:
        return f"No {PIPELINE_NAME}: {error}"
    return None
