"""Policy evaluation from the arguments to the table."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from hba.config import EvaluationConfig, find_device
from hba.data.left_out import save_left_out
from hba.data.load import EvaluationData, check_data, load_evaluation_data
from hba.data.preprocessing import network_input_size
from hba.errors import RunError, SettingsError
from hba.evaluation.contenders import NONE, Contender, contenders, named_rows
from hba.evaluation.observer import EvaluationObserver
from hba.evaluation.processes import number_of_jobs, side_by_side
from hba.evaluation.progress import EvaluationProgress
from hba.evaluation.record import Record
from hba.evaluation.result import RESULTS_NAME, EvaluationResult
from hba.evaluation.stored import StoredResults, check_device, check_rows, check_settings, read_results
from hba.evaluation.trainings import Training, one_by_one
from hba.progress import shows_progress
from hba.provenance import environment
from hba.schedule import Schedule
from hba.validation import check_batch_size


@shows_progress(EvaluationProgress)
def evaluate(
    schedule: Schedule | str | Path,
    data: str | Path | EvaluationData | None = None,
    *,
    against: Sequence[str] = (NONE,),
    preset: str | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    jobs: int | None = 1,
    observer: EvaluationObserver | None = None,
    progress: bool = False,
    **settings: Any,
) -> EvaluationResult:
    """Train with the schedule and with each of `against`, and measure the test split after the last epoch of each.

    schedule: a schedule, its file, or the name of a shipped one. data: a dataset's name, a folder, or images in
    memory; None is what the schedule was searched on. against: the reserved names of `hba.evaluation.RIVALS`, schedule
    files, or names of shipped schedules; a reserved name comes before a file that is called so.

        none            the baseline augmentation alone
        cutout          the baseline augmentation and Cutout
        random          where the search of the schedule began, throughout; the middle where that is not known
        middle          the schedule's search space, all probabilities 0.5, all magnitudes in the middle
        shuffled        the schedule with its curves handed to other operations, made as strong as the schedule; seed s
                        uses permutation s mod 10 of ten
        static, final   the schedule's mean over its epochs, its last epoch; throughout
        randaugment, trivialaugment, autoaugment   torchvision's, with their defaults

    preset: a key of EVALUATION_PRESETS. settings: fields of EvaluationConfig; what neither sets is as in the search.
    out: a folder for results.json, which is written after each training, so that an interrupted evaluation keeps what
    it has. resume: go on with the evaluation in `out`; with the same settings and rows, but for more seeds, and more
    rows behind them. jobs: how many trainings run at a time, more than one in processes of their own, which share
    PyTorch's threads: a script then calls this under `if __name__ == "__main__":`. None is one for each thread, on a
    GPU 1. With as many threads for each training, the numbers do not depend on it. progress: show a bar in a terminal
    or a notebook.
    """
    observer = observer or EvaluationObserver()
    check_data(data, EvaluationData, settings.get("data_root"))
    rows = named_rows(schedule, against)
    main = next(row for row in rows.values() if isinstance(row, Schedule))
    config = _config(main, data, preset, settings)
    everyone = contenders(rows, main, config)
    folder = None if out is None else Path(out)
    stored = _stored(folder, resume, config, everyone)
    if not isinstance(data, EvaluationData):
        data = load_evaluation_data(config, observer.images_read)
    check_batch_size(settings, len(data.train))
    data = data.in_color()
    observer.data_ready(len(data.train), data.n_test, len(data.class_names), len(data.train.skipped))
    for fact in data.facts:
        observer.noted(fact)
    return _train_all(config, data, everyone, folder, stored, jobs, observer)


def _config(
    schedule: Schedule, data: str | Path | EvaluationData | None, preset: str | None, settings: Mapping[str, Any]
) -> EvaluationConfig:
    """The settings given here, of the preset, and of the search."""
    if data is not None:
        settings = {**settings, "data": data.name if isinstance(data, EvaluationData) else data}
    searched = schedule.provenance.get("settings")
    searched = searched if isinstance(searched, dict) else {}
    if data is None and preset is None and schedule.provenance and "data" not in searched:
        raise SettingsError("the schedule does not tell what it was searched on: name the data to evaluate it on")
    config = EvaluationConfig.like_search(searched, settings, preset)
    if isinstance(data, EvaluationData) and "image_size" not in settings:
        size = network_input_size(data.train, config.baseline_augmentation())
        config = EvaluationConfig.like_search(searched, {**settings, "image_size": size}, preset)
    return config


def _stored(
    folder: Path | None, resume: bool, config: EvaluationConfig, everyone: Sequence[Contender]
) -> StoredResults | None:
    """The evaluation to go on with, if any; refused where this is another one."""
    if folder is None:
        if resume:
            raise SettingsError("resume needs out, the folder of the evaluation to go on with")
        return None
    path = folder / RESULTS_NAME
    if not resume:
        if path.exists():
            raise RunError(f"{path} is there already: add --resume to go on with it, or choose another --out")
        return None
    stored = read_results(path)
    check_settings(stored, config, folder)
    check_rows(stored, everyone, folder)
    return stored


def _train_all(
    config: EvaluationConfig,
    data: EvaluationData,
    everyone: Sequence[Contender],
    folder: Path | None,
    stored: StoredResults | None,
    jobs: int | None,
    observer: EvaluationObserver,
) -> EvaluationResult:
    device = find_device(config.device)
    if stored:
        check_device(stored, device, folder)
    # What is left of a resumed evaluation trains on as many threads as if it had never been interrupted.
    n_jobs = number_of_jobs(jobs, len(everyone) * config.seeds, data, device)
    n_threads = max(1, torch.get_num_threads() // n_jobs)
    # Each process moves the images to the device by itself.
    data = data.to(device) if n_jobs == 1 else data
    made_by = {**environment(device), "n_threads": n_threads, "jobs": n_jobs, "levels": data.levels}
    record = Record(everyone, config, data, made_by, folder, stored)
    if stored:
        observer.resumed(stored.n_trainings)
    trainings: list[Training] = record.to_do()
    steps_per_epoch = len(data.train) // min(config.batch_size, len(data.train))
    observer.started(config, len(trainings), config.epochs * steps_per_epoch)
    finished = (
        one_by_one(trainings, data, observer.step_done)
        if n_jobs == 1
        else side_by_side(trainings, data, device, min(n_jobs, len(trainings)), n_threads, observer.step_done)
    )
    with contextlib.closing(finished):
        for training, test_error_percent in finished:
            record.add(training, test_error_percent)
            if folder is not None:
                save_left_out(folder, data.left_out)
            observer.training_done(training.contender.name, training.seed, test_error_percent)
    return record.result()
