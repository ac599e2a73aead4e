"""Everything that a search is made of before its first step, and what differs between images and text."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from hba.algorithms import ImageTask, SearchState
from hba.algorithms.state import Networks, equal_networks, named_networks
from hba.algorithms.task import Task
from hba.algorithms.update_schedule import UpdateSchedule
from hba.data.arrays import DATASET_NAMES
from hba.data.images import SearchData, hashes_of
from hba.data.labels import error_note, error_of, is_multi_label
from hba.data.leakage import SeenImages
from hba.data.reading import save_left_out
from hba.distributed.process_info import single_process, size
from hba.errors import SettingsError
from hba.models import Start
from hba.operations import check_channels
from hba.operations.apply import color_for
from hba.policy.module import GRAY
from hba.policy.space import SearchSpace
from hba.policy_search.config import SearchConfig
from hba.policy_search.result import Plan, SearchPlan
from hba.preprocessing import Preprocessing
from hba.regularization.groups import DROPOUT, acts_on_images, dropouts, hyperparameters_of
from hba.report.page import report_at_the_end
from hba.report.samples import Samples
from hba.schedule.file import space_entry
from hba.training.custom_network import CustomNetwork
from hba.training.metrics import measure

PRETRAINED = "pretrained weights"
"""In an identity: the hash of the weights, if there are any."""
LEAST_VALIDATION_IMAGES = 10
"""Of a class, on average."""
Metrics = dict[str, float | None]


@dataclass(frozen=True, kw_only=True)
class SearchContext:
    """identity: what must be the same when a run is resumed, by a name that a person understands. model: the name of
    the network. fill: the colour that operations uncover, in [0, 1].
    """

    columns: ClassVar[tuple[str, ...]]
    """Of metrics.csv."""
    in_provenance: ClassVar[tuple[str, ...]]
    """Metrics of the last epoch that the schedule's provenance keeps."""
    needs_finite_validation: ClassVar[bool] = False
    """Whether a validation loss that is not finite ends the search. In an image search, BatchNorm statistics of early
    epochs may cause one that later epochs do not have."""

    config: Any
    task: Task
    networks: Networks
    identity: Mapping[str, str]
    model: str
    fill: tuple[float, ...] = GRAY

    def measure(self, state: SearchState[Any], epoch: int, train_loss: float, train_error_percent: float) -> Metrics:
        """Metrics of an epoch, counted from 1, that ended: at least val_loss, which is None if it was not measured."""
        raise NotImplementedError

    def plan(self, updates: UpdateSchedule, **common: Any) -> Plan:
        """What callbacks get before the first step. common: fields of Plan."""
        raise NotImplementedError

    def provenance(self) -> dict[str, Any]:
        """The data, the network and the settings, as JSON values."""
        raise NotImplementedError

    def inputs_per_step(self, state: SearchState[Any]) -> int:
        """Images, or words, of a training step."""
        return state.train_stream.batch_size

    def regularizers(self, state: SearchState[Any]) -> dict[str, float]:
        """Their current values in natural units, by name."""
        space = self.task.space
        values = dict(zip(space.names, row_of(space, state.lam), strict=True))
        return {one.name: values[one.name] for one in space.regularizers}

    def save_further(self, folder: Path) -> None:
        """Write what else belongs into the folder of a run."""

    def report(self, folder: Path) -> Path | None:
        """Write the report of a search that ended, and return its file."""
        return None


def row_of(space: SearchSpace, lam: Tensor) -> list[float]:
    """lambda (n,) in natural units."""
    row: list[float] = space.decode(lam.detach().double()).tolist()
    return row


def identity_of_space(space: SearchSpace) -> str:
    return hashlib.sha256(json.dumps(space_entry(space)).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class ImageSearchContext(SearchContext):
    """images_seen: hashes of the images that the search sees, to find test images among them. start_notes: sentences on
    what the networks begin with, and on the chosen epochs. replaced: settings that are replaced by an object of the
    user's.
    """

    columns = (
        *("epoch", "train_loss", "train_error_percent", "lambda_loss", "val_loss", "val_error_percent"),
        *("learning_rate", "seconds"),
    )
    in_provenance = ("train_loss", "train_error_percent", "val_loss", "val_error_percent")

    config: SearchConfig
    task: ImageTask
    images_seen: Any
    start_notes: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()

    @staticmethod
    def of(
        config: SearchConfig,
        data: SearchData,
        network: nn.Module | None = None,
        own_space: SearchSpace | None = None,
        start: Start | None = None,
    ) -> "ImageSearchContext":
        """data is on its device. network, own_space: replace settings. start: what the settings' network begins with,
        as config.network_start() reads it.
        """
        device, n_channels = data.train.device, data.train.n_channels
        preprocessing = Preprocessing.of(data.train, config.baseline_augmentation(), config.colors_of_network())
        networks = _networks(config, data, preprocessing.image_size, network, start)
        space = own_space or config.search_space(
            hyperparameters_of(config.tune, lambda: networks(0), config.weight_decay, preprocessing.image_size)
        )
        _check_goes_with(data, config, space, networks)
        fill = config.fill or data.train.mean_color()
        if n_channels not in (1, 3):
            # A schedule's fill says how many channels it is for.
            fill = color_for(n_channels, fill)
        model = config.model if network is None else type(network).__name__
        identity = {
            "images or their split": data.train.fingerprint() + data.val.fingerprint(),
            "network": model,
            **({} if network is None else {"structure of the network": CustomNetwork(network).structure}),
            "kind of device": device.type,
            **({} if start is None else {PRETRAINED: start.sha256}),
            "search space": identity_of_space(space),
        }
        # Nothing is known of a test split for images in memory, whatever their name.
        is_named = config.data in DATASET_NAMES and data.test_images is not None
        hashes = None if is_named else hashes_of(data.listing, (data.train, data.val))
        notes = () if start is None else (start.note(networks(0), len(data.class_names)),)
        color = torch.tensor(color_for(n_channels, fill), device=device)
        return ImageSearchContext(
            config=config,
            task=ImageTask(config, space, data, preprocessing, color),
            networks=networks,
            identity=identity,
            model=model,
            fill=fill,
            start_notes=notes,
            images_seen=None if hashes is None else SeenImages.of(*hashes).to_json(),
            replaced=(
                *(("model",) if network is not None else ()),
                *(("space", "operations", "interpolation", "count") if own_space is not None else ()),
            ),
        )

    def measure(self, state: SearchState[Any], epoch: int, train_loss: float, train_error_percent: float) -> Metrics:
        """Every measured_every epochs, and in the first and the last one, on the whole validation set."""
        config, task = self.config, self.task
        metrics: Metrics = {"train_error_percent": train_error_percent, "val_loss": None, "val_error_percent": None}
        if epoch in (1, config.epochs) or epoch % config.measured_every == 0:
            measured = measure(state.to_module(), task.val, task.preprocessing.measure)
            metrics |= {"val_loss": measured.loss, "val_error_percent": measured.error_percent}
        return metrics

    def plan(self, updates: UpdateSchedule, **common: Any) -> SearchPlan:
        config, data = self.config, self.task.data
        wanted = LEAST_VALIDATION_IMAGES * len(data.class_names)
        too_few = (
            f"{len(data.val)} validation images are too few to judge augmentation; give at least {wanted}, by val_size."
        )
        notes = (
            *data.facts,
            error_note(data.train.labels),
            *self.start_notes,
            config.baseline_note(),
            *common.pop("notes"),
            updates.advice(config.epochs, common["policy_steps"]),
            too_few if len(data.val) < wanted else None,
        )
        return SearchPlan(
            data=data.name,
            class_names=tuple(data.class_names),
            train_images=len(data.train),
            val_images=len(data.val),
            test_images=data.test_images,
            left_out=len(data.left_out),
            threads=torch.get_num_threads(),
            processes=size(),
            image_size=self.task.preprocessing.image_size,
            batch_size=min(config.batch_size, len(data.train)),
            operations=tuple(operation.name for operation in self.task.space.operations),
            notes=tuple(filter(None, notes)),
            **common,
        )

    def provenance(self) -> dict[str, Any]:
        config, data, error = self.config, self.task.data, error_of(self.task.data.train.labels)
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
        save_left_out(folder, self.task.data.left_out)

    def report(self, folder: Path) -> Path | None:
        data = self.task.data
        with single_process():
            return report_at_the_end(folder, lambda: Samples.of(data.train, data.class_names))


def _networks(
    config: SearchConfig, data: SearchData, image_size: int, network: nn.Module | None, start: Start | None
) -> Networks:
    """As the settings name them, or copies of your own network, which is tried first. image_size: side in pixels."""
    n_classes, n_channels = len(data.class_names), data.train.n_channels
    if network is None:
        return named_networks(config.model, n_classes, config.seed, image_size, start, n_channels)
    if not isinstance(network, nn.Module):
        raise SettingsError(f"network must be an nn.Module, got {type(network).__name__}")
    if config.pretrained is not None:
        raise SettingsError("pretrained has no effect on a network of your own; load its weights, and omit pretrained")
    CustomNetwork(network).check_takes(data.train, image_size, n_classes)
    return equal_networks(network)


def _check_goes_with(data: SearchData, config: SearchConfig, space: SearchSpace, networks: Networks) -> None:
    """Raise SettingsError for labels, channels or hyperparameters that the search cannot deal with."""
    algorithm = config.algorithm
    if is_multi_label(data.train.labels) and not algorithm.multi_label:
        raise SettingsError(
            f"the algorithm {algorithm.name} learns one label per image: take its losses and errors from "
            "hba.training.criterion and set multi_label = True in its class, or choose the algorithm lookahead"
        )
    check_channels(space.operations, data.train.n_channels)
    if any(not acts_on_images(one.name) for one in space.regularizers) and not algorithm.tunes_training:
        raise SettingsError(f"the algorithm {algorithm.name} cannot tune what acts through the weights")
    if wanted := {one.own_name for one in space.regularizers if one.group == DROPOUT}:
        known = dropouts(networks(0))
        if unknown := sorted(wanted - known.keys()):
            raise SettingsError(
                f"the space tunes the dropout {unknown[0]!r}, but the network has {', '.join(known) or 'none'}: name "
                f"one of its modules, as in {DROPOUT}.NAME"
            )
