"""The function hba.evaluate."""

import contextlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from hba.config.evaluation import OF_WEIGHTS, EvaluationConfig, of_earlier_run
from hba.data.config import DataConfig, resolved_data
from hba.data.images import EvaluationData, LabelledImages, LazySplit, Scale
from hba.data.load import (
    AnyDataset,
    check_data,
    is_dataset,
    load_evaluation_data,
    name_of_dataset,
)
from hba.data.reading import save_left_out
from hba.errors import DivergedError, SettingsError
from hba.executors.executor import (
    Executor,
    SerialExecutor,
    Shared,
    Tensors,
    number_of_jobs,
    tensors_of,
)
from hba.executors.ray_executor import check_one_way, connected, executor_for
from hba.operations import channels_note
from hba.policy_evaluation.baselines import (
    AGAINST,
    Baseline,
    RowConfig,
    check_rows,
    named_rows,
    respread,
    row_configs,
)
from hba.policy_evaluation.callbacks import (
    EvaluationCallback,
    EvaluationPlan,
    EvaluationProgress,
)
from hba.policy_evaluation.leakage import leakage_reports, settings_of
from hba.policy_evaluation.results import (
    FREE_SETTINGS,
    Evaluation,
    check_same,
    stored_results,
)
from hba.preprocessing import network_input_size
from hba.results.evaluation import RESULTS_NAME, EvaluationResult, read_results
from hba.results.report_hook import report_at_the_end
from hba.schedule.schedule import Schedule
from hba.tasks import task_of
from hba.training.checkpoint import TRAININGS_NAME, TrainCheckpoint
from hba.training.custom_network import CustomNetwork
from hba.training.metrics import Measured
from hba.training.trained_network import KeptNetwork, is_kept
from hba.training.trainer import Trained, network_of, train
from hba.utils.devices import explained_memory_errors, find_device, own_state
from hba.utils.files import run_lock
from hba.utils.graphs import StepCounts
from hba.utils.processes import end_if_importing_main
from hba.utils.progress import shows_progress
from hba.utils.seeding import default_generators, derived_seed
from hba.utils.settings import check_batch_size


@shows_progress(EvaluationProgress)
@explained_memory_errors()
@own_state()
def evaluate(
    schedule: Schedule | str | Path,
    data: str | Path | EvaluationData | tuple[AnyDataset, AnyDataset] | None = None,
    *,
    against: str | Sequence[Baseline] = AGAINST,
    preset: str | None = None,
    network: nn.Module | Callable[[int], nn.Module] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    jobs: int | None = 1,
    cluster: str | None = None,
    allow_seen: bool = False,
    keep_network: bool = False,
    callback: EvaluationCallback | None = None,
    progress: bool = False,
    config: str | Path | None = None,
    **settings: Any,
) -> EvaluationResult:
    """Train with the schedule and with each baseline, and measure the test split after
    the last epoch of each training.

    All settings that you do not give are as in the search.

    Args:
        schedule: A schedule, its file, or the name of a recipe or of a shipped one.
        data: A dataset's name, a folder, images in memory, or a pair (train, test) of
            torch Datasets or lists of (image, label), which are read once and fitted to
            image_size; None uses the data of the search.
        against: The baselines, in a list or as names separated by commas: names in
            `hba.policy_evaluation.BASELINES`, whose `text` describes each, schedules,
            schedule files, names of shipped schedules, or your own augmentations (see
            `hba.Augmentation`). A baseline's name takes precedence over a file with
            this name. The default is none and randaugment, except for the recipe that
            you evaluate.
        preset: A key of EVALUATION_PRESETS.
        network: Your own network instead of the setting `model`. Every training starts
            from a copy of it, so all seeds share the initial weights and differ only in
            batches and draws: they vary less than fresh networks. Frozen parameters
            stay frozen. For fresh weights, give a function from the seed to a network,
            such as `lambda seed: Net()`; PyTorch's default generator is seeded for it.
            With the setting `pretrained`, seeds share the initial weights too, except
            those of a new head.
        out: A folder for results.json, which is written after each training.
        resume: Continue the evaluation in `out` with the same settings, network and
            rows; you may add seeds, and rows after the old ones.
        jobs: Trainings at a time. More than one run in separate processes, which share
            PyTorch's threads; a script must then call this function under `if __name__
            == "__main__":`. None means one for each thread, and 1 on a GPU. With the
            same number of threads for each training, results do not depend on jobs.
        cluster: The address of a Ray cluster, or `auto` for that of this machine: one
            training at a time on each of its GPUs, or else CPUs. Trainings of a lost
            machine run again.
        allow_seen: Also test on images that the search has seen, which otherwise raises
            SettingsError.
        keep_network: Keep the network of the schedule's first seed in `out`, for
            load_network: network.pt and network.json. If a resumed evaluation has the
            result of this training but not its network, it trains it again.
        callback: Called during the evaluation.
        progress: Show a bar in a terminal or a notebook.
        config: The results.json of an earlier evaluation, or its folder. Its settings,
            except its device and rows, override those of the search.
        settings: Fields of EvaluationConfig. The setting spread, in logits, replaces
            the spread of every schedule and of the baselines made from the first one; 0
            trains without a spread. To change only one schedule, pass the result of
            Schedule.with_spread.

    Returns:
        A row of test errors for the schedule and for each baseline, and their answer.

    Raises:
        HbaError: For what cannot work.
        DivergedError: If a loss is not finite.
    """
    end_if_importing_main()
    callback = callback or EvaluationCallback()
    check_one_way(jobs, cluster)
    check_data(data, EvaluationData)
    own_network = None if network is None else CustomNetwork(network)
    named = named_rows(schedule, against)
    main = next(row for row in named.values() if isinstance(row, Schedule))
    used, note_on_settings = settle(
        main, data, preset, config, settings, has_own_network=own_network is not None
    )
    # Check this before reading images. A cluster has its own devices.
    device = find_device(used.device) if cluster is None else None
    rows = row_configs(named, main, used, own_network, used.network_start())
    if out is None and (resume or keep_network):
        raise SettingsError(
            f"{'resume' if resume else 'keep_network'} needs out, the folder of the"
            " evaluation"
        )
    folder = Path(out) if out is not None else None
    with run_lock(folder), connected(cluster) as machines:
        stored = stored_results(folder, resume, used, rows)
        images = _read_and_check(data, rows, callback)
        check_batch_size(settings, len(images.train))
        searched = leakage_reports(
            {name: row for name, row in named.items() if isinstance(row, Schedule)},
            used,
            images,
            in_memory=_is_in_memory(data),
            allow_seen=allow_seen,
        )
        run = Evaluation(used, rows, images, searched, folder, stored)
        notes = _notes(run, note_on_settings)
        n_jobs = number_of_jobs(jobs, len(rows) * used.seeds, images.train, device)
        executor = executor_for(used.device, n_jobs, machines)
        return _train_all(
            run,
            respread(main, used.spread),
            executor,
            callback,
            notes,
            keep_network=keep_network,
        )


def _is_in_memory(data: object) -> bool:
    """Whether the user has given images, and not the place of their files."""
    return not isinstance(data, str | Path | None)


def _notes(run: Evaluation, note_on_settings: str | None) -> tuple[str, ...]:
    """Sentences to read before the numbers.

    Raises SettingsError if pretrained weights, which are loaded as a test, do not fit.
    """
    task = task_of(run.data.train.labels)
    notes = (
        note_on_settings,
        *run.data.facts,
        task.note,
        channels_note(run.data.train.n_channels),
        _note_on_start(run.data, run.rows[0]),
        *(report.warning for report in run.searched),
        None if task.has_masks else run.config.baseline_note(),
    )
    return tuple(note for note in notes if note)


def _read_and_check(
    data: object, rows: Sequence[RowConfig], callback: EvaluationCallback
) -> EvaluationData:
    """Read the images. Finds mistakes in the user's own objects before the first
    training, not after an hour.
    """
    config = rows[0].config
    own_network = rows[0].own_network
    if isinstance(data, EvaluationData):
        images = data
    else:
        dataset: Any = data if is_dataset(data) else None
        images = load_evaluation_data(
            config, callback.images_read, dataset, with_val=config.with_val
        )
    config.check_task(
        task_of(images.train.labels), has_own_network=own_network is not None
    )
    images = images if own_network is not None else images.in_color()
    if own_network is not None:
        side = network_input_size(images.train, config.baseline_augmentation())
        own_network.check_takes(images.train, side, len(images.class_names))
    check_rows(rows, images)
    return images


def _note_on_start(data: EvaluationData, row: RowConfig) -> str | None:
    """A note on pretrained weights, which are loaded as a test. Raises SettingsError if
    they do not fit.
    """
    if row.start is None:
        return None
    note = row.start.note(network_of(row.config, data, 0, row.own_network, row.start))
    return f"{note} Every training starts in this way, for every seed."


def _train_all(
    run: Evaluation,
    schedule: Schedule,
    executor: Executor,
    callback: EvaluationCallback,
    notes: tuple[str, ...],
    *,
    keep_network: bool,
) -> EvaluationResult:
    """Run the missing trainings. schedule: the one in the report.

    keep_network: keep the network of the first row and seed. If it is missing, this
    training runs again.
    """
    folder = run.folder
    is_first_trained = run.config.first_seed in run.result.rows[0].seeds
    jobs = _jobs(run, executor, keep_network=keep_network)
    if jobs and isinstance(executor, SerialExecutor):
        run.data = run.data.to(executor.device)
    # The executor's n_jobs: the rest of a resumed evaluation uses as many threads per
    # training as the whole one.
    environment = {
        **(executor.environment() if jobs else run.result.environment),
        "jobs": executor.n_jobs,
    }
    run.result = run.result.model_copy(update={"environment": environment})
    if run.stored and jobs:
        # Another kind of device rounds differently.
        check_same(
            "kind of device",
            torch.device(run.stored.environment["device"]).type,
            executor.device.type,
            folder,
        )
    plan = EvaluationPlan(
        config=run.config,
        data=run.data,
        result=run.result,
        device=executor.description,
        n_trainings=len(jobs),
        jobs=min(executor.n_jobs, max(1, len(jobs))),
        folder=folder,
        notes=notes,
    )
    callback.planned(plan)
    shared = shared_data(executor, run.data) if jobs else Shared()
    with contextlib.closing(
        executor.run(train_and_measure, jobs, shared, callback.step_done)
    ) as finished:
        for number, (test, epochs, network, steps) in finished:
            job = jobs[number]
            if network is not None and folder is not None:
                # Save it before the result, so that a kill between the two loses
                # nothing.
                network.save(folder)
            if not (job.keeps_network and is_first_trained):
                run.add(job.row, job.seed, test, steps)
            job.checkpoint.remove()
            if folder is not None:
                save_left_out(folder, run.data.left_out)
            callback.training_done(job.row.name, job.seed, test, epochs)
    if folder is None:
        return run.result
    shutil.rmtree(folder / TRAININGS_NAME, ignore_errors=True)
    report = report_at_the_end(folder, run.data, schedule)
    return run.result.model_copy(update={"report": report})


def _jobs(run: Evaluation, executor: Executor, *, keep_network: bool) -> list["Job"]:
    """The missing trainings; first that of the network to keep, if it is missing."""
    folder = run.folder
    missing = run.missing()
    first_seed = run.config.first_seed
    if keep_network and first_seed in run.result.rows[0].seeds:
        keep_network = folder is not None and not is_kept(folder)
        if keep_network:
            missing = [(run.rows[0], first_seed), *missing]
    # Processes on other machines start in another folder.
    checkpoints = folder and folder.absolute() / TRAININGS_NAME
    images = run.result.fingerprints["training"]
    made_on = f"{executor.device.type}, {executor.n_threads} threads"
    jobs = []
    for row, seed in missing:
        identity = (*_identity(row), images, made_on, str(seed))
        jobs.append(Job(row, seed, TrainCheckpoint(checkpoints, identity)))
    if keep_network:
        jobs[0] = jobs[0]._replace(keeps_network=True)
    return jobs


def _identity(row: RowConfig) -> tuple[str, ...]:
    """Everything that determines a row's numbers, except images and hardware."""
    # The hash of the images covers the effect of skip_broken.
    config = row.config.model_copy(update={"skip_broken": False})
    # Unlike pydantic, json also writes names that are no valid text.
    settings = json.dumps(
        config.model_dump(
            mode="json", exclude={*FREE_SETTINGS, "first_seed", "data", "device"}
        )
    )
    network = row.own_network and row.own_network.definition
    start = row.start and row.start.sha256
    return settings, row.name, row.definition, str(network), str(start)


Result = tuple[Measured, tuple[Measured, ...], KeptNetwork | None, StepCounts | None]
"""Of a training: measures on the test split, and of each epoch; the network, if kept;
on a GPU, how its steps ran.
"""


class Job(NamedTuple):
    """A network to train."""

    row: RowConfig
    seed: int
    checkpoint: TrainCheckpoint
    """Written by the training, to resume it."""
    keeps_network: bool = False
    """Whether to return the network."""

    @property
    def name(self) -> str:
        """Its name in the message of an executor that cannot send it."""
        return f"the row {self.row.name}"


def train_row(
    row: RowConfig,
    seed: int,
    checkpoint: TrainCheckpoint,
    data: EvaluationData,
    on_step: Callable[[], None],
) -> Trained:
    """Run one training of a row, in any process. PyTorch's default generators do not
    change.

    Args:
        row: The row.
        seed: Seed of the training.
        checkpoint: Written by the training, to resume it.
        data: The images, on the device of the training.
        on_step: Called after each step.

    Returns:
        The trained network and its measurements.

    Raises:
        DivergedError: If the loss is not finite; it names the training.
    """
    if checkpoint.path is not None and not checkpoint.path.parent.parent.is_dir():
        # Another machine may not see the folder of the run.
        checkpoint = TrainCheckpoint()
    generators = default_generators(
        data.train.device, derived_seed(seed, "default generators of an evaluation")
    )
    with generators, explained_memory_errors():
        try:
            return train(
                row.config,
                data,
                row.augmentation,
                seed,
                on_step,
                row.own_network,
                row.start,
                checkpoint,
            )
        except DivergedError as error:
            raise DivergedError(f"{row.name}, seed {seed}: {error}") from None


def train_and_measure(
    job: Job, data: EvaluationData, on_step: Callable[[], None]
) -> Result:
    """Train by train_row, and measure the test split and the augmented images of each
    epoch.

    Args:
        job: The training.
        data: The images, on the device of the training.
        on_step: Called after each step.
    """
    row = job.row
    trained = train_row(row, job.seed, job.checkpoint, data, on_step)
    kept = None
    if job.keeps_network:
        model = row.config.model if row.own_network is None else row.own_network.name
        kept = KeptNetwork.of(
            trained.network,
            trained.test,
            data,
            row.config,
            model=model,
            policy=row.name,
            seed=job.seed,
        )
    return trained.test, trained.epochs, kept, trained.steps


def shared_data(executor: Executor, data: EvaluationData) -> Shared:
    """The data that all trainings share.

    With a SerialExecutor, the test split is opened after the last step of the first
    training. Elsewhere, it is opened before the first one, and all processes of a
    machine share images in memory.

    Args:
        executor: Runs the trainings.
        data: The images, on the device of a SerialExecutor.

    Raises:
        SettingsError: For images that stay in files, unless it is a SerialExecutor.
    """
    if isinstance(executor, SerialExecutor):
        return Shared(data)
    value = (data.name, data.class_names, data.scale, str(executor.device))
    return Shared(
        value, (*tensors_of(data.train), *tensors_of(data.test)), data_of_tensors
    )


def data_of_tensors(
    value: tuple[str, tuple[str, ...], Scale, str], tensors: Tensors
) -> EvaluationData:
    """The inverse of `shared_data` in another process."""
    name, class_names, scale, device_name = value
    device = find_device(device_name)
    images, labels, test_images, test_labels = tensors
    test = LazySplit(lambda: LabelledImages(test_images, test_labels).to(device))
    return EvaluationData(
        name,
        class_names,
        LabelledImages(images, labels).to(device),
        test,
        scale=scale,
    )


def settle(
    schedule: Schedule,
    data: object,
    preset: str | None,
    earlier: str | Path | None,
    settings: Mapping[str, Any],
    *,
    has_own_network: bool,
) -> tuple[EvaluationConfig, str | None]:
    """Merge the settings of an evaluation, and check them.

    In order of precedence, they are from: settings, the earlier evaluation, the preset,
    and the search.

    Args:
        schedule: The schedule under evaluation, which records the settings of its
            search.
        data: As in `evaluate`.
        preset: Name of a preset, if any.
        earlier: The setting config of `evaluate`.
        settings: Settings of the user.
        has_own_network: Whether the user's own network replaces `model`.

    Returns:
        The settings, and a note if some come from a search on other data.

    Raises:
        SettingsError: For settings that contradict each other, and unknown data.
    """
    if has_own_network and (
        idle := [name for name in ("model", *OF_WEIGHTS) if name in settings]
    ):
        raise SettingsError(f"{idle[0]} has no effect on your own network; omit it")
    if data is not None:
        name: Any = data.name if isinstance(data, EvaluationData) else data
        name = name_of_dataset(data, settings) if is_dataset(data) else name
        settings = {**settings, "data": name}
    if earlier is not None:
        if preset:
            raise SettingsError(
                "config has all settings of an earlier run; omit preset"
            )
        settings = {
            **_of_earlier(
                Path(earlier), settings, has_own_network, _is_in_memory(data)
            ),
            **settings,
        }
    searched = settings_of(schedule)
    if not ({"data"} & {*settings, *searched} or preset):
        raise SettingsError(
            "the schedule does not record the data of its search: give the data to"
            " evaluate it on"
        )

    def merged(settings: Mapping[str, Any]) -> EvaluationConfig:
        return EvaluationConfig.like_search(
            searched, settings, preset, has_own_network=has_own_network
        )

    config = merged(settings)
    if isinstance(data, EvaluationData) and "image_size" not in settings:
        # Images in memory have a size, which the baseline augmentation may reduce.
        # Settings in pixels depend on the result.
        baseline = config.baseline_augmentation()
        side = network_input_size(data.train, baseline)
        config = merged({**settings, "image_size": side})
    if preset is not None or searched.get("data", config.data) == config.data:
        return config, None
    return config, (
        f"settings that you do not give are as in the search on {searched.get('data')};"
        f" {RESULTS_NAME} lists them"
    )


def _of_earlier(
    path: Path, given: Mapping[str, Any], has_own_network: bool, in_memory: bool
) -> dict[str, Any]:
    """The settings of an earlier evaluation that apply, without its device, which this
    machine may not have.

    in_memory: whether the images are in memory, so that its data do not apply.
    """
    file = path / RESULTS_NAME if path.is_dir() else path
    stored = {
        name: value
        for name, value in read_results(file).settings.items()
        if name != "val_size"
    }
    if stored.get("model") is None and "model" not in given and not has_own_network:
        raise SettingsError(
            f"{file} is of a network of your own: give it as network= in Python, or"
            " choose a model"
        )
    applicable = of_earlier_run(
        stored, resolved_data(given), has_own_network=has_own_network
    )
    return {
        name: value
        for name, value in applicable.items()
        if not (in_memory and name in DataConfig.model_fields)
    }
