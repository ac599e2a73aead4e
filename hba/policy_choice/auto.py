"""hba.auto: finds the best augmentation for a folder of images, and trains a network with it."""

import dataclasses
import shutil
import threading
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

from hba.data.config import resolved_data, run_name
from hba.data.load import AnyDataset, is_pair, name_of_dataset
from hba.data.reading import LEFT_OUT_NAME
from hba.distributed.process_info import size
from hba.errors import HbaError, HbaWarning, RunError, SettingsError
from hba.policy.space import SearchSpace
from hba.policy_choice.callbacks import AutoCallback, AutoProgress
from hba.policy_choice.phases import AutoRun
from hba.policy_choice.plan import budget_of, planned
from hba.policy_choice.record import PHASES, AutoRecord
from hba.policy_choice.rows import FOUND, RANDAUGMENT
from hba.policy_evaluation.train import write_policy
from hba.policy_search.search import custom_components
from hba.report.auto_answer import auto_answer
from hba.report.page import write_report
from hba.report.results import EvaluationResult
from hba.report.run import AUTO_NAME, TEST_FOLDER
from hba.schedule.recipes import RECIPES
from hba.schedule.schedule import Schedule
from hba.training.onnx_file import write_onnx
from hba.training.trained_network import INFO_NAME, NETWORK_NAME, load_network
from hba.utils.devices import explained_memory_errors, own_state
from hba.utils.files import RUNS, new_folder, reason_of, resumes, run_lock
from hba.utils.progress import shows_progress
from hba.utils.settings import words

PREDICTIONS = 20
"""Of one image each, of which the median time is told."""


@dataclass(frozen=True)
class AutoResult:
    """The result of a run.

    answer: what to use, and how sure that is. policy: the best row, as a schedule. chosen: its name; `search` is the
    policy of the search. results: the test; None before its first training. finished: whether all phases have ended.
    folder: contains policy.json, network.pt, network.json, pipeline.py and report.html, and the files of the phases.
    """

    answer: str
    policy: Schedule = field(repr=False)
    chosen: str
    results: EvaluationResult | None = field(repr=False)
    finished: bool
    folder: Path
    record: AutoRecord = field(repr=False)
    report: Path | None = None


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

    It plans networks, image sizes and epochs that fit the budget, and trains them to choose one. With ten minutes or
    more, it searches for a policy (`hba.search`). It compares whole trainings with this policy, with recipes, with
    RandAugment and without augmentation on validation images, chooses the best, and measures it on test images next to
    none and RandAugment (`hba.evaluate`). So the test images have no influence on the choice.

    data: a folder of labelled images or another kind of data in files, the name of a data set, or a pair (train, test)
    of torch Datasets or lists of (image, label); None is the example digits. budget_seconds: by default 20 minutes on a
    CPU, 10 on a GPU. out: the folder of the run, by default a new one in runs/. resume: continue the run in `out`, for
    whatever reason it stopped; you may give another budget_seconds, and data that have moved. A run that has ended only
    shows its answer again. A run that has no plan yet begins again with the given arguments. network: your own network,
    which is copied. space, jobs, cluster: as in hba.search and hba.evaluate; jobs None means one for each thread of a
    CPU. against: names or files to compare the best row with in the test. settings: fields of SearchConfig, of its
    algorithm and of EvaluationConfig, which are then not chosen.

    A KeyboardInterrupt ends the current phase; answer and `out` have the results so far. HbaError: what cannot work.
    """
    callback = callback or AutoCallback()
    if size() > 1:
        raise SettingsError("hba auto runs in one process, and starts others itself; omit torchrun")
    if resume and out is None:
        raise SettingsError("resume needs out, the folder of the run to resume")
    datasets: Any = data if is_pair(data) else None
    if datasets is None and not isinstance(data, str | Path | None):
        raise SettingsError(f"data must be a folder, a name, or a pair (train, test), got {type(data).__name__}")
    given = {**settings, **({"space": space} if isinstance(space, str) else {})}
    given |= {} if against is None else {"against": words(against)}
    place = None if data is None else name_of_dataset(data, settings) if datasets else str(data)
    folder = Path(out) if out is not None else new_folder(RUNS, run_name(place or "digits"))
    with run_lock(folder):
        is_planned = (folder / AUTO_NAME).exists()
        if resume and data is None and not is_planned:
            raise RunError(f"{folder} has no plan to resume; begin the run again, with its data and options")
        if resumes(resume, folder / AUTO_NAME):
            if given:
                raise SettingsError(f"a resumed run keeps its settings; omit {min(given)}")
            record = _resumed(folder, place, budget_seconds, jobs)
            if record.is_ended:
                text = "has ended, and only shows its answer; for a new run, use"
                callback.said(f"The run in {folder} {text}: {record.command}")
        elif is_planned:
            raise RunError(f"{folder} already holds a run: add --resume to resume it, or choose another --out")
        else:
            of_own = custom_components(network, space)
            record = planned(place, budget_seconds, jobs, of_own, given, callback.said, datasets)
            record.save(folder)
        own: dict[str, Any] = {} if network is None else {"network": network}
        own |= {"space": space} if isinstance(space, SearchSpace) else {}
        run = AutoRun(folder, record, callback, own, cluster, datasets)
        is_over = threading.Event()
        threading.Thread(target=run.save_time, args=(is_over,), daemon=True).start()
        try:
            run.run()
        finally:
            is_over.set()
        return finished(run)


def _resumed(folder: Path, data: str | None, budget_seconds: float | None, jobs: int | None) -> AutoRecord:
    """The record of a run to resume, with another place of its data or budget if given.

    Raises RunError if these are given for a run that has ended, and SettingsError for
    another number of jobs.
    """
    before = AutoRecord.read(folder)
    if jobs not in (None, before.n_jobs):
        text = f"a resumed run keeps its jobs, {before.n_jobs}, but got {jobs}; omit jobs"
        raise SettingsError(text)
    record = before
    if data is not None:
        record = record.at_data(str(resolved_data({"data": data})["data"]))
    if budget_seconds is not None:
        # Without a default budget, the kind of device does not matter.
        budget = budget_of(budget_seconds, torch.device("cpu"), is_example=False)
        record = record.with_budget(*budget)
    if before.is_ended and record != before:
        text = "has ended, so it can use neither more time nor other data; for a new run"
        raise RunError(f"the run in {folder} {text}, use: {record.command}")
    return record


def finished(run: AutoRun) -> AutoResult:
    """Write the files of the run, and return its result."""
    folder, results, record = run.folder, run.results, run.record
    chosen = record.chosen or (RANDAUGMENT if run.found is None else FOUND)
    policy = _policy(chosen, run)
    for name in (NETWORK_NAME, INFO_NAME, LEFT_OUT_NAME):
        if (made := folder / TEST_FOLDER / name).exists():
            shutil.copy2(made, folder / name)
    notes = [*record.notes, *filter(None, [write_policy(policy, folder)])]
    image_ms = record.image_ms
    if image_ms is None and (image_ms := _milliseconds(folder)) is not None:
        notes += filter(None, [write_onnx(folder)])
    content = {**record.model_dump(), "chosen": chosen}
    answer = auto_answer(content, results, policy, folder).sentence
    run.note(image_ms=image_ms, chosen=chosen, notes=tuple(dict.fromkeys(notes)))
    report = None
    try:
        report = write_report(folder)
    except Exception as error:
        # The run may have taken hours.
        warnings.warn(f"no report was written: {reason_of(error)}; all else is in {folder}", HbaWarning, stacklevel=2)
    is_finished = len(run.record.ended) == len(PHASES)
    return AutoResult(answer, policy, chosen, results, is_finished, folder, run.record, report)


def _milliseconds(folder: Path) -> float | None:
    """The time in which the kept network predicts one image on this CPU; None if there is none that can be loaded."""
    try:
        network = load_network(folder)
    except HbaError:
        return None
    info, seconds = network.info, list[float]()
    image = torch.zeros(1, info.channels, info.image_size, info.image_size, dtype=torch.uint8)
    for _ in range(PREDICTIONS):
        began = time.perf_counter()
        network.predict(image)
        seconds.append(time.perf_counter() - began)
    return round(1000 * median(seconds), 2)


def _policy(chosen: str, run: AutoRun) -> Schedule:
    """The best row. A recipe gets the settings and the images of the run, like the policy of a search."""
    found = run.found
    if chosen == FOUND and found is not None:
        return found
    recipe = RECIPES[chosen].make()
    if found is None:
        return recipe
    names = ("dataset", "class_names", "image_size", "model", "train_images", "val_images", "images_seen", "settings")
    of_run = {name: found.provenance[name] for name in names if name in found.provenance}
    # Trainings fill what a recipe uncovers with the mean color of the images, as the search does.
    return dataclasses.replace(recipe, fill=found.fill, provenance={**of_run, **recipe.provenance})
