"""A whole policy search: the public function."""

import contextlib
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from hba.data.folder import check_beside
from hba.data.images import SearchData
from hba.data.load import AnyDataset, as_search_data, check_data, is_dataset, load_search_data
from hba.distributed.collectives import (
    broadcast_from_rank0,
    check_alike,
    is_restarted_in,
    local_device,
    note_launch,
    rank0_first,
    rank0_only,
    share_tensors,
    signals_to_rank0,
)
from hba.distributed.process_info import is_first, single_process, size
from hba.distributed.whole_batch import whole_batch_layers
from hba.errors import SettingsError
from hba.policy.space import SearchSpace
from hba.policy_search.arguments import Choose, budget_of, check_resume, settings_of_data, settings_of_space
from hba.policy_search.budget import Budget, with_many_epochs, within
from hba.policy_search.callbacks import SearchCallback
from hba.policy_search.config import SearchConfig
from hba.policy_search.context import SearchContext
from hba.policy_search.custom_components import custom_components
from hba.policy_search.earlier import from_earlier_config
from hba.policy_search.folder import RunFolder
from hba.policy_search.progress import SearchProgress
from hba.policy_search.result import SearchResult
from hba.policy_search.trainer import SearchTrainer
from hba.utils.devices import explained_memory_errors
from hba.utils.files import run_lock
from hba.utils.progress import shows_progress
from hba.utils.seeding import default_generators, derived_seed
from hba.utils.settings import check_batch_size

OF_MACHINE = ("data", "data_root", "classes", "workers", "pretrained", "device")
"""Settings that may differ between the processes of one search: paths, which may be others on another machine."""


@shows_progress(SearchProgress)
@explained_memory_errors()
def search(
    data: str | Path | SearchData | AnyDataset | None = None,
    *,
    preset: str | None = None,
    paper: bool = False,
    network: nn.Module | None = None,
    space: SearchSpace | str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    callback: SearchCallback | None = None,
    progress: bool = False,
    budget_seconds: Budget | float | None = None,
    config: str | Path | None = None,
    **settings: Any,
) -> SearchResult:
    """Search an augmentation schedule in one training, by the setting `algorithm`.

    data: a dataset's name, a folder of images, images in memory, or a torch Dataset or list of (image, label), which is
    read once, fitted to image_size and split by val_size; None is the preset's, or digits. settings: fields
    of SearchConfig, and those of the algorithm. `algorithm` is a name, as in `algorithm="lookahead", reward_draws=8`,
    or an algorithm with its settings, as in `algorithm=hba.algorithms.Lookahead(reward_draws=8)`, which may be of a
    class of your own. paper: the algorithm is the paper's, `hba`, unless another one of the paper's is given. network:
    a network of your own instead of the setting `model`; frozen parameters stay as they are, BatchNorm's running
    statistics follow its train(). space: a search space, or the name of one; operations of your own must be registered.
    out: a folder to keep the run in. resume: resume the run there, with its settings; the images may have moved, and
    `epochs` may be more (extend_epochs.py says what that finds). progress: show a bar in a terminal or a notebook.
    budget_seconds: in the place of `epochs`, for as many as fit into that time on this machine, from the call on. Some
    steps are measured before, which change nothing of what a search of so many epochs finds.
    config: the config.json of an earlier search, or its folder, whose settings stand in the place of the defaults; all
    but its device.

    Inside of hba.distributed.joined, processes that torchrun has started make one search together: all call this alike,
    the first one alone tells its callback and writes files, and all get the result.

    Raises HbaError for what cannot work, DivergedError for a loss that is not finite; what was found until then is
    saved in `out`.
    """
    check_resume(preset, paper, resume, out, config)
    budget = budget_of(budget_seconds, resume)
    check_data(data, SearchData, settings.get("data_root"))
    if size() > 1 and budget is not None:
        raise SettingsError("a budget is measured by one process; give epochs, or start one process")
    # The first process has the folder, and speaks.
    folder = RunFolder(Path(out)) if out is not None and is_first() else None
    told = callback if callback is not None and is_first() else SearchCallback()
    with rank0_only(run_lock(None if folder is None else folder.path)):
        if broadcast_from_rank0(
            lambda: folder is not None and folder.has_checkpoint() and is_restarted_in(folder.path)
        ):
            resume = True
        if budget is not None:
            settings = with_many_epochs(settings)
        settings |= settings_of_space(space, settings)
        if out is not None and resume:
            choose: Choose = partial(_stored, folder, custom_components(network, space))
        else:
            choose = _new(data, preset, paper, network, space, config)
        return _searched(data, choose, settings, network, space, folder, told, budget, resume=resume)


def chosen_settings(data: Any, settings: dict[str, Any]) -> SearchConfig:
    """All settings of a search that `search` would begin with these arguments, of which some are none of its settings.

    HbaError as there, but for what only reading images shows.
    """
    preset, paper, config = settings.pop("preset", None), settings.pop("paper", False), settings.pop("config", None)
    network, space = settings.pop("network", None), settings.pop("space", None)
    check_resume(preset, paper, False, None, config)
    check_data(data, SearchData, settings.get("data_root"))
    settings |= settings_of_space(space, settings)
    choose = _new(data, preset, paper, network, space, config)
    settings |= settings_of_data(data, settings, choose)
    return choose(settings)


def _new(
    data: Any, preset: str | None, paper: bool, network: nn.Module | None, space: Any, config: str | Path | None
) -> Choose:
    """What chooses the settings of a search that is not resumed."""
    if config is None:
        return partial(_of_preset, preset=preset, paper=paper)
    return partial(
        from_earlier_config, Path(config), own=custom_components(network, space), in_memory=isinstance(data, SearchData)
    )


def _searched(
    data: Any,
    choose: Choose,
    settings: dict[str, Any],
    network: nn.Module | None,
    space: SearchSpace | str | None,
    folder: RunFolder | None,
    callback: SearchCallback,
    budget: Budget | None,
    *,
    resume: bool,
) -> SearchResult:
    """In the processes that are joined. choose: all settings, from those that are given."""
    settings |= settings_of_data(data, settings, choose)
    chosen = choose(settings)
    if not resume:
        broadcast_from_rank0(lambda: None if folder is None else _check_new(folder, chosen.data))
    if isinstance(network, nn.Module):
        share_tensors(network.state_dict().values())
    _check_shares_batches(chosen)
    # Before the images are read, which may take long.
    device, start = local_device(chosen.device), chosen.network_start()
    if not isinstance(data, SearchData):
        read = partial(_read, data, chosen, callback)
        # Several downloads would write over each other.
        data = rank0_first(read) if chosen.download else read()
    check_batch_size(settings, len(data.train))
    data = data if network is not None else data.in_color()
    # So the run is resumed, and evaluated, with the scale that was found.
    chosen = chosen.model_copy(update={"levels": data.levels})
    with (
        default_generators(device, derived_seed(chosen.seed, "default generators")),
        contextlib.closing(data.to(device)) as placed,
        whole_batch_layers(),
        signals_to_rank0(),
    ):
        own_space = space if isinstance(space, SearchSpace) else None
        with single_process():
            # It tries the network.
            setup = SearchContext.of(chosen, placed, network, own_space, start)
        check_alike({**setup.identity, "settings": _told_of(setup.config)})
        if budget is not None:
            setup = within(budget, setup, folder)
        loop = SearchTrainer.begun(setup, folder)
        if folder is not None:
            # Before the first save: a run that is killed in between is lengthened, or finds its images, later.
            note_launch(folder.path)
            folder.write_config(setup.config, data.left_out, custom_components(network, space))
        return loop.run(callback)


def _check_new(folder: RunFolder, data: str) -> None:
    """RunError where no run can be begun there."""
    check_beside(folder.path, data)
    folder.check_free()


def _told_of(config: SearchConfig) -> str:
    """All settings that decide what a search finds, but where on a machine its files lie."""
    settings = {name: one for name, one in config.flat().items() if name not in OF_MACHINE}
    if isinstance(start := settings.get("init_from"), dict):
        settings["init_from"] = start["values"]
    return json.dumps(settings, default=str)


def _stored(folder: RunFolder | None, own: tuple[str, ...], settings: Mapping[str, Any]) -> SearchConfig:
    """Of the run that is resumed; the first process has its folder."""

    def read() -> SearchConfig:
        assert folder is not None
        return folder.stored_config(settings, own)

    return broadcast_from_rank0(read)


def _check_shares_batches(config: SearchConfig) -> None:
    """SettingsError for an algorithm that computes in one process only."""
    if size() > 1 and not config.algorithm.shares_batches:
        raise SettingsError(
            f"the algorithm {config.algorithm.name} searches in one process, got {size()}; start it without torchrun, "
            "or choose the algorithm lookahead"
        )


def _of_preset(settings: Mapping[str, Any], preset: str | None, paper: bool) -> SearchConfig:
    return SearchConfig.from_preset(settings, preset, paper=paper).resolved()


def _read(data: Any, config: SearchConfig, callback: SearchCallback) -> SearchData:
    """A Dataset or a list; anything else the settings name."""
    read = partial(as_search_data, data) if is_dataset(data) else load_search_data
    return read(config, callback.images_read)
