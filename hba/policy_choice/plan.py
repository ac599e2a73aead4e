"""The plan of a run: its time budget, and the size and number of its trainings."""

import math
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from hba.config.evaluation import EvaluationConfig
from hba.config.presets import DEFAULT_PRESETS, SEARCH_PRESETS
from hba.config.training import CommonSearchConfig, source_of_weights
from hba.data.config import DataConfig, resolved_data
from hba.data.images import LabelledImages
from hba.data.load import STREAM_ABOVE_BYTES, AnyDataset
from hba.data.look import Look, look
from hba.errors import SettingsError
from hba.executors.executor import default_jobs
from hba.models import build_model
from hba.models.pretrained import ON_CPU, ON_GPU, usable_networks
from hba.models.timm_networks import TIMM, Start, download_weights
from hba.models.unet import UNET, encoder_of
from hba.policy.space import SearchSpace
from hba.policy_choice.extent import (
    LEAST,
    SERIAL_SECONDS,
    Extent,
    contest_share_of,
    extent_of_budget,
)
from hba.policy_choice.images import counts_of
from hba.policy_choice.phases import PHASES
from hba.policy_choice.record import AutoRecord, Candidate
from hba.policy_choice.run import (
    SECONDS_OF_PHASE,
    seconds_for_onnx,
    trainings_of_phases,
)
from hba.policy_choice.settings import search_cost
from hba.policy_evaluation.baselines import NONE, named_rows
from hba.policy_search.config import SearchConfig
from hba.policy_search.training_size import (
    TrainingRequest,
    TrainingSize,
    fine_tuning_sizes,
    training_size,
)
from hba.schedule.recipes import RECIPES
from hba.training.custom_network import CustomNetwork
from hba.utils.devices import find_device
from hba.utils.text import counted, duration

CPU_SECONDS = 20 * 60.0
"""Default budget on a CPU."""
GPU_SECONDS = 10 * 60.0
"""Default budget on a GPU."""
EXAMPLE_SECONDS = 90.0
"""Budget of the example, a run without data."""
EXAMPLE: Mapping[str, Any] = {"train_size": 200, "val_size": 100}
"""How many of its images the example uses."""
EXAMPLE_NETWORK: Mapping[str, Any] = {
    "model": "wrn-10-1",
    "image_size": 8,
    "batch_size": 32,
    "fast": False,
}
"""Network and search of the example. To choose them by measurements would take most of
the budget.
"""
SEEDS_OF_EXAMPLE = 2
"""Seeds of its test."""
MOST_EPOCHS_OF_EXAMPLE = 20
"""Epochs of a training of the example."""
FEWEST_EPOCHS_OF_EXAMPLE = 5
"""Their number on a machine that is much slower than two cores of a current processor.
"""
PLANNED_SHARE = 0.92
"""Share of the budget to plan with."""
DOWNLOAD_SHARE = 0.1
"""Largest share of the budget for downloads of weights."""
OF_TEST = (
    "against",
    *sorted({*EvaluationConfig.model_fields} - {*CommonSearchConfig.model_fields}),
)
"""Settings for the test only."""


@dataclass(frozen=True)
class Arguments:
    """What the user asks of a run."""

    data: str | None
    """A path or a name; None is the example."""
    budget_seconds: float | None
    """The time of the run; None for the default."""
    jobs: int | None
    """Trainings at a time; None for the default."""
    settings: Mapping[str, Any]
    """Settings by name, with `against`."""
    network: nn.Module | None = None
    """The user's own network, if any."""
    space: SearchSpace | None = None
    """The user's own search space, if any."""
    datasets: tuple[AnyDataset, AnyDataset] | None = None
    """Training and test data in memory, if any."""

    @property
    def is_example(self) -> bool:
        """Whether the plan is that of the example, with its network."""
        is_default = self.data is None and self.budget_seconds is None
        has_own = self.network is not None or self.space is not None
        chosen = {*EXAMPLE_NETWORK, "pretrained"} & {*self.settings}
        return is_default and not has_own and not chosen

    @property
    def wants_random_weights(self) -> bool:
        """Whether the user has excluded pretrained weights."""
        return source_of_weights(self.settings.get("pretrained", TIMM)) is None

    def settings_of_search(self) -> dict[str, Any]:
        """The given settings of the search, with the data and those of the example."""
        values = {
            name: value for name, value in self.settings.items() if name not in OF_TEST
        }
        if self.wants_random_weights:
            values.pop("pretrained")
        example = {
            **(EXAMPLE if self.data is None else {}),
            **(EXAMPLE_NETWORK if self.is_example else {}),
        }
        return resolved_data({**example, **values, "data": self.data or "digits"})

    @property
    def command(self) -> str:
        """The command that repeats the run."""
        place = [] if self.data is None else [self.data]
        words = options(self.budget_seconds, self.settings)
        return shlex.join(["hba", "auto", *place, *words])


def budget_of(
    seconds: float | None, device: torch.device, *, is_example: bool
) -> tuple[float, str]:
    """The budget in seconds, and in words. Raises SettingsError unless it is a time."""
    if seconds is None:
        if is_example:
            return (
                EXAMPLE_SECONDS,
                (
                    f"At most {duration(EXAMPLE_SECONDS)} for the example, some"
                    " handwritten digits"
                ),
            )
        seconds = GPU_SECONDS if device.type == "cuda" else CPU_SECONDS
        return (
            seconds,
            (
                f"At most {duration(seconds)}, the default on a {device.type.upper()}"
                " (--budget)"
            ),
        )
    if isinstance(seconds, bool) or not (
        isinstance(seconds, int | float) and 0 < seconds < math.inf
    ):
        raise SettingsError(
            f"budget_seconds must be a number of seconds above 0, got {seconds!r}"
        )
    return float(seconds), f"At most {duration(seconds)}"


def plan_run(arguments: Arguments, say: Callable[[str], None]) -> AutoRecord:
    """Look at the images, time some steps, and choose the settings that are not given.

    Args:
        arguments: What the user asks for.
        say: Takes each line of the plan.

    Raises:
        SettingsError: If the time is too short.
    """
    began = time.monotonic()
    values = arguments.settings_of_search()
    # Otherwise, an unknown name would raise an error only at the end.
    named_rows(RECIPES[NONE].make(), arguments.settings.get("against", ()))
    device = find_device(values.get("device", "auto"))
    n_threads = torch.get_num_threads()
    budget, words = budget_of(
        arguments.budget_seconds, device, is_example=arguments.data is None
    )
    say(words)
    counts, summary = look_at_images(values, arguments.datasets)
    for line in summary.sentences:
        say(line)
    n_jobs = arguments.jobs or (default_jobs(device) if budget > SERIAL_SECONDS else 1)
    models: tuple[str, ...] = ()
    if not arguments.wants_random_weights and arguments.network is None:
        models = pretrained_models(values, device, budget, say)
    if summary.task.has_masks:
        models = _unets(models, arguments)
    has_own_space = arguments.space is not None
    cost = search_cost(values, budget, n_jobs, has_own_space=has_own_space)
    extent = extent_of(budget, arguments.settings, models, cost)
    share = contest_share_of(
        summary.n_train, summary.n_val, trains_on_val=values.get("train_size") is None
    )
    extent = extent._replace(contest_share=share)
    start_seconds = seconds_of_start(budget, n_jobs)
    left = PLANNED_SHARE * budget - start_seconds - (time.monotonic() - began)
    if left <= 0:
        raise SettingsError(
            f"the budget must leave time after a start of {start_seconds:.0f} s; give"
            " 1m, or more"
        )
    request = TrainingRequest(
        summary,
        left / trainings_of(extent, n_jobs),
        budget,
        device,
        max(1, n_threads // n_jobs),
        settings_of_size(values, arguments.network, summary),
        arguments.network,
    )
    if arguments.is_example:
        sizes = [size_of_example(request)]
    else:
        sizes = sizes_of(request, models, values)
    sizes = sizes_in_memory(sizes, values, request)
    seconds = max(size.seconds for size in sizes)
    extent = extent._replace(networks=min(extent.networks, len(sizes)))
    least = LEAST._replace(search=extent.search, contest_share=share)
    least_seconds = start_seconds + seconds * trainings_of(least, n_jobs)
    if not arguments.is_example:
        check_budget(budget, least_seconds)
    lines = (
        [*sizes[0].reasons] if len(sizes) == 1 else [words_of_networks(sizes, extent)]
    )
    lines.append(words_of_phases(extent, n_jobs, seconds))
    for line in lines:
        say(line)
    return AutoRecord(
        data=values["data"],
        n_images=sizes[0].n_images,
        counts=counts,
        task_name=summary.task.name,
        settings=settings_of_record(values, sizes),
        candidates=candidates_of(sizes),
        has_given_epochs="epochs" in values,
        of_test=settings_of_test(arguments),
        budget_seconds=budget,
        n_jobs=n_jobs,
        extent=extent,
        spent=time.monotonic() - began,
        training_seconds=max(seconds, 1e-3),
        plan=(words, *summary.sentences, *lines),
        command=arguments.command,
    )


def _unets(models: Sequence[str], arguments: Arguments) -> tuple[str, ...]:
    """The models as encoders of U-Nets.

    Raises:
        SettingsError: Without pretrained weights, unless the network is the user's own.
    """
    if not models and arguments.network is None:
        raise SettingsError(
            "hba auto trains masks from pretrained weights; give --pretrained, or a"
            f" model {UNET}NAME, or omit both"
        )
    return tuple(f"{UNET}{encoder_of(model)}" for model in models)


def check_budget(budget: float, least_seconds: float) -> None:
    """Raise SettingsError if the budget is too short for the smallest run."""
    if least_seconds > budget:
        raise SettingsError(
            f"these settings need at least {duration(least_seconds)}, but the budget is"
            f" {duration(budget)}; give a longer one"
        )


def look_at_images(
    values: Mapping[str, Any], datasets: tuple[AnyDataset, AnyDataset] | None
) -> tuple[dict[str, int], Look]:
    """Look at the images of a run.

    Args:
        values: Settings, including data.
        datasets: Training and test data in memory, if any.

    Returns:
        The number of images of each class, which is empty for data in memory, and what
        is seen in them.
    """
    config = DataConfig.make(
        {
            name: value
            for name, value in values.items()
            if name in DataConfig.model_fields
        }
    )
    counts = counts_of(values, values["data"]) if datasets is None else {}
    return counts, look(config, data=datasets)


def seconds_of_start(budget: float, n_jobs: int) -> float:
    """Seconds of a run in which nothing is trained."""
    n_starts = 5 if n_jobs > 1 else 1
    return n_starts * SECONDS_OF_PHASE + seconds_for_onnx(budget)


def trainings_of(extent: Extent, n_jobs: int) -> float:
    """The time of a run, in multiples of one of several parallel trainings."""
    return sum(trainings_of_phases(PHASES, extent, n_jobs).values())


def settings_of_record(
    values: Mapping[str, Any], sizes: Sequence[TrainingSize]
) -> dict[str, Any]:
    """The settings of a run before its network is chosen.

    Args:
        values: The given settings, including data.
        sizes: The trainings to choose from; if there is only one, it is chosen.
    """
    merged = {
        "baseline": "none",
        **unset(values["data"]),
        **values,
        **(sizes[0].settings if len(sizes) == 1 else {}),
    }
    merged.pop("data")
    return merged


def settings_of_test(arguments: Arguments) -> dict[str, Any]:
    """The settings for the test only."""
    of_example = {"seeds": SEEDS_OF_EXAMPLE} if arguments.is_example else {}
    of_user = {
        name: value for name, value in arguments.settings.items() if name in OF_TEST
    }
    return {**of_example, **of_user}


def candidates_of(sizes: Sequence[TrainingSize]) -> tuple[Candidate, ...]:
    """The trainings to choose from by measurements; none if there is only one."""
    if len(sizes) == 1:
        return ()
    return tuple(Candidate(**size.model_dump()) for size in sizes)


def extent_of(
    budget: float, settings: Mapping[str, Any], models: Sequence[str], search: float
) -> Extent:
    """The extent to plan with.

    Args:
        budget: Seconds of the run.
        settings: Settings that the user gives.
        models: Pretrained networks to consider.
        search: The time of the search, in trainings.
    """
    extent = extent_of_budget(budget)
    test_seeds = settings.get("seeds", extent.test_seeds)
    networks = extent.networks if models else 1
    return extent._replace(test_seeds=test_seeds, networks=networks, search=search)


def pretrained_models(
    settings: Mapping[str, Any],
    device: torch.device,
    budget: float,
    say: Callable[[str], None],
) -> tuple[str, ...]:
    """The pretrained networks to consider, which are downloaded.

    Args:
        settings: Settings of the user.
        device: The device.
        budget: Seconds of the run, of which downloads may take a share.
        say: Takes each line about them.

    Returns:
        Their names; none if `model` names a network that has only random weights.

    Raises:
        SettingsError: For given weights that cannot be used.
    """
    seconds = DOWNLOAD_SHARE * budget
    source = source_of_weights(settings.get("pretrained", TIMM))
    if "model" not in settings:
        if source != TIMM:
            raise SettingsError(
                f"pretrained FILE needs the model of its weights, got {source}; give"
                f" model too, or pretrained {TIMM}"
            )
        return usable_networks(
            device.type, say, may_download=budget > SERIAL_SECONDS, seconds=seconds
        )
    model = encoder_of(settings["model"])
    if "pretrained" not in settings and model not in {*ON_CPU, *ON_GPU}:
        return ()
    if source == TIMM:
        download_weights(model, say, seconds)
    else:
        start = Start.of(model, source)
        say(
            f"Pretrained weights: {start.origin(build_model(model, 2, 0, start=start))}"
        )
    return (model,)


def size_of_example(request: TrainingRequest) -> TrainingSize:
    """The training of the example, with fewer epochs on a slow or busy machine."""
    settings = {**request.settings, "epochs": MOST_EPOCHS_OF_EXAMPLE}
    size = training_size(replace(request, settings=settings))
    epochs = round(MOST_EPOCHS_OF_EXAMPLE * request.seconds / size.seconds)
    epochs = min(MOST_EPOCHS_OF_EXAMPLE, max(FEWEST_EPOCHS_OF_EXAMPLE, epochs))
    return size.model_copy(
        update={
            "settings": {**size.settings, "epochs": epochs},
            "seconds": size.seconds * epochs / MOST_EPOCHS_OF_EXAMPLE,
        }
    )


def sizes_of(
    request: TrainingRequest, models: Sequence[str], settings: Mapping[str, Any]
) -> list[TrainingSize]:
    """The sizes of trainings from random weights, unless pretrained ones are asked for,
    and of the pretrained models.

    Args:
        request: What the trainings are chosen for.
        models: Names of the pretrained networks.
        settings: Settings of the user.

    Raises:
        SettingsError: If no training fits.
    """
    sizes = list[TrainingSize]()
    problem = list[SettingsError]()
    has_masks = request.look.task.has_masks and request.network is None
    if not (has_masks or (models and {"model", "pretrained", "freeze"} & {*settings})):
        try:
            sizes.append(training_size(request))
        except SettingsError as error:
            problem.append(error)
    if models:
        try:
            sizes += fine_tuning_sizes(models, request)
        except SettingsError as error:
            problem.append(error)
    if not sizes:
        raise problem[-1]
    return sizes


def unset(data: str) -> dict[str, Any]:
    """Defaults of the settings in a data set's preset, which is for trainings of
    another size.
    """
    of_preset = SEARCH_PRESETS.get(DEFAULT_PRESETS.get(data, ""), {})
    fields = SearchConfig.model_fields
    return {
        name: fields[name].default
        for name in of_preset
        if name in CommonSearchConfig.model_fields and name != "data"
    }


def sizes_in_memory(
    sizes: Sequence[TrainingSize],
    settings: Mapping[str, Any],
    request: TrainingRequest,
) -> list[TrainingSize]:
    """The sizes whose images can be kept in memory, completed by the given network and
    side of images.

    Args:
        sizes: All sizes.
        settings: Settings of the user.
        request: What the sizes were chosen for.

    Raises:
        SettingsError: If there are none.
    """
    kept = {
        name: settings[name] for name in ("model", "image_size") if name in settings
    }
    fitting = list[TrainingSize]()
    for size in sizes:
        side = int(size.settings.get("image_size") or request.settings["image_size"])
        if (
            not settings.get("stream")
            and request.look.n_channels * size.n_images * side**2 <= STREAM_ABOVE_BYTES
        ):
            fitting.append(
                size.model_copy(update={"settings": {**kept, **size.settings}})
            )
    if not fitting:
        raise SettingsError(
            f"hba auto keeps all images in memory, but {sizes[0].n_images:,} of {side}"
            f" pixels need more than {STREAM_ABOVE_BYTES / 1e9:.0f} GB; choose a"
            " smaller --image-size or --train-size, and omit --stream"
        )
    return fitting


def settings_of_size(
    settings: Mapping[str, Any], network: nn.Module | None, summary: Look
) -> dict[str, Any]:
    """The settings that determine the size of a training. The user's own network gets
    images of the given side.

    Raises:
        SettingsError: If it cannot take them.
    """
    if network is None:
        return dict(settings)
    side = DataConfig.make(
        {"data": settings["data"], "image_size": settings.get("image_size")}
    ).side
    n_classes = len(summary.class_names)
    dtype, shape = summary.task.stored(2, n_classes, side)
    images = LabelledImages(
        torch.zeros(2, summary.n_channels, side, side, dtype=torch.uint8),
        torch.zeros(shape, dtype=getattr(torch, dtype)),
    )
    CustomNetwork(network).check_takes(images, side, n_classes)
    return {**settings, "model": type(network).__name__, "image_size": side}


def words_of_networks(sizes: Sequence[TrainingSize], extent: Extent) -> str:
    sides_of_networks: dict[str, list[str]] = {}
    for size in sizes:
        weights = "pretrained" if "pretrained" in size.settings else "random weights"
        sides = sides_of_networks.setdefault(
            f"{size.settings['model']} ({weights})", []
        )
        sides += [
            side for side in [str(size.settings["image_size"])] if side not in sides
        ]
    listed = "; ".join(
        f"{name} at {', '.join(sides)} pixels"
        for name, sides in sides_of_networks.items()
    )
    return (
        f"Networks to consider: {listed}; up to {extent.networks} of them are trained"
        " (--model, --image-size)"
    )


def words_of_phases(extent: Extent, n_jobs: int, seconds: float) -> str:
    beside = f", {n_jobs} at a time" if n_jobs > 1 else ""
    return (
        f"A training takes about {duration(seconds)}{beside}: a search; a contest of up"
        f" to {extent.rows} policies and {extent.changed} changes of the best, with up"
        f" to {counted(extent.seeds, 'seed')}; and a test with about"
        f" {counted(extent.test_seeds, 'seed')} (--seeds)"
    )


def options(budget_seconds: float | None, settings: Mapping[str, Any]) -> Sequence[str]:
    """The settings as options of the command line."""
    words = [] if budget_seconds is None else ["--budget", f"{budget_seconds:g}s"]
    for name, value in settings.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words += [
                f"--{flag}",
                (
                    ",".join(map(str, value))
                    if isinstance(value, list | tuple)
                    else str(value)
                ),
            ]
    return words
