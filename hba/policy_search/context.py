"""All that a search is made of, before its first step."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from hba.algorithms import ImageTask
from hba.algorithms.state import Networks, equal_networks, named_networks
from hba.data.builtin import DATASET_NAMES
from hba.data.images import SearchData
from hba.data.labels import is_multi_label
from hba.data.load import seen_by_search
from hba.errors import SettingsError
from hba.models import Start
from hba.operations import check_channels, fill_for
from hba.operations.images import color_for
from hba.policy.space import SearchSpace
from hba.policy_search.config import SearchConfig
from hba.policy_search.folder import STRUCTURE
from hba.preprocessing.preprocessing import Preprocessing
from hba.regularization.groups import acts_on_images, hyperparameters_of
from hba.regularization.in_training import DROPOUT, dropouts
from hba.schedule.file import space_entry
from hba.training.amp import slow_note
from hba.training.custom_network import CustomNetwork

PRETRAINED = "pretrained weights"
"""Of an identity: their hash, where there are any."""


@dataclass(frozen=True)
class SearchContext:
    """fill: the colour that operations uncover, in [0, 1]. identity: what must be the same when a run is resumed, by a
    name that a person understands. images_seen: of test images, which a search must not see. replaced: settings in
    whose place the user brought something. notes: sentences on what the networks begin with.
    """

    config: SearchConfig
    task: ImageTask
    networks: Networks
    fill: tuple[float, ...]
    identity: Mapping[str, str]
    images_seen: Any
    replaced: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(C, H, W) of what the networks take."""
        size = self.task.preprocessing.image_size
        return self.task.data.train.n_channels, size, size

    @staticmethod
    def of(
        config: SearchConfig,
        data: SearchData,
        network: nn.Module | None,
        own_space: SearchSpace | None,
        start: Start | None,
    ) -> "SearchContext":
        """data is on its device. network, own_space: in the place of settings. start: what the settings' network begins
        with, which config.network_start() has read.
        """
        device, n_channels = data.train.device, data.train.n_channels
        preprocessing = Preprocessing.of(data.train, config.baseline_augmentation(), config.colors_of_network())
        networks = _networks(config, data, preprocessing.image_size, network, start)
        space = own_space or config.search_space(
            hyperparameters_of(config.tune, lambda: networks(0), config.weight_decay, preprocessing.image_size)
        )
        _check_goes_with(data, config, space)
        if own_space is not None:
            _check_has_dropouts(networks, own_space)
        fill = config.fill or data.train.mean_color()
        if n_channels not in (1, 3):
            # How many channels a schedule is for is told by its fill.
            fill = color_for(n_channels, fill)
        colour = fill_for(torch.empty(1, data.train.n_channels, 1, 1, device=device), fill)
        identity = {
            "images or their split": data.train.fingerprint() + data.val.fingerprint(),
            "network": config.model if network is None else type(network).__name__,
            **({} if network is None else {STRUCTURE: CustomNetwork.of(network).structure}),
            "kind of device": device.type,
            **({} if start is None else {PRETRAINED: start.pretrained.sha256}),
            "search space": hashlib.sha256(json.dumps(space_entry(space)).encode()).hexdigest()[:16],
        }
        # Of images in memory, nothing is known of a test split, whatever their name.
        is_named = config.data in DATASET_NAMES and data.test_images is not None
        return SearchContext(
            config=config,
            task=ImageTask(config, space, data, preprocessing, colour),
            networks=networks,
            fill=fill,
            identity=identity,
            notes=tuple(
                filter(
                    None,
                    [
                        None if start is None else start.note(networks(0), len(data.class_names)),
                        slow_note(device) if config.fast else None,
                    ],
                )
            ),
            images_seen=seen_by_search(data.listing, (data.train, data.val), is_named),
            replaced=(
                *(("model",) if network is not None else ()),
                *(("space", "operations", "interpolation", "count") if own_space is not None else ()),
            ),
        )


def _networks(
    config: SearchConfig, data: SearchData, image_size: int, network: nn.Module | None, start: Start | None
) -> Networks:
    """As the settings name them, or copies of the user's own, which is tried first. image_size: side in pixels."""
    n_classes, n_channels = len(data.class_names), data.train.n_channels
    if network is None:
        return named_networks(config.model, n_classes, config.seed, image_size, start, n_channels)
    if not isinstance(network, nn.Module):
        raise SettingsError(f"network must be an nn.Module, got {type(network).__name__}")
    if config.pretrained is not None:
        raise SettingsError(
            "pretrained has no effect on a network of your own; give the network its weights, and omit it"
        )
    CustomNetwork.of(network).check_takes(data.train, image_size, n_classes, is_copied=True)
    return equal_networks(network)


def _check_has_dropouts(networks: Networks, space: SearchSpace) -> None:
    """SettingsError for a space of one's own that tunes a dropout which the network has not."""
    wanted = [one.own_name for one in space.regularizers if one.group == DROPOUT]
    known = dropouts(networks(0)) if wanted else {}
    if unknown := [name for name in wanted if name not in known]:
        raise SettingsError(
            f"the space tunes the dropout {unknown[0]!r}, the network has {', '.join(known) or 'none'}: name a module "
            f"of these, as in {DROPOUT}.NAME"
        )


def _check_goes_with(data: SearchData, config: SearchConfig, space: SearchSpace) -> None:
    """SettingsError for labels that the algorithm cannot learn, and for channels that an operation cannot change."""
    if is_multi_label(data.train.labels) and not config.algorithm.multi_label:
        raise SettingsError(
            f"the algorithm {config.algorithm.name} learns one label of an image: take its losses and errors from "
            "hba.training.criterion and set multi_label = True in its class, or choose the algorithm lookahead"
        )
    check_channels(space.operations, data.train.n_channels)
    # A space of one's own may hold what the settings do not name.
    if any(not acts_on_images(one.name) for one in space.regularizers) and not config.algorithm.tunes_training:
        raise SettingsError(f"the algorithm {config.algorithm.name} cannot tune what acts through the weights")
