"""hba.evaluate: from its arguments to the results."""

import contextlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hba.config.evaluation import EvaluationConfig
from hba.data.images import EvaluationData
from hba.data.labels import error_note
from hba.data.load import AnyDataset, as_evaluation_data, check_data, is_dataset, load_evaluation_data
from hba.data.reading import save_left_out
from hba.distributed.collectives import (
    broadcast_from_rank0,
    check_alike,
    is_restarted_in,
    local_device,
    note_launch,
    rank0_first,
    rank0_only,
    share_tensors,
)
from hba.distributed.process_info import is_first, single_process, size
from hba.errors import RunError, SettingsError
from hba.executors.executor import Executor, SerialExecutor
from hba.executors.ray_executor import connected
from hba.models import Start, build_model
from hba.policy_evaluation.baseline_augmentations import respread
from hba.policy_evaluation.baselines import (
    NONE,
    Baseline,
    Make,
    RowConfig,
    check_networks_take,
    check_of_images,
    check_rows_take,
    named_rows,
    row_configs,
    try_out,
)
from hba.policy_evaluation.callbacks import EvaluationCallback, EvaluationPlan, EvaluationProgress, TimeEstimate
from hba.policy_evaluation.jobs import Job, check_executor, executor_for, run_jobs
from hba.policy_evaluation.leakage import LeakageReport, leakage_reports, notes_on, settings_of
from hba.policy_evaluation.results import FREE_SETTINGS, EvaluationResult, Record, check_kept, check_resumable
from hba.policy_evaluation.settings import Chosen, check_weights, chosen, with_earlier
from hba.preprocessing import network_input_size
from hba.report.page import REPORT_NAME, is_reported, report_at_the_end
from hba.report.results import RESULTS_NAME, Results, read_results
from hba.report.samples import Samples
from hba.schedule.schedule import Schedule
from hba.training.checkpoint import TRAININGS_NAME, TrainCheckpoint
from hba.training.custom_network import CustomNetwork
from hba.utils.devices import explained_memory_errors
from hba.utils.files import run_lock
from hba.utils.progress import shows_progress
from hba.utils.settings import check_batch_size


@shows_progress(EvaluationProgress)
@explained_memory_errors()
def evaluate(
    schedule: Schedule | str | Path,
    data: str | Path | EvaluationData | tuple[AnyDataset, AnyDataset] | None = None,
    *,
    against: Sequence[Baseline] = (NONE,),
    preset: str | None = None,
    network: nn.Module | Callable[[int], nn.Module] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    jobs: int | None = 1,
    cluster: str | None = None,
    gpus_per_training: int = 1,
    allow_seen: bool = False,
    callback: EvaluationCallback | None = None,
    progress: bool = False,
    config: str | Path | None = None,
    **settings: Any,
) -> EvaluationResult:
    """Train with the schedule and with each baseline, and measure the test split after the last epoch of each training.

    schedule: a schedule, its file, or the name of a shipped one. data: a dataset's name, a folder, images in memory, or
    a pair (train, test) of torch Datasets or lists of (image, label), which are read once and fitted to image_size;
    None is what the schedule was searched on. against: the baselines: names in `hba.policy_evaluation.BASELINES`, whose
    `text` says what each stands for, schedules, schedule files, names of shipped schedules, or your own augmentations,
    as `hba.Augmentation` describes them. A baseline's name takes precedence over a file of that name.

    preset: a key of EVALUATION_PRESETS. settings: fields of EvaluationConfig; those that neither sets are as in the
    search. The setting spread, in logits, replaces the spread of every schedule and of the baselines made of the first
    one; 0 trains with the bare rows. To change one schedule alone, give what Schedule.with_spread returns.
    network: your own network instead of the setting `model`. Every training starts from a copy of it, so all seeds
    share the first weights and differ in batches and draws only: their spread is smaller than that of fresh networks.
    Frozen parameters stay frozen. For fresh weights, give a function from the seed to a network, such as
    `lambda seed: Net()`, for which PyTorch's default generator is seeded. With the setting `pretrained`, seeds share
    the first weights too, except those of a new head.
    out: a folder for results.json, which is written after each training. resume: continue the evaluation in `out` with
    the same settings, network and rows; more seeds, and more rows after the old ones, are allowed. jobs: trainings at a
    time. More than one run in processes of their own, which share PyTorch's threads; a script must then call this under
    `if __name__ == "__main__":`. None is one for each thread, on a GPU 1. With as many threads for each training, the
    numbers do not depend on jobs. cluster: the address of a Ray cluster, or `auto` for the one that this machine is in:
    one training at a time on each of its GPUs, or else CPUs; what a lost machine was training is trained again.
    gpus_per_training: GPUs, or CPUs, of a cluster that share each training. Within hba.distributed.joined, all
    processes share one training after the other, as in hba.search.
    allow_seen: also test on images that the search has seen, which is a SettingsError otherwise. progress: show a bar
    in a terminal or a notebook. config: the results.json of an earlier evaluation, or its folder. Its settings, but not
    its device and rows, take precedence over those of the search. Raises HbaError for what cannot work, DivergedError
    for a loss that is not finite.
    """
    callback = callback if callback is not None and is_first() else EvaluationCallback()
    check_executor(jobs, cluster, gpus_per_training)
    check_data(data, EvaluationData)
    if isinstance(network, nn.Module):
        share_tensors(network.state_dict().values())
    own_network = None if network is None else CustomNetwork.of(network)
    rows = named_rows(schedule, against)
    main = next(row for row in rows.values() if isinstance(row, Schedule))
    check_of_images(rows)
    given = settings
    if config is not None:
        settings = with_earlier(config, preset, data, settings, has_own_network=own_network is not None)
    settled = chosen(main, data, preset, settings, has_own_network=own_network is not None)
    used = settled.config
    if cluster is None:
        # Before images are read. A cluster has its own devices.
        local_device(used.device)
    start = used.network_start()
    check_weights(settled, main, start)
    everyone = row_configs(rows, main, used, own_network, start)
    if resume and out is None:
        raise SettingsError("resume needs out, the folder of the evaluation to resume")
    folder = Path(out) if out is not None and is_first() else None
    with rank0_only(run_lock(folder)), connected(cluster) as machines:
        resume = broadcast_from_rank0(
            lambda: resume or (folder is not None and (folder / RESULTS_NAME).exists() and is_restarted_in(folder))
        )
        stored = broadcast_from_rank0(lambda: _stored(folder, resume, used, everyone))
        data, searched, notes = _read_and_check(data, settled, rows, against, everyone, given, callback)
        for report in () if allow_seen else searched:
            report.check()
        run = _Evaluation(main, used, data, everyone, folder, stored, settled.inherited, searched, notes)
        run.check_processes_alike()
        executor = executor_for(data, used.device, run.n_trainings, jobs, machines, gpus_per_training)
        return _train_all(run, executor, callback)


def _read_and_check(
    source: object,
    settled: Chosen,
    rows: Mapping[str, Schedule | Make],
    against: Sequence[Baseline],
    everyone: Sequence[RowConfig],
    given: Mapping[str, Any],
    callback: EvaluationCallback,
) -> tuple[EvaluationData, tuple[LeakageReport, ...], tuple[str, ...]]:
    """The data, what the searches have seen of them, and notes on them; HbaError for what does not fit the data.

    source: the data as evaluate takes them. rows: by name. given: the settings that were given.
    """
    config, start = settled.config, everyone[0].start
    data = _loaded(source, config, callback)
    check_batch_size(given, len(data.train))
    if everyone[0].own_network is None:
        data = data.in_color()
    schedules = {name: row for name, row in rows.items() if isinstance(row, Schedule)}
    main = next(iter(schedules.values()))
    with single_process():
        _try_out(data, config, against, everyone, schedules)
        of_start = _notes_on_start(data, config, start)
    searched = leakage_reports(schedules, config, data, not isinstance(source, str | Path | None))
    of_data = (*data.facts, *filter(None, [error_note(data.train.labels)]))
    return data, searched, (*of_data, *of_start, *notes_on(main, config, searched))


def _loaded(data: object, config: EvaluationConfig, callback: EvaluationCallback) -> EvaluationData:
    if isinstance(data, EvaluationData):
        return data
    source = partial(as_evaluation_data, data) if is_dataset(data) else load_evaluation_data
    read = partial(source, config, callback.images_read)
    # Several downloads would write over each other.
    return rank0_first(read) if config.download else read()


def _notes_on_start(data: EvaluationData, config: EvaluationConfig, start: Start | None) -> tuple[str, ...]:
    """A note on pretrained weights, which are loaded to try them; SettingsError where they do not fit."""
    if start is None:
        return ()
    n_classes, side = len(data.class_names), network_input_size(data.train, config.baseline_augmentation())
    note = start.note(build_model(config.model, n_classes, 0, side, start, data.train.n_channels), n_classes)
    return (f"{note} Every training starts so, whatever its seed.",)


def _try_out(
    data: EvaluationData,
    config: EvaluationConfig,
    against: Sequence[Baseline],
    everyone: Sequence[RowConfig],
    schedules: Mapping[str, Schedule],
) -> None:
    """Find mistakes in the user's own parts before the first training, not after an hour of them."""
    if (own_network := everyone[0].own_network) is not None:
        side = network_input_size(data.train, config.baseline_augmentation())
        own_network.check_takes(data.train, side, len(data.class_names))
    for baseline in against:
        if not isinstance(baseline, str | Path | Schedule):
            try_out(baseline, data.train, config.epochs)
    check_rows_take(everyone, schedules, data.train.n_channels)
    check_networks_take(everyone, data)


def _stored(
    folder: Path | None, resume: bool, config: EvaluationConfig, everyone: Sequence[RowConfig]
) -> Results | None:
    """The evaluation to resume, if any; HbaError where it is another one."""
    if folder is None:
        return None
    path = folder / RESULTS_NAME
    if not resume:
        if path.exists():
            raise RunError(f"{path} exists already: add --resume to continue it, or choose another --out")
        return None
    if not path.exists():
        if (folder / TRAININGS_NAME).is_dir():
            # It was stopped in its first trainings.
            return None
        raise RunError(f"{folder} holds no evaluation to resume: there is no {RESULTS_NAME} in it")
    stored = read_results(path, "cannot be resumed", "; choose another --out")
    check_resumable(stored, config, everyone, folder)
    return stored


@dataclass(frozen=True)
class _Evaluation:
    """All that is known before the first training. data: where they were read. stored: the evaluation to resume."""

    schedule: Schedule
    config: EvaluationConfig
    data: EvaluationData
    everyone: tuple[RowConfig, ...]
    folder: Path | None
    stored: Results | None
    inherited: Mapping[str, Any]
    searched: tuple[LeakageReport, ...]
    notes: tuple[str, ...]

    @property
    def n_trainings(self) -> int:
        """Including those that have ended before."""
        return len(self.everyone) * self.config.seeds

    @property
    def is_whole(self) -> bool:
        """Whether all trainings have ended before."""
        names = [row.name for row in self.everyone]
        return self.stored is not None and self.stored.holds(names, self.config.training_seeds)

    def checkpoint_of(self, images: str, made_on: str, job: Job) -> TrainCheckpoint:
        """The checkpoint of a training in progress. Its name is a hash of all that decides the training's numbers.

        images: their fingerprint.
        """
        if self.folder is None:
            return TrainCheckpoint(None, "")
        parts = (*_identity(job.row), images, made_on, str(job.seed))
        # Processes on other machines begin in another folder.
        return TrainCheckpoint.in_folder(self.folder.absolute() / TRAININGS_NAME, parts)

    def check_processes_alike(self) -> None:
        """SettingsError where the processes of a torchrun computation would run different trainings."""
        if size() > 1:
            rows = json.dumps([*map(_identity, self.everyone), [*self.config.training_seeds]])
            check_alike({"training images": self.data.train.fingerprint(), "rows or settings": rows})


def _identity(row: RowConfig) -> tuple[str, ...]:
    """All that decides a row's numbers, but for images and hardware."""
    weights = None if row.start is None else row.start.pretrained.sha256
    settings = row.config.model_dump_json(exclude={*FREE_SETTINGS, "first_seed", "data", "device"})
    return settings, row.name, row.definition, str(row.network_definition), str(weights)


def _train_all(run: _Evaluation, executor: Executor, callback: EvaluationCallback) -> EvaluationResult:
    stored, data, folder = run.stored, run.data, run.folder
    if stored is not None and run.is_whole:
        environment: Mapping[str, Any] = stored.environment
    else:
        environment = executor.environment()
        data = data.to(executor.device) if isinstance(executor, SerialExecutor) else data
    # n_jobs of the executor: what is left of a resumed evaluation trains on as many threads as all of it would.
    made_by = {**environment, "jobs": executor.n_jobs}
    record = Record(run.everyone, run.config, data, made_by, folder, stored, run.searched)
    jobs = record.to_do()
    if stored and jobs:
        # Another kind of device rounds otherwise.
        check_kept("kind of device", torch.device(stored.device).type, executor.device.type, folder)
    if folder is not None:
        note_launch(folder)
    plan = _plan(run, len(jobs), executor)
    callback.planned(plan)
    estimate = TimeEstimate(plan.n_trainings * plan.steps_per_training, callback.estimated)

    def step_done() -> None:
        estimate.step_done()
        callback.step_done()

    made_on = f"{executor.device.type}, {executor.n_threads} threads, {executor.n_processes} processes"
    checkpoint_of = partial(run.checkpoint_of, record.training_fingerprint, made_on)
    with contextlib.closing(run_jobs(executor, jobs, data, step_done, checkpoint_of)) as finished:
        for job, (test, epochs) in finished:
            record.add(job, test)
            checkpoint_of(job).remove()
            if folder is not None:
                save_left_out(folder, data.left_out)
            callback.training_measured(job.row.name, job.seed, epochs, test)
            callback.training_done(job.row.name, job.seed, test.error_percent)
    if folder is not None:
        shutil.rmtree(folder / TRAININGS_NAME, ignore_errors=True)
    return _reported(record.result(), run, data, is_new=bool(jobs))


def _reported(result: EvaluationResult, run: _Evaluation, data: EvaluationData, *, is_new: bool) -> EvaluationResult:
    """The result with its report, where it has a folder. is_new: whether the results have changed."""
    if run.folder is None:
        return result
    if not is_new and is_reported(run.folder):
        return replace(result, report=run.folder / REPORT_NAME)
    evaluated = respread(run.schedule, run.config.spread)
    with single_process():
        report = report_at_the_end(run.folder, lambda: Samples.of(data.train, data.class_names), evaluated)
    return replace(result, report=report)


def _plan(run: _Evaluation, n_trainings: int, executor: Executor) -> EvaluationPlan:
    config, data, own_network = run.config, run.data, run.everyone[0].own_network
    return EvaluationPlan(
        config=config,
        model=config.model if own_network is None else own_network.name,
        device=executor.description,
        class_names=data.class_names,
        train_images=len(data.train),
        test_images=data.n_test,
        left_out=len(data.left_out),
        rows=tuple(row.name for row in run.everyone),
        n_trainings=n_trainings,
        n_kept=run.stored.n_trainings if run.stored else 0,
        steps_per_training=config.epochs * (len(data.train) // min(config.batch_size, len(data.train))),
        jobs=min(executor.n_jobs, max(1, n_trainings)),
        folder=run.folder,
        inherited=run.inherited,
        inherited_from=str(settings_of(run.schedule).get("data")),
        searched=run.searched,
        notes=run.notes,
    )
