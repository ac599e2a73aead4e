"""Policy evaluation from the arguments to the table."""

import contextlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hba.config.evaluation import EvaluationConfig
from hba.data.folder import check_beside
from hba.data.images import EvaluationData
from hba.data.labels import error_note
from hba.data.load import AnyDataset, as_evaluation_data, check_data, is_dataset, load_evaluation_data, notes_on_classes
from hba.data.reading import save_left_out
from hba.distributed.collectives import (
    broadcast_from_rank0,
    is_restarted_in,
    local_device,
    note_launch,
    rank0_first,
    rank0_only,
    share_tensors,
)
from hba.distributed.process_info import is_first, single_process
from hba.errors import RunError, SettingsError
from hba.executors.cluster import connected
from hba.executors.executor import Executor, SerialExecutor
from hba.models import Start, build_model
from hba.policy_evaluation.callbacks import EvaluationCallback
from hba.policy_evaluation.contenders import (
    NONE,
    Contender,
    Rival,
    check_networks_take,
    check_of_images,
    check_rows_take,
    contenders,
    named_rows,
)
from hba.policy_evaluation.estimate import TimeEstimate
from hba.policy_evaluation.jobs import check_executor, executor_for, run_jobs
from hba.policy_evaluation.own_rivals import try_out
from hba.policy_evaluation.plan import EvaluationPlan
from hba.policy_evaluation.progress import EvaluationProgress
from hba.policy_evaluation.record import Record
from hba.policy_evaluation.result import EvaluationResult
from hba.policy_evaluation.rivals import respread
from hba.policy_evaluation.searched import notes_on, searched_rows, settings_of
from hba.policy_evaluation.settings import check_config, check_weights, chosen, with_earlier
from hba.policy_evaluation.stored import (
    check_device,
    check_network,
    check_pretrained,
    check_rows,
    check_settings,
    results_to_resume,
)
from hba.policy_evaluation.task import Task, definition_of
from hba.preprocessing.preprocessing import network_input_size
from hba.report.page import REPORT_NAME, is_reported, report_at_the_end
from hba.report.results import RESULTS_NAME, Results
from hba.report.samples import Samples
from hba.schedule.schedule import Schedule
from hba.training.amp import slow_note
from hba.training.checkpoint import TRAININGS_NAME
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
    against: Sequence[Rival] = (NONE,),
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
    """Train with the schedule and with each of `against`, and measure the test split after the last epoch of each.

    schedule: a schedule, its file, or the name of a shipped one. data: a dataset's name, a folder, images in memory, or
    a pair (train, test) of torch Datasets or lists of (image, label), which are read once and fitted to image_size;
    None is what the schedule was searched on. against: the reserved names of `hba.policy_evaluation.RIVALS`, whose
    `text` says what each stands for, schedules, schedule files, names of shipped schedules, or augmentations of your
    own, which `hba.Augmentation` describes; a reserved name comes before a file that is called so.

    preset: a key of EVALUATION_PRESETS. settings: fields of EvaluationConfig; what neither sets is as in the search.
    One of them, spread, is a number of logits in the place of each schedule's own spread, and so of that of the rows
    made of the first one; 0 gives the bare rows. Give what Schedule.with_spread returns for one row alone.
    network: a network of your own instead of the setting `model`. Every training starts from a copy of it: all seeds
    then share the first weights, and differ in their batches and draws only, so the spread over seeds is smaller than
    that of fresh networks. Frozen parameters stay as they are. For fresh weights, give a function from the seed to a
    network, such as `lambda seed: Net()`: PyTorch's default generator is seeded for it. With the setting `pretrained`
    seeds share the first weights too, but a new head is the seed's.
    out: a folder for results.json, which is written after each training, so an interrupted evaluation keeps what it
    has. resume: continue the evaluation in `out`, with the same settings, network and rows; there may be more seeds,
    and more rows after the old ones. jobs: how many trainings run at a time, more than one in processes of their own,
    which share PyTorch's threads: a script then calls this under `if __name__ == "__main__":`. None is one for each
    thread, on a GPU 1. With as many threads for each training, the numbers do not depend on it. cluster: the address of
    a Ray cluster, `auto` for the one that this machine is in: as many trainings at a time as its machines have GPUs, or
    else CPUs, each on one; what a lost machine was training is trained again. gpus_per_training: GPUs, or CPUs, of a
    cluster that share each training. Inside of hba.distributed.joined, processes share one training after the other,
    as hba.search says. allow_seen: test also on images that a search has seen, which is otherwise a SettingsError.
    progress: show a bar in a terminal or a notebook. config: the results.json of an earlier evaluation, or its folder,
    whose settings stand above those of the search and below those given; all but its device, and not its rows. Raises
    HbaError for what cannot work, DivergedError for a loss that is not finite.
    """
    callback = callback if callback is not None and is_first() else EvaluationCallback()
    check_executor(jobs, cluster, gpus_per_training)
    check_data(data, EvaluationData, settings.get("data_root"))
    own_network = None if network is None else CustomNetwork.of(_of_first(network))
    rows = named_rows(schedule, against)
    main = next(row for row in rows.values() if isinstance(row, Schedule))
    check_of_images(rows)
    given = settings
    if config is not None:
        check_config(preset)
        settings = with_earlier(config, data, settings, has_own_network=own_network is not None)
    settled = chosen(main, data, preset, settings, has_own_network=own_network is not None)
    used = settled.config
    if cluster is None:
        # Before images are read. A cluster has its own devices.
        local_device(used.device)
    start = used.network_start()
    check_weights(settled, main, start)
    everyone = contenders(rows, main, used, own_network, start)
    folder = _folder_of(out, resume=resume)
    is_whole = broadcast_from_rank0(lambda: resume and _is_whole(folder, used, everyone))
    claim = contextlib.nullcontext() if is_whole else rank0_only(run_lock(folder))
    with claim, connected(None if is_whole else cluster) as machines:
        if broadcast_from_rank0(
            lambda: folder is not None and (folder / RESULTS_NAME).exists() and is_restarted_in(folder)
        ):
            resume = True
        stored = broadcast_from_rank0(lambda: _stored(folder, resume, used, everyone))
        is_in_memory = not isinstance(data, str | Path | None)
        data = _loaded(data, used, callback)
        check_batch_size(given, len(data.train))
        if own_network is None:
            data = data.in_color()
        schedules = {name: row for name, row in rows.items() if isinstance(row, Schedule)}
        with single_process():
            _try_out(data, used, against, everyone, schedules)
            of_start = _of_start(data, used, start)
        searched = searched_rows(schedules, used, data, is_in_memory)
        for row in () if allow_seen else searched:
            row.check()
        its_data = str(settings_of(main).get("data"))
        notes = (*_of_data(data), *of_start, *notes_on(main, used, searched))
        task = Task(main, used, data, everyone, folder, stored, settled.inherited, its_data, searched, notes)
        task.check_processes_alike()
        if stored is not None and task.is_whole:
            # Nothing is trained, so its device need not be on this machine.
            executor: Executor = SerialExecutor(torch.device(stored.device), stored.jobs or 1)
        else:
            executor = executor_for(data, used.device, task.n_trainings, jobs, machines, gpus_per_training)
        return _train_all(task, executor, callback)


def _folder_of(out: str | Path | None, *, resume: bool) -> Path | None:
    """The first of several processes has it."""
    if resume and out is None:
        raise SettingsError("resume needs out, the folder of the evaluation to resume")
    return Path(out) if out is not None and is_first() else None


def _of_first(network: nn.Module | Callable[[int], nn.Module]) -> nn.Module | Callable[[int], nn.Module]:
    """With the weights that it has in the first of several processes."""
    if isinstance(network, nn.Module):
        share_tensors(network.state_dict().values())
    return network


def _loaded(data: object, config: EvaluationConfig, callback: EvaluationCallback) -> EvaluationData:
    """data: as evaluate takes them."""
    if isinstance(data, EvaluationData):
        return data
    source = partial(as_evaluation_data, data) if is_dataset(data) else load_evaluation_data
    read = partial(source, config, callback.images_read)
    # Several downloads would write over each other.
    return rank0_first(read) if config.download else read()


def _of_data(data: EvaluationData) -> tuple[str, ...]:
    """What a person should know of how the images were read."""
    return *data.facts, *notes_on_classes(data), *filter(None, [error_note(data.train.labels)])


def _of_start(data: EvaluationData, config: EvaluationConfig, start: Start | None) -> tuple[str, ...]:
    """On the weights that all trainings begin with, tried out before the first; SettingsError where they do not fit."""
    if start is None:
        return ()
    n_classes, size = len(data.class_names), network_input_size(data.train, config.baseline_augmentation())
    note = start.note(build_model(config.model, n_classes, 0, size, start, data.train.n_channels), n_classes)
    return (f"{note} Every training starts so, whatever its seed.",)


def _try_out(
    data: EvaluationData,
    config: EvaluationConfig,
    against: Sequence[Rival],
    everyone: Sequence[Contender],
    schedules: Mapping[str, Schedule],
) -> None:
    """What the user brought: an hour of trainings should not end with a mistake in it."""
    if (own_network := everyone[0].own_network) is not None:
        size = network_input_size(data.train, config.baseline_augmentation())
        own_network.check_takes(data.train, size, len(data.class_names))
    for rival in against:
        if not isinstance(rival, str | Path | Schedule):
            try_out(rival, data.train, config.epochs)
    check_rows_take(everyone, schedules, data.train.n_channels)
    check_networks_take(everyone, data)


def _stored(
    folder: Path | None, resume: bool, config: EvaluationConfig, everyone: Sequence[Contender]
) -> Results | None:
    """The evaluation to resume, if any; refused where this is another one."""
    if folder is None:
        return None
    path = folder / RESULTS_NAME
    if not resume:
        check_beside(folder, config.data)
        if path.exists():
            raise RunError(f"{path} exists already: add --resume to continue it, or choose another --out")
        return None
    if not path.exists() and (folder / TRAININGS_NAME).is_dir():
        # It was stopped in its first trainings.
        return None
    stored = results_to_resume(path)
    check_network(stored, definition_of(everyone), folder)
    start = everyone[0].start
    check_pretrained(stored, None if start is None else start.pretrained.sha256, folder)
    check_settings(stored, config, folder)
    check_rows(stored, everyone, folder)
    return stored


def _is_whole(folder: Path | None, config: EvaluationConfig, everyone: Sequence[Contender]) -> bool:
    """Whether nothing is left to do in a folder, which then need not be writable: all is trained and reported."""
    if folder is None or not (folder / RESULTS_NAME).exists():
        return False
    stored = results_to_resume(folder / RESULTS_NAME)
    return stored.holds([contender.name for contender in everyone], config.training_seeds) and is_reported(folder)


def _train_all(task: Task, executor: Executor, callback: EvaluationCallback) -> EvaluationResult:
    stored, data = task.stored, task.data
    if stored is not None and task.is_whole:
        environment: Mapping[str, Any] = stored.environment
    else:
        environment = executor.environment()
        data = data.to(executor.device) if isinstance(executor, SerialExecutor) else data
    # What is left of a resumed evaluation trains on as many threads as if it had never been interrupted.
    made_by = {**environment, "jobs": executor.n_jobs, "levels": data.levels}
    record = Record(task.everyone, task.config, data, made_by, task.folder, stored, task.searched, task.own_network)
    trainings = record.to_do()
    if stored and trainings:
        check_device(stored, executor.device, task.folder)
    if task.folder is not None:
        note_launch(task.folder)
    plan = _plan(task, len(trainings), executor)
    callback.planned(plan)
    estimate = TimeEstimate(plan.n_trainings * plan.steps_per_training, callback.estimated)

    def step_done() -> None:
        estimate.step_done()
        callback.step_done()

    made_on = f"{executor.device.type}, {executor.n_threads} threads, {executor.n_processes} processes"
    saves_of = partial(task.saves_of, record.training_fingerprint, made_on)
    task.tell_of_other_saves([saves_of(training) for training in trainings])
    with contextlib.closing(run_jobs(executor, trainings, data, step_done, saves_of)) as finished:
        for training, (test, epochs) in finished:
            record.add(training, test)
            saves_of(training).remove()
            if task.folder is not None:
                save_left_out(task.folder, data.left_out)
            callback.training_measured(training.contender.name, training.seed, epochs, test)
            callback.training_done(training.contender.name, training.seed, test.error_percent)
    if task.folder is not None:
        # All have ended.
        shutil.rmtree(task.folder / TRAININGS_NAME, ignore_errors=True)
    return _reported(record.result(), task, data, is_new=bool(trainings))


def _reported(result: EvaluationResult, task: Task, data: EvaluationData, *, is_new: bool) -> EvaluationResult:
    """With its report, where it has a folder. is_new: whether a training has ended since it was last written."""
    if task.folder is None:
        return result
    if not is_new and is_reported(task.folder):
        return replace(result, report=task.folder / REPORT_NAME)
    evaluated = respread(task.schedule, task.config.spread)
    with single_process():
        report = report_at_the_end(task.folder, lambda: Samples.of(data.train, data.class_names), evaluated)
    return replace(result, report=report)


def _plan(task: Task, n_trainings: int, executor: Executor) -> EvaluationPlan:
    config, data, own_network = task.config, task.data, task.everyone[0].own_network
    slow = executor.call(slow_note, executor.device) if config.fast and not task.is_whole else None
    return EvaluationPlan(
        config=config,
        model=config.model if own_network is None else own_network.name,
        device=executor.description,
        class_names=data.class_names,
        train_images=len(data.train),
        test_images=data.n_test,
        left_out=len(data.left_out),
        rows=tuple(contender.name for contender in task.everyone),
        n_trainings=n_trainings,
        n_kept=task.stored.n_trainings if task.stored else 0,
        steps_per_training=config.epochs * (len(data.train) // min(config.batch_size, len(data.train))),
        jobs=min(executor.n_jobs, max(1, n_trainings)),
        folder=task.folder,
        inherited=task.inherited,
        inherited_from=task.inherited_from,
        searched=task.searched,
        notes=(*task.notes, *filter(None, [slow])),
    )
