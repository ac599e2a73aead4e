"""hba.auto: finds the best augmentation for a folder of images, and trains a network
with it.
"""

import contextlib
import dataclasses
import shlex
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

from hba.data.config import resolved_data, run_name
from hba.data.load import AnyDataset, is_pair, name_of_dataset
from hba.data.reading import LEFT_OUT_NAME
from hba.errors import HbaError, HbaWarning, RunError, SettingsError
from hba.policy.space import SearchSpace
from hba.policy_choice.callbacks import AutoCallback, AutoProgress
from hba.policy_choice.phases import PHASES
from hba.policy_choice.plan import Arguments, budget_of, options, plan_run
from hba.policy_choice.record import AutoRecord
from hba.policy_choice.rows import policy_of_row, row_without_contest
from hba.policy_choice.run import ONNX_SECONDS, AutoRun, seconds_for_onnx
from hba.policy_evaluation.train import write_policy
from hba.results.auto_answer import auto_answer
from hba.results.evaluation import EvaluationResult
from hba.results.report_hook import write_report
from hba.results.run import AUTO_NAME, TEST_FOLDER
from hba.schedule.library import POLICY_NAME
from hba.schedule.schedule import Schedule
from hba.training.onnx_file import ONNX_NAME, write_onnx
from hba.training.trained_network import INFO_NAME, NETWORK_NAME, load_network
from hba.utils.devices import explained_memory_errors, own_state
from hba.utils.files import RUNS, copy_file, new_folder, reason_of, resumes, run_lock
from hba.utils.processes import end_if_importing_main
from hba.utils.progress import shows_progress
from hba.utils.settings import words
from hba.utils.text import duration

PREDICTIONS = 20
"""Of one image each, of which the median time is told."""


@dataclass(frozen=True)
class AutoResult:
    """The result of a run."""

    answer: str
    """What to use, and how sure that is."""
    policy: Schedule = field(repr=False)
    """The best row, as a schedule."""
    chosen: str
    """Its name; `search` is the policy of the search."""
    results: EvaluationResult | None = field(repr=False)
    """The test; None before its first training."""
    finished: bool
    """Whether all phases have ended."""
    folder: Path
    """Contains policy.json, network.pt, network.json, pipeline.py and report.html, and
    the files of the phases.
    """
    record: AutoRecord = field(repr=False)
    """The plan and the decisions of the run."""
    report: Path | None = None
    """The page; None if it could not be written."""


@shows_progress(AutoProgress)
@explained_memory_errors()
@own_state()
def auto(
    data: str | Path | tuple[AnyDataset, AnyDataset] | None = None,
    *,
    budget_seconds: float | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    network: nn.Module | None = None,
    space: SearchSpace | str | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    against: str | Sequence[str] | None = None,
    callback: AutoCallback | None = None,
    progress: bool = False,
    **settings: Any,
) -> AutoResult:
    """Find an augmentation, test it, and train a network with it, within a time budget.

    It plans networks, image sizes and epochs that fit the budget, and trains them to
    choose one. It searches for a policy (`hba.search`). It compares whole trainings
    with this policy, with recipes, with RandAugment and without augmentation on
    validation images, chooses the best, and measures it on test images next to none and
    RandAugment (`hba.evaluate`). So the test images have no influence on the choice.

    A KeyboardInterrupt ends the current phase; answer and `out` have the results so
    far.

    Args:
        data: A folder of labelled images or another kind of data in files, the name of
            a data set, or a pair (train, test) of torch Datasets or lists of (image,
            label); None is the example digits.
        budget_seconds: The time of the run, by default 20 minutes on a CPU, 10 on a
            GPU.
        out: The folder of the run, by default a new one in runs/.
        resume: Continue the run in `out`, for whatever reason it stopped; you may give
            another budget_seconds, and data that have moved. A run that has ended only
            shows its answer again. A run that has no plan yet begins again with the
            given arguments.
        network: Your own network, which is copied.
        space: A search space, or the name of one, as in hba.search.
        jobs: Trainings at a time, as in hba.evaluate. None means one for each thread of
            a CPU, so a script must call this function under `if __name__ ==
            "__main__":`.
        cluster: The address of a Ray cluster, as in hba.evaluate.
        against: Names or files to compare the best row with in the test.
        callback: Called during the run.
        progress: Show a bar in a terminal or a notebook.
        settings: Fields of SearchConfig, of its algorithm and of EvaluationConfig,
            which are then not chosen.

    Returns:
        The answer, the chosen policy, the results of the test, and the folder.

    Raises:
        HbaError: For what cannot work.
    """
    end_if_importing_main()
    callback = callback or AutoCallback()
    if resume and out is None:
        raise SettingsError("resume needs out, the folder of the run to resume")
    arguments = _arguments(
        data, budget_seconds, jobs, network, space, against, settings
    )
    if out is not None:
        folder = Path(out)
    else:
        folder = new_folder(RUNS, run_name(arguments.data or "digits"))
    with run_lock(folder):
        run = AutoRun(
            folder,
            _begin_or_resume(folder, arguments, callback, resume=resume),
            callback,
            PHASES,
            network=network,
            space=arguments.space,
            cluster=cluster,
            datasets=arguments.datasets,
        )
        with _saved_time(run):
            run.do_phases()
        return finished(run)


def _arguments(
    data: Any,
    budget_seconds: float | None,
    jobs: int | None,
    network: nn.Module | None,
    space: SearchSpace | str | None,
    against: str | Sequence[str] | None,
    settings: Mapping[str, Any],
) -> Arguments:
    """The arguments of `auto`, with names among the settings."""
    datasets: Any = data if is_pair(data) else None
    if datasets is None and not isinstance(data, str | Path | None):
        raise SettingsError(
            "data must be a folder, a name, or a pair (train, test), got"
            f" {type(data).__name__}"
        )
    place = None if data is None else str(data)
    if datasets:
        place = name_of_dataset(data, settings)
    named = dict(settings)
    if isinstance(space, str):
        named["space"] = space
    if against is not None:
        named["against"] = words(against)
    return Arguments(
        place,
        budget_seconds,
        jobs,
        named,
        network,
        space if isinstance(space, SearchSpace) else None,
        datasets,
    )


def _begin_or_resume(
    folder: Path, arguments: Arguments, callback: AutoCallback, *, resume: bool
) -> AutoRecord:
    """The record of a new run, or of the one in the folder."""
    is_planned = (folder / AUTO_NAME).exists()
    if resume and arguments.data is None and not is_planned:
        raise RunError(
            f"{folder} has no plan to resume; begin the run again, with its data and"
            " options"
        )
    if resumes(resume, folder / AUTO_NAME):
        record = _resumed(folder, arguments)
        if _is_ended(record):
            text = "has ended, and only shows its answer; for a new run, use"
            callback.said(f"The run in {folder} {text}: {record.command}")
        return record
    if is_planned:
        raise RunError(
            f"{folder} already holds a run: add --resume to resume it, or choose"
            " another --out"
        )
    record = plan_run(arguments, callback.said)
    record.save(folder)
    return record


def _is_ended(record: AutoRecord) -> bool:
    """Whether all phases have ended, so that a resumed run trains nothing."""
    return {phase.name for phase in PHASES} <= {*record.ended}


@contextlib.contextmanager
def _saved_time(run: AutoRun) -> Iterator[None]:
    """Save the spent time of a run every few seconds, in another thread."""
    is_over = threading.Event()
    saver = threading.Thread(target=run.save_time, args=(is_over,), daemon=True)
    saver.start()
    try:
        yield
    finally:
        is_over.set()
        # A later run in the folder must not meet a save that has begun.
        saver.join()


def _resumed(folder: Path, arguments: Arguments) -> AutoRecord:
    """The record of a run to resume, with another place of its data or budget if given.

    Raises RunError if these are given for a run that has ended, and SettingsError for
    other settings and another number of jobs.
    """
    before = AutoRecord.read(folder)
    if changed := _changed_settings(arguments.settings, before):
        raise SettingsError(
            f"a resumed run keeps its settings; omit {changed[0]}, or give it as before"
        )
    jobs = arguments.jobs
    if jobs not in (None, before.n_jobs):
        raise SettingsError(
            f"a resumed run keeps its jobs, {before.n_jobs}, but got {jobs}; omit jobs"
        )
    record = before
    if arguments.data is not None:
        data = resolved_data({"data": arguments.data})["data"]
        record = record.at_data(str(data))
    if arguments.budget_seconds not in (None, before.budget_seconds):
        # Without a default budget, the kind of device does not matter.
        budget = budget_of(
            arguments.budget_seconds, torch.device("cpu"), is_example=False
        )
        record = record.with_budget(*budget)
    if _is_ended(before) and record != before:
        raise RunError(
            f"the run in {folder} has ended, so it can use neither more time nor other"
            f" data; for a new run, use: {record.command}"
        )
    return record


def _changed_settings(settings: Mapping[str, Any], before: AutoRecord) -> list[str]:
    """Names of the settings that the command of the run does not have."""
    words = shlex.split(before.command)

    def has(option: Sequence[str]) -> bool:
        return any(
            words[place : place + len(option)] == [*option]
            for place in range(len(words))
        )

    return sorted(
        name
        for name, value in settings.items()
        if not has(options(None, {name: value}))
    )


def finished(run: AutoRun) -> AutoResult:
    """Write the files of the run, and return its result.

    The answer comes first. Ctrl-C, a full disk or another problem with one of the files
    ends in a warning, and changes nothing else.
    """
    folder = run.folder
    results = run.read_results()
    searched = run.read_found()
    chosen = run.record.chosen or row_without_contest(searched)
    policy = _policy(chosen, searched)
    content = {**run.record.model_dump(), "chosen": chosen}
    answer = auto_answer(content, results, policy, folder).sentence

    def save_policy() -> None:
        if note := write_policy(policy, folder):
            run.note_sentence(note)

    def copy_network() -> None:
        for name in (LEFT_OUT_NAME, NETWORK_NAME, INFO_NAME):
            source = folder / TEST_FOLDER / name
            if source.exists():
                copy_file(source, folder / name)
        if run.record.image_ms is None:
            run.note(image_ms=_milliseconds(folder))

    run.callback.answered(answer)
    report: list[Path] = []
    _write(AUTO_NAME, lambda: run.note(chosen=chosen), folder)
    _write(POLICY_NAME, save_policy, folder)
    _write(NETWORK_NAME, copy_network, folder)
    _write("report", lambda: report.append(write_report(folder)), folder)
    _write(ONNX_NAME, lambda: _write_onnx(run), folder)
    is_finished = _is_ended(run.record)
    page = report[0] if report else None
    return AutoResult(
        answer, policy, chosen, results, is_finished, folder, run.record, page
    )


def _write(what: str, write: Callable[[], None], folder: Path) -> None:
    """Call a function that writes a file; an HbaWarning if it fails, because the run
    may have taken hours.
    """
    try:
        write()
    except KeyboardInterrupt:
        warnings.warn(
            f"{what} was not written, because of Ctrl-C; add --resume to write it",
            HbaWarning,
            stacklevel=4,
        )
    except Exception as error:
        text = (
            f"{what} was not written: {reason_of(error)}; add --resume to write it. All"
            f" else is in {folder}"
        )
        warnings.warn(text, HbaWarning, stacklevel=4)


def _write_onnx(run: AutoRun) -> None:
    """Write network.onnx if the budget has time for it."""
    folder = run.folder
    budget = run.record.budget_seconds
    if (
        not seconds_for_onnx(budget)
        or not (folder / NETWORK_NAME).exists()
        or (folder / ONNX_NAME).exists()
    ):
        return
    run.callback.said(f"Writing {ONNX_NAME}, about {duration(ONNX_SECONDS)}")
    if note := write_onnx(folder):
        run.note_sentence(note)


def _milliseconds(folder: Path) -> float | None:
    """The time in which the kept network predicts one image on this CPU; None if there
    is none that can be loaded.
    """
    try:
        network = load_network(folder)
    except HbaError:
        return None
    info = network.info
    seconds = list[float]()
    image = torch.zeros(
        1, info.channels, info.image_size, info.image_size, dtype=torch.uint8
    )
    for _ in range(PREDICTIONS):
        began = time.perf_counter()
        network.predict(image)
        seconds.append(time.perf_counter() - began)
    return round(1000 * median(seconds), 2)


def _policy(chosen: str, searched: Schedule | None) -> Schedule:
    """The policy of the best row. A recipe gets the settings and the images of the run,
    like the policy of a search.
    """
    policy = policy_of_row(chosen, searched)
    if searched is None or policy is searched:
        return policy
    names = (
        "dataset",
        "class_names",
        "image_size",
        "model",
        "train_images",
        "val_images",
        "images_seen",
        "settings",
    )
    of_run = {
        name: searched.provenance[name] for name in names if name in searched.provenance
    }
    # Trainings fill what a recipe uncovers with the mean color of the images, as the
    # search does.
    return dataclasses.replace(
        policy.for_channels(len(searched.fill)),
        fill=searched.fill,
        provenance={**of_run, **policy.provenance},
    )
