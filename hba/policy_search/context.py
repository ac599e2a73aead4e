"""Everything that a search needs before its first step; for a search on images, made
from its settings.
"""

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hba.algorithms import ImageProblem, SearchState
from hba.algorithms.problem import SearchProblem
from hba.algorithms.state import NetworkModel, Networks, named_networks
from hba.data.arrays import DATASET_NAMES
from hba.data.images import SearchData, hashes_of
from hba.data.leakage import SeenImages
from hba.data.reading import save_left_out
from hba.errors import SettingsError
from hba.models import Start
from hba.operations import channels_note, check_channels
from hba.operations.apply import color_for
from hba.policy.module import GRAY
from hba.policy.space import SearchSpace
from hba.policy_search.callbacks import Plan, SearchPlan
from hba.policy_search.config import SearchConfig
from hba.preprocessing import Preprocessing
from hba.regularization.groups import DROPOUT, dropouts, hyperparameters_of
from hba.results.report_hook import report_at_the_end
from hba.schedule.file import space_entry
from hba.tasks import task_of
from hba.training.custom_network import CustomNetwork
from hba.training.metrics import measure
from hba.training.mixing import check_can_augment
from hba.utils.graphs import EAGER

PRETRAINED = "pretrained weights"
"""Key of an identity: the hash of the weights, if there are any."""
OF_SPACE = ("space", "operations", "ranges", "interpolation", "count")
"""Settings that your own search space replaces."""
Metrics = dict[str, float | None]


@dataclass(frozen=True, kw_only=True)
class SearchContext:
    """A search before its first step."""

    config: Any
    """The settings."""
    problem: SearchProblem
    """What the algorithm searches on."""
    networks: Networks
    """Makes the initial networks."""
    identity: Mapping[str, str]
    """What must be the same to resume a run, by name."""
    model: str
    """Name of the network."""
    fill: tuple[float, ...] = GRAY
    """Color of uncovered areas."""

    def measure(
        self,
        state: SearchState,
        epoch: int,
        train_loss: float,
        train_error_percent: float,
    ) -> Metrics:
        """Measure a finished epoch.

        Args:
            state: The state of the search.
            epoch: The epoch, counted from 1.
            train_loss: Mean training loss of the epoch.
            train_error_percent: Training error of the epoch.

        Returns:
            The metrics: At least val_loss, which is None if it was not measured.
        """
        raise NotImplementedError

    def plan(self, **common: Any) -> Plan:
        """The plan for callbacks before the first step.

        Args:
            common: Fields of Plan.
        """
        raise NotImplementedError

    def provenance(self) -> dict[str, Any]:
        """The data, the network and the settings, as JSON values."""
        raise NotImplementedError

    def save_further(self, folder: Path) -> None:
        """Write further files into the folder of a run."""

    def report(self, folder: Path) -> Path | None:
        """Write the report of a finished search, and return its path."""
        return None


def identity_of_space(space: SearchSpace) -> str:
    return hashlib.sha256(json.dumps(space_entry(space)).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class ImageSearchContext(SearchContext):
    """A search on images before its first step."""

    config: SearchConfig
    problem: ImageProblem
    images_seen: Any
    """Hashes of the images that the search sees, to find test images among them."""
    start_notes: tuple[str, ...] = ()
    """Notes on the initial networks, and on the chosen epochs."""
    replaced: tuple[str, ...] = ()
    """Settings that an object of the user replaces."""

    @staticmethod
    def of(
        config: SearchConfig,
        data: SearchData,
        network: nn.Module | None = None,
        own_space: SearchSpace | None = None,
        start: Start | None = None,
    ) -> "ImageSearchContext":
        """Prepare a search.

        Args:
            config: The settings.
            data: The images, on their device.
            network: Your own network, which replaces settings.
            own_space: Your own search space, which replaces settings.
            start: The pretrained weights, from config.network_start().
        """
        n_channels = data.train.n_channels
        config.check_task(
            task_of(data.train.labels), has_own_network=network is not None
        )
        preprocessing = Preprocessing.of(
            data.train, config.baseline_augmentation(), config.colors_of_network()
        )
        networks = _networks(config, data, preprocessing.image_size, network, start)
        space = own_space or config.search_space(
            hyperparameters_of(config.tune, lambda: networks(0), config.weight_decay),
            can_mix=task_of(data.train.labels).can_mix,
            n_channels=n_channels,
        )
        _check_goes_with(data, config, space, networks)
        fill = config.fill or data.train.mean_color()
        if n_channels not in (1, 3):
            # The fill of a schedule determines its number of channels.
            fill = color_for(n_channels, fill)
        color = torch.tensor(color_for(n_channels, fill), device=data.train.device)
        model = config.model if network is None else type(network).__name__
        own_structure = (
            {}
            if network is None
            else {"structure of the network": CustomNetwork(network).structure}
        )
        identity = {
            "images or their split": data.train.fingerprint() + data.val.fingerprint(),
            "network": model,
            **own_structure,
            "kind of device": data.train.device.type,
            **({} if start is None else {PRETRAINED: start.sha256}),
            "search space": identity_of_space(space),
        }
        # For images in memory, the test split is unknown, whatever their name.
        is_named = config.data in DATASET_NAMES and data.test_images is not None
        hashes = None if is_named else hashes_of(data.listing, (data.train, data.val))
        return ImageSearchContext(
            config=config,
            problem=ImageProblem(config, space, data, preprocessing, color),
            networks=networks,
            identity=identity,
            model=model,
            fill=fill,
            start_notes=() if start is None else (start.note(networks(0)),),
            images_seen=None if hashes is None else SeenImages.of(*hashes).to_json(),
            replaced=(
                *(() if network is None else ("model",)),
                *(() if own_space is None else OF_SPACE),
            ),
        )

    def measure(
        self,
        state: SearchState,
        epoch: int,
        train_loss: float,
        train_error_percent: float,
    ) -> Metrics:
        """Measure all validation images every measured_every epochs.

        They are also measured after the first and the last epoch, and after each leg.
        """
        problem = self.problem
        loss = None
        error_percent = None
        ends = accumulate(
            epochs
            for _, epochs in self.config.algorithm.leg_epochs(
                self.config, problem.space
            )
        )
        last = self.config.algorithm.total_epochs(self.config, problem.space)
        if epoch in (1, last, *ends) or epoch % self.config.measured_every == 0:
            if isinstance(state.learner, NetworkModel):
                network = state.learner.network
                graphs = state.graphs
            else:
                # A graph repeats the pass of one network, which must not be another
                # copy each time; and an eager pass cannot use the memory of graphs.
                state.graphs.clear()
                network = state.to_module()
                graphs = EAGER
            measured = measure(
                network, problem.data.val, problem.preprocessing.measure, graphs=graphs
            )
            loss = measured.loss
            error_percent = measured.error_percent
        return {
            "train_error_percent": train_error_percent,
            "val_loss": loss,
            "val_error_percent": error_percent,
        }

    def plan(self, **common: Any) -> SearchPlan:
        config = self.config
        data = self.problem.data
        has_moves = self.problem.space.has_stages or self.problem.task.has_masks
        notes = (
            *data.facts,
            self.problem.task.note,
            channels_note(data.train.n_channels),
            *self.start_notes,
            None if has_moves else config.baseline_note(),
            *common.pop("notes"),
        )
        return SearchPlan(
            data=data.name,
            class_names=tuple(data.class_names),
            train_images=len(data.train),
            val_images=len(data.val),
            test_images=data.test_images,
            left_out=len(data.left_out),
            threads=torch.get_num_threads(),
            image_size=self.problem.preprocessing.image_size,
            batch_size=min(config.batch_size, len(data.train)),
            operations=tuple(
                operation.name for operation in self.problem.space.operations
            ),
            notes=tuple(filter(None, notes)),
            **common,
        )

    def provenance(self) -> dict[str, Any]:
        config = self.config
        data = self.problem.data
        error = self.problem.task.error
        mean, std = config.colors_of_network() or (None, None)
        weights = {"sha256": self.identity.get(PRETRAINED), "mean": mean, "std": std}
        return {
            "dataset": data.name,
            "class_names": list(data.class_names),
            **({} if error is None else {"error": error}),
            "train_images": len(data.train),
            "val_images": len(data.val),
            "skipped_images": len(data.train.left_out) + len(data.val.left_out),
            "data_fingerprint": self.identity["images or their split"],
            "images_seen": self.images_seen,
            "image_size": data.train.image_size,
            "model": self.model,
            **({"pretrained": weights} if PRETRAINED in self.identity else {}),
            "settings": {**config.flat(), **dict.fromkeys(self.replaced)},
        }

    def save_further(self, folder: Path) -> None:
        save_left_out(folder, self.problem.data.left_out)

    def report(self, folder: Path) -> Path | None:
        return report_at_the_end(folder, self.problem.data)


def _networks(
    config: SearchConfig,
    data: SearchData,
    image_size: int,
    network: nn.Module | None,
    start: Start | None,
) -> Networks:
    """The networks that the settings name, or copies of your own network, which is
    tested first.
    """
    n_classes = len(data.class_names)
    n_channels = data.train.n_channels
    if network is None:
        return named_networks(
            config.model, n_classes, config.seed, image_size, start, n_channels
        )
    if not isinstance(network, nn.Module):
        raise SettingsError(
            f"network must be an nn.Module, got {type(network).__name__}"
        )
    if config.pretrained is not None:
        raise SettingsError(
            "pretrained has no effect on your own network; load its weights, and omit"
            " pretrained"
        )
    CustomNetwork(network).check_takes(data.train, image_size, n_classes)
    return lambda member: copy.deepcopy(network)


def _check_goes_with(
    data: SearchData, config: SearchConfig, space: SearchSpace, networks: Networks
) -> None:
    """Raise SettingsError for labels, channels or dropouts that the search cannot
    handle.
    """
    algorithm = config.algorithm
    task = task_of(data.train.labels)
    check_can_augment(space, task, "the search space")
    if task.name not in algorithm.tasks:
        raise SettingsError(
            f"the algorithm {algorithm.name} is for {' and '.join(algorithm.tasks)},"
            f" and the labels are those of {task.name}; choose lookahead"
        )
    check_channels(space.operations, data.train.n_channels)
    tuned = {
        regularizer.own_name
        for regularizer in space.regularizers
        if regularizer.group == DROPOUT
    }
    if tuned and (missing := tuned - (existing := dropouts(networks(0))).keys()):
        raise SettingsError(
            f"the network has no dropout {min(missing)!r}; it has"
            f" {', '.join(existing) or 'none'}"
        )
