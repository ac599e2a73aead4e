"""The plan of a run: its time budget, and the size and number of its trainings."""

import math
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import nn

from hba.config.evaluation import EvaluationConfig
from hba.config.presets import DEFAULT_PRESETS, SEARCH_PRESETS
from hba.config.training import CommonSearchConfig, source_of_weights
from hba.data.config import DataConfig, resolved_data
from hba.data.images import CHANNELS, LabelledImages
from hba.data.load import STREAM_ABOVE_BYTES, AnyDataset, find_source
from hba.data.look import Look, look
from hba.errors import DataError, SettingsError
from hba.executors.executor import default_jobs
from hba.models import build_model
from hba.models.pretrained import ON_CPU, ON_GPU, usable_networks
from hba.models.timm_networks import TIMM, Start, download_weights
from hba.policy_choice.contest import MOST_LEFT
from hba.policy_choice.record import (
    CONTEST,
    NETWORK,
    SEARCH,
    TEST,
    AutoRecord,
    Candidate,
)
from hba.policy_evaluation.baselines import NONE, named_rows
from hba.policy_search.config import SearchConfig, flattened
from hba.policy_search.timing import rounds
from hba.policy_search.training_size import (
    TrainingRequest,
    TrainingSize,
    fine_tuning_sizes,
    training_size,
)
from hba.schedule.recipes import RECIPES
from hba.tasks import task_of
from hba.training.custom_network import CustomNetwork
from hba.training.onnx_file import can_write_onnx
from hba.utils.devices import find_device
from hba.utils.text import counted, duration

CPU_SECONDS, GPU_SECONDS = 20 * 60.0, 10 * 60.0
"""Default budgets."""
EXAMPLE_SECONDS = 90.0
"""Budget of the example, a run without data."""
EXAMPLE: Mapping[str, Any] = {"train_size": 200, "val_size": 100}
"""How many of its images the example uses."""
EXAMPLE_NETWORK: Mapping[str, Any] = {
    "model": "wrn-10-1",
    "image_size": 8,
    "batch_size": 32,
    "fast": False,
    "price": 2.4,
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
PLANNED_SHARE, SECONDS_OF_PHASE = 0.92, 4.0
"""Share of the budget to plan with, and seconds for the start of a phase's processes.
"""
DOWNLOAD_SHARE = 0.1
"""Largest share of the budget for downloads of weights."""
CONTEST_SHARE = 0.8
"""Images in a training of the contest, as a share of those in a training of the test.
"""
OF_TEST = (
    "against",
    *sorted({*EvaluationConfig.model_fields} - {*CommonSearchConfig.model_fields}),
)
"""Settings for the test only."""


class Extent(NamedTuple):
    """How much a run does, if its time allows it.

    rows: largest number of policies in the contest.
    seeds: largest number of seeds of the contest.
    test_seeds: number of seeds of the test to plan with.
    networks: how many networks are compared by trainings.
    search: the time of the search, in multiples of one of several parallel trainings.
    """

    rows: int
    seeds: int
    test_seeds: int
    networks: int = 1
    search: float = 0.0

    def trainings(self, n_jobs: int) -> dict[str, float]:
        """The time of each phase, in multiples of one of several parallel trainings."""
        networks = rounds(self.networks, n_jobs) if self.networks > 1 else 0
        # The training of the chosen network is in the contest.
        contest = rounds(self.rows - (networks > 0), n_jobs)
        contest += rounds(MOST_LEFT[0], n_jobs) * (self.seeds - 1)
        return {
            NETWORK: CONTEST_SHARE * networks,
            SEARCH: self.search,
            CONTEST: CONTEST_SHARE * contest,
            TEST: rounds(ROWS_OF_TEST * self.test_seeds, n_jobs),
        }


ROWS_OF_TEST = 3
"""Rows of a test: the chosen one, none and RandAugment."""
LEAST = Extent(rows=3, seeds=1, test_seeds=1)
"""The smallest extent of a run."""
ONNX_SECONDS = 20.0
"""Seconds that network.onnx takes on an idle core, almost all of them in PyTorch's
exporter.
"""
LEAST_SECONDS_FOR_ONNX = 300.0
"""The shortest budget of a run that writes network.onnx."""
SERIAL_SECONDS = 120.0
"""A run of at most this time starts no processes, because each start takes seconds."""
EXTENTS: Mapping[float, Extent] = {
    SERIAL_SECONDS: Extent(rows=3, seeds=1, test_seeds=2, networks=4),
    600.0: Extent(rows=4, seeds=1, test_seeds=2, networks=4),
    3600.0: Extent(rows=5, seeds=2, test_seeds=2, networks=4),
    math.inf: Extent(rows=8, seeds=3, test_seeds=3, networks=6),
}
"""By the shortest budget for which they are no longer used."""


def seconds_for_onnx(budget: float) -> float:
    """Seconds of the budget that are kept for network.onnx; 0 if it is not written."""
    return (
        ONNX_SECONDS if budget >= LEAST_SECONDS_FOR_ONNX and can_write_onnx() else 0.0
    )


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


def planned(
    data: str | None,
    budget_seconds: float | None,
    jobs: int | None,
    components: Mapping[str, Any],
    settings: Mapping[str, Any],
    say: Callable[[str], None],
    datasets: tuple[AnyDataset, AnyDataset] | None = None,
) -> AutoRecord:
    """Look at the images, time some steps, and choose the settings that are not given.

    Args:
        data: A path or a name; None is the example.
        budget_seconds: The time of the run; None for the default.
        jobs: Trainings at a time; None for the default.
        components: Network and search space of the user, by setting.
        settings: Settings of the user, with `against`.
        say: Takes each line of the plan.
        datasets: Training and test data in memory, if any.

    Raises:
        SettingsError: If the time is too short.
    """
    began = time.monotonic()
    values = {name: value for name, value in settings.items() if name not in OF_TEST}
    is_example = (
        data is None
        and budget_seconds is None
        and not components
        and not {*EXAMPLE_NETWORK, "pretrained"} & {*values}
    )
    example = {
        **(EXAMPLE if data is None else {}),
        **(EXAMPLE_NETWORK if is_example else {}),
    }
    values = resolved_data({**example, **values, "data": data or "digits"})
    # Otherwise, an unknown name would raise an error only at the end.
    named_rows(RECIPES[NONE].make(), settings.get("against", ()))
    if is_random := source_of_weights(values.get("pretrained", TIMM)) is None:
        values.pop("pretrained")
    device = find_device(values.get("device", "auto"))
    n_threads = torch.get_num_threads()
    budget, words = budget_of(budget_seconds, device, is_example=data is None)
    say(words)
    config = DataConfig.make(
        {
            name: value
            for name, value in values.items()
            if name in DataConfig.model_fields
        }
    )
    counts = counts_of(values, values["data"]) if datasets is None else {}
    summary = look(config, data=datasets)
    for line in summary.sentences:
        say(line)
    n_jobs = jobs or (default_jobs(device) if budget > SERIAL_SECONDS else 1)
    may_download = budget > SERIAL_SECONDS
    models: tuple[str, ...] = ()
    if not is_random and "model" not in components:
        models = pretrained_models(
            values, device, say, DOWNLOAD_SHARE * budget, may_download=may_download
        )
    extent = extent_of(budget, settings, models, search_cost(values, budget, n_jobs))
    trainings = sum(extent.trainings(n_jobs).values())
    start = (5 if n_jobs > 1 else 1) * SECONDS_OF_PHASE + seconds_for_onnx(budget)
    if (left := PLANNED_SHARE * budget - start - (time.monotonic() - began)) <= 0:
        raise SettingsError(
            f"the budget must leave time after a start of {start:.0f} s; give 1m, or"
            " more"
        )
    network = components.get("model")
    request = TrainingRequest(
        summary,
        left / trainings,
        device,
        max(1, n_threads // n_jobs),
        sized(values, network, summary),
        network,
    )
    sizes = (
        [size_of_example(request)] if is_example else sizes_of(request, models, values)
    )
    sizes = in_memory(sizes, values, request)
    seconds = max(size.seconds for size in sizes)
    extent = extent._replace(networks=min(extent.networks, len(sizes)))
    least_extent = LEAST._replace(search=extent.search)
    least = start + seconds * sum(least_extent.trainings(n_jobs).values())
    if least > budget and not is_example:
        text = (
            f"these settings need at least {duration(least)}, but the budget is"
            f" {duration(budget)}"
        )
        raise SettingsError(f"{text}; give a longer one")
    lines = (
        [*sizes[0].reasons] if len(sizes) == 1 else [words_of_networks(sizes, extent)]
    )
    lines.append(words_of_phases(extent, n_jobs, seconds))
    for line in lines:
        say(line)
    all_values = {
        "baseline": "none",
        **unset(values["data"]),
        **values,
        **(sizes[0].settings if len(sizes) == 1 else {}),
    }
    return AutoRecord(
        data=values["data"],
        n_images=sizes[0].n_images,
        counts=counts,
        settings={name: value for name, value in all_values.items() if name != "data"},
        candidates=(
            tuple(Candidate(**size.model_dump()) for size in sizes)
            if len(sizes) > 1
            else ()
        ),
        has_given_epochs="epochs" in values,
        of_test={
            **({"seeds": SEEDS_OF_EXAMPLE} if is_example else {}),
            **{name: value for name, value in settings.items() if name in OF_TEST},
        },
        budget_seconds=budget,
        n_jobs=n_jobs,
        extent=extent,
        spent=time.monotonic() - began,
        training_seconds=max(seconds, 1e-3),
        plan=(words, *summary.sentences, *lines),
        command=shlex.join(
            [
                "hba",
                "auto",
                *([] if data is None else [data]),
                *options(budget_seconds, settings),
            ]
        ),
    )


def search_cost(settings: Mapping[str, Any], budget: float, n_jobs: int) -> float:
    """The time of the search of a run, in trainings."""
    values = flattened(settings)
    algorithm = SearchConfig.find_algorithm(values)
    defaults = algorithm.settings_in_auto(budget, pretrained=False)
    of_user = {
        name: values[name] for name in values.keys() & algorithm.model_fields.keys()
    }
    return algorithm(**{**defaults, **of_user}).cost(n_jobs)


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
    extent = next(extent for most, extent in EXTENTS.items() if budget < most)
    test_seeds = settings.get("seeds", extent.test_seeds)
    networks = extent.networks if models else 1
    return extent._replace(test_seeds=test_seeds, networks=networks, search=search)


def pretrained_models(
    settings: Mapping[str, Any],
    device: torch.device,
    say: Callable[[str], None],
    seconds: float,
    *,
    may_download: bool,
) -> tuple[str, ...]:
    """Names of the pretrained networks to consider; none if `model` names a network
    that has only random weights.

    seconds: the most that downloads may take. Raises SettingsError for given weights
    that cannot be used.
    """
    source = source_of_weights(settings.get("pretrained", TIMM))
    if "model" not in settings:
        if source != TIMM:
            raise SettingsError(
                f"pretrained FILE needs the model of its weights, got {source}; give"
                f" model too, or pretrained {TIMM}"
            )
        return usable_networks(
            device.type, say, may_download=may_download, seconds=seconds
        )
    model = settings["model"]
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
    if not (models and {"model", "pretrained", "freeze"} & {*settings}):
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


def counts_of(settings: Mapping[str, Any], data: str) -> dict[str, int]:
    """Number of images per class, without the data's own validation or test split."""
    of_data = {
        name: value
        for name, value in settings.items()
        if name in DataConfig.model_fields
    }
    source = find_source(DataConfig.make({**of_data, "data": data}))
    if source.train.items.n_channels not in CHANNELS:
        raise DataError(
            "hba auto compares recipes for grey and color images; for images with other"
            " channels, use hba search"
        )
    labels = source.train.labels
    n = len(source.class_names)
    counts = task_of(labels).counts(labels, n)
    return dict(zip(source.class_names, counts.tolist(), strict=True))


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


def in_memory(
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
            and 3 * size.n_images * side**2 <= STREAM_ABOVE_BYTES
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


def sized(
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
    images = LabelledImages(
        torch.zeros(2, 3, side, side, dtype=torch.uint8),
        torch.zeros(2, dtype=torch.int64),
    )
    CustomNetwork(network).check_takes(images, side, len(summary.class_names))
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
        f" to {extent.rows} policies with up to {counted(extent.seeds, 'seed')}; and a"
        f" test with about {counted(extent.test_seeds, 'seed')} (--seeds)"
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
