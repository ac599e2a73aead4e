"""The public function `search`: a whole policy search."""

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hba.config.presets import DEFAULT_PRESETS
from hba.config.training import source_of_weights
from hba.data.config import DataConfig
from hba.data.images import SearchData
from hba.data.load import (
    AnyDataset,
    check_data,
    is_dataset,
    load_search_data,
    name_of_dataset,
)
from hba.data.look import look
from hba.errors import SettingsError
from hba.executors.executor import default_jobs
from hba.executors.ray_executor import check_one_way, connected
from hba.operations.registration import check_known
from hba.policy.space import SearchSpace
from hba.policy.spaces import started
from hba.policy_search.callbacks import SearchCallback, SearchProgress, SearchResult
from hba.policy_search.checkpoint import RunFolder
from hba.policy_search.config import SearchConfig, flattened, from_config
from hba.policy_search.context import OF_SPACE, ImageSearchContext
from hba.policy_search.forks import trainer_for
from hba.policy_search.timing import MANY_EPOCHS, within
from hba.policy_search.trainer import SearchTrainer
from hba.policy_search.training_size import (
    TrainingRequest,
    fine_tuning_sizes,
    training_size,
)
from hba.preprocessing import network_input_size
from hba.regularization.groups import AUGMENTATION, find_regularizer
from hba.utils.devices import explained_memory_errors, find_device, own_state
from hba.utils.files import resumes, run_lock
from hba.utils.processes import end_if_importing_main
from hba.utils.progress import shows_progress
from hba.utils.seeding import default_generators, derived_seed
from hba.utils.settings import check_batch_size


@shows_progress(SearchProgress)
@explained_memory_errors()
@own_state()
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
    budget_seconds: float | None = None,
    config: str | Path | None = None,
    jobs: int | None = 1,
    cluster: str | None = None,
    **settings: Any,
) -> SearchResult:
    """Search for an augmentation schedule, with the algorithm in `algorithm`.

    Args:
        data: A dataset's name, a folder of images, images in memory, or a torch Dataset
            or list of (image, label), which is read once, fitted to image_size and
            split by val_size; None uses the preset's, or digits.
        preset: Name of a preset.
        paper: Use the paper's algorithm, `hba`, unless you give another one of the
            paper's.
        network: Your own network instead of the setting `model`. Frozen parameters stay
            frozen; BatchNorm's running statistics follow its train().
        space: A search space, or the name of one. You must register your own
            operations.
        out: The folder of the run.
        resume: Resume the run in `out` with its settings; its images may have moved.
        callback: Called during the search.
        progress: Show a bar in a terminal or a notebook.
        budget_seconds: Choose the network, the image size and `epochs`, unless you give
            them, so that the search ends within this time on this machine, counted from
            the call. It measures some steps first, which does not change the result.
            With a preset, which named data sets have, with `paper`, with images in
            memory or with your own network, it chooses only the epochs.
        config: The config.json of an earlier search, or its folder; its settings,
            except the device, replace the defaults.
        jobs: As in hba.evaluate, for the forks of the algorithm race.
        cluster: As in hba.evaluate, for the forks of the algorithm race.
        settings: Fields of SearchConfig and of the algorithm. `algorithm` is a name, as
            in `algorithm="lookahead", reward_draws=8`, or an object, as in
            `algorithm=hba.algorithms.Lookahead(reward_draws=8)`, which may be of your
            own class.

    Returns:
        The schedule, the search network and the metrics of each epoch.

    Raises:
        HbaError: For what cannot work.
        DivergedError: If the loss is not finite; `out` keeps the results so far.
    """
    end_if_importing_main()
    check_one_way(jobs, cluster)
    if resume and out is None:
        raise SettingsError("resume needs out, the folder of the search to resume")
    fit = None
    if budget_seconds is not None:
        began = time.monotonic()
        if resume or "epochs" in settings or not is_time(budget_seconds):
            rule = "a number of seconds above 0, for a new search, without epochs"
            raise SettingsError(
                f"budget_seconds must be {rule}; got {budget_seconds!r}"
            )
        has_preset = str(data or "digits") in DEFAULT_PRESETS or preset or paper
        has_size = has_preset or config or network is not None
        if isinstance(data, str | Path | None) and not has_size:
            of_data = {**settings, "data": str(data)}
            if isinstance(space, str):
                of_data["space"] = space
            settings |= settings_in_time(budget_seconds, jobs, of_data)
        settings["epochs"] = MANY_EPOCHS
        fit = partial(within, budget_seconds, began)
    folder = RunFolder(Path(out)) if out is not None else None
    callback = callback or SearchCallback()
    with run_lock(None if folder is None else folder.path):
        if data is not None and folder is not None:
            resume = resumes(resume, folder.config)
        resumed = Path(out) if resume and out is not None else None
        chosen = chosen_config(
            data,
            preset=preset,
            paper=paper,
            network=network,
            space=space,
            config=config,
            resumed=resumed,
            **settings,
        )
        is_parallel = jobs not in (None, 1) or cluster is not None
        if is_parallel and not chosen.algorithm.has_parallel_parts:
            raise SettingsError(
                "jobs and cluster are for several --seeds, or for the forks of race,"
                f" not for {chosen.algorithm.name}"
            )
        if folder is not None and not resume:
            folder.check_free()
        with connected(cluster) as machines:
            components = custom_components(network, space)
            trainer = partial(trainer_for, jobs, machines)
            return _search(
                data, chosen, settings, components, folder, callback, fit, trainer
            )


def is_time(seconds: object) -> bool:
    """Whether this is a number of seconds above 0."""
    return isinstance(seconds, int | float) and 0 < seconds < math.inf


def settings_in_time(
    seconds: float, jobs: int | None, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Choose network, image size and related settings of a search, not its epochs.

    Args:
        seconds: How long the search takes.
        jobs: Forks at a time; None for the default of the device.
        settings: Settings, including data.

    Returns:
        The chosen settings by name.
    """
    config = SearchConfig.from_preset(settings)
    seen = look(config)
    device = find_device(config.device)
    n_threads = torch.get_num_threads()
    n_jobs = jobs or default_jobs(device)
    trainings = config.algorithm.cost(n_jobs)
    fixed = {**settings, **({} if config.algorithm.can_be_fast else {"fast": False})}
    request = TrainingRequest(
        seen, seconds / trainings, seconds, device, max(1, n_threads // n_jobs), fixed
    )
    is_pretrained = (
        "model" in fixed and source_of_weights(fixed.get("pretrained")) is not None
    )
    fine_tuned = fine_tuning_sizes([fixed["model"]], request) if is_pretrained else []
    chosen = fine_tuned[-1] if fine_tuned else training_size(request)
    return {name: value for name, value in chosen.settings.items() if name != "epochs"}


def chosen_config(
    data: Any,
    *,
    preset: str | None = None,
    paper: bool = False,
    network: nn.Module | None = None,
    space: SearchSpace | str | None = None,
    config: str | Path | None = None,
    resumed: Path | None = None,
    **settings: Any,
) -> SearchConfig:
    """Merge all settings of a search, and check them.

    In order of precedence, they are from: the arguments; the run to resume, an earlier
    search, or a preset; the defaults.

    Args:
        data: As in `search`.
        preset: As in `search`.
        paper: As in `search`.
        network: As in `search`.
        space: As in `search`.
        config: As in `search`.
        resumed: The folder of the run to resume.
        settings: As in `search`.

    Raises:
        HbaError: For settings that are unknown or contradict each other.
    """
    _check_choosers(
        resume=resumed is not None,
        config=config is not None,
        preset=bool(preset),
        paper=paper,
    )
    check_data(data, SearchData)
    components = custom_components(network, space)
    if space is not None:
        settings |= (
            _tuned_by(space, settings)
            if isinstance(space, SearchSpace)
            else {"space": space}
        )

    def choose(of_data: Mapping[str, Any]) -> SearchConfig:
        values = {**settings, **of_data}
        if resumed is not None:
            chosen = from_config(SearchConfig, resumed, values, components, resume=True)
        elif config is not None:
            chosen = from_config(
                SearchConfig,
                Path(config),
                values,
                components,
                in_memory=isinstance(data, SearchData),
            )
        else:
            chosen = SearchConfig.from_preset(values, preset, paper=paper).resolved()
        # Names of spaces and operations are checked before images are read.
        searched = space if isinstance(space, SearchSpace) else chosen.search_space()
        started(searched, searched.initial(), chosen.start)
        return chosen

    if isinstance(data, SearchData):
        if idle := [name for name in settings if name in DataConfig.model_fields]:
            raise SettingsError(
                f"{idle[0]} has no effect on images in memory; remove it"
            )
        baseline = choose({"data": data.name}).baseline_augmentation()
        return choose(
            {"data": data.name, "image_size": network_input_size(data.train, baseline)}
        )
    if is_dataset(data):
        data = name_of_dataset(data, settings)
    return choose({} if data is None else {"data": data})


def _check_choosers(**choosers: bool) -> None:
    """Raise SettingsError if several arguments choose all settings.

    choosers: whether each argument is given, by name.
    """
    names = [name for name, is_given in choosers.items() if is_given]
    if len(names) > 1 and names != ["preset", "paper"]:
        raise SettingsError(
            f"{names[0]} already chooses all settings; remove {' and '.join(names[1:])}"
        )


def custom_components(
    network: nn.Module | None, space: SearchSpace | str | None
) -> dict[str, Any]:
    """The user's objects, by the setting that each replaces."""
    components = {
        "model": network,
        "space": space if isinstance(space, SearchSpace) else None,
    }
    return {
        name: component
        for name, component in components.items()
        if component is not None
    }


def _tuned_by(space: SearchSpace, settings: Mapping[str, Any]) -> dict[str, Any]:
    """`tune` and `space` closest to your own space, for the default algorithm.
    Contradictions are a SettingsError.
    """
    flat = flattened(settings)
    if idle := [name for name in (*OF_SPACE[1:], "tune") if name in flat]:
        raise SettingsError(
            f"{idle[0]} has no effect on your own search space; remove it"
        )
    for operation in space.operations:
        check_known(operation)
    groups = dict.fromkeys(
        find_regularizer(regularizer.group).tuned_as
        for regularizer in space.regularizers
    )
    tune = (
        {"tune": (*((AUGMENTATION,) if space.operations else ()), *groups)}
        if groups
        else {}
    )
    return {"space": "full" if space.has_stages else "hba", **tune}


def _search(
    data: Any,
    config: SearchConfig,
    user_settings: Mapping[str, Any],
    components: Mapping[str, Any],
    folder: RunFolder | None,
    callback: SearchCallback,
    fit: Callable[..., ImageSearchContext] | None,
    make_trainer: Callable[[ImageSearchContext, RunFolder | None], SearchTrainer],
) -> SearchResult:
    """Read the images and search.

    Args:
        data: The images, or where they are.
        config: All settings.
        user_settings: The settings that the user gave.
        components: The user's objects, as custom_components returns them.
        folder: Folder of the run, if there is one.
        callback: Called during the search.
        fit: Chooses the epochs, if there is a budget.
        make_trainer: Makes the trainer of a search.
    """
    network = components.get("model")
    # Check this before reading the images, which may take long.
    device = find_device(config.device)
    start = config.network_start()
    if not isinstance(data, SearchData):
        dataset = data if is_dataset(data) else None
        data = load_search_data(config, callback.images_read, dataset)
    check_batch_size(user_settings, len(data.train))
    data = data if network is not None else data.in_color()
    with default_generators(device, derived_seed(config.seed, "default generators")):
        context = ImageSearchContext.of(
            config, data.to(device), network, components.get("space"), start
        )
        if fit is not None:
            context = fit(context)
        trainer = make_trainer(context, folder)
        if folder is not None:
            # Write this before the first save, so that a run that is killed in between
            # can still find its images.
            folder.write_config(context.config.flat(), list(components))
        return trainer.run(callback)
