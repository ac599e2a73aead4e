"""One search again and again, each with a seed of its own: what they have in common is no chance."""

import contextlib
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from hba.errors import RunError, SettingsError
from hba.operations import Operation, function_path, register_operation, registered_operations
from hba.parallel.cluster import Cluster, Needs, connected
from hba.parallel.processes import from_first
from hba.parallel.sending import packed, unpacked
from hba.parallel.world import size
from hba.policy_search.folder import RunFolder
from hba.policy_search.observer import SearchObserver
from hba.policy_search.run import search
from hba.regularization.groups import register_regularizer, registered_regularizers
from hba.regularization.regularizer import Regularizer
from hba.report.over_seeds import OverSeeds
from hba.runtime.claim import claimed
from hba.runtime.pool import ProcessPool
from hba.schedule.library import seed_folder, seed_folders

OnDone = Callable[[int, Path], None]
"""Called with the seed of a search that has ended, and its folder."""


def repeated_search(
    data: Any = None,
    *,
    seeds: int | None = None,
    out: str | Path,
    resume: bool = False,
    jobs: int = 1,
    cluster: str | None = None,
    observer: SearchObserver | None = None,
    on_done: OnDone = lambda seed, folder: None,
    **settings: Any,
) -> OverSeeds | None:
    """Search as often as `seeds` says, with the setting `seed` and the numbers after it, and compare the schedules.

    Each search has a folder in `out`, seed-0, seed-1, ..., and is the search that hba.search makes there. data,
    settings: as hba.search takes them, but for a budget. resume: go on with those that were stopped, and make those
    that were not begun; seeds may then be more. jobs: searches at a time, in processes of their own, which share
    PyTorch's threads. cluster: as hba.evaluate takes it. observer: of all searches, where there is one job. on_done: is
    told of each that has ended.

    Returns None where the observer stopped a search. Raises HbaError for what cannot work.
    """
    folder = Path(out)
    _check(seeds, jobs, cluster, resume, settings)
    with contextlib.ExitStack() as stack:
        from_first(lambda: stack.enter_context(claimed(folder)) and None)
        machines = stack.enter_context(connected(cluster))
        wanted = from_first(lambda: _wanted(folder, seeds, settings, resume=resume))
        tasks = [_Task(seed, folder, data, settings, resume=resume) for seed in wanted]
        for done in _made(tasks, jobs, machines, observer):
            if done is None:
                return None
            on_done(done.seed, done.folder)
    return OverSeeds.read(folder)


def _check(seeds: int | None, jobs: int, cluster: str | None, resume: bool, settings: Mapping[str, Any]) -> None:
    """SettingsError for what cannot be, before anything is done."""
    if seeds is None and not resume:
        raise SettingsError("a repeated search needs seeds, the number of searches")
    if seeds is not None and seeds < 2:
        raise SettingsError(f"seeds must be at least 2, got {seeds}; omit it for one search")
    if jobs < 1:
        raise SettingsError(f"jobs must be at least 1, got {jobs}")
    if settings.get("budget_seconds") is not None:
        raise SettingsError("a budget is of one search, and each would end with another number of epochs; give epochs")
    if jobs > 1 and cluster is not None:
        raise SettingsError(f"a cluster has as many jobs at a time as it has room for; omit jobs, got {jobs}")
    if size() > 1 and (jobs > 1 or cluster is not None):
        raise SettingsError(f"{size()} processes make one search after the other together; omit jobs and cluster")


def _wanted(folder: Path, seeds: int | None, settings: Mapping[str, Any], *, resume: bool) -> list[int]:
    """The seeds; their folders are made at once, so that what is resumed knows them."""
    there = sorted(seed_folders(folder))
    if there and not resume:
        raise RunError(f"{folder} holds searches already: add --resume to continue them, or choose another --out")
    if resume and not there:
        raise RunError(f"{folder} holds no searches to resume: there is no {seed_folder(folder, 0).name} in it")
    first = there[0] if there else int(settings.get("seed") or 0)
    wanted = [*range(first, first + seeds)] if seeds is not None else there
    if missing := sorted(set(there) - set(wanted)):
        raise SettingsError(
            f"a resumed repetition may have more seeds, not fewer or others; {folder} has {missing} too"
        )
    for seed in wanted:
        seed_folder(folder, seed).mkdir(exist_ok=True)
    return wanted


@dataclass(frozen=True)
class _Task:
    """One of the searches. folder: of all of them."""

    seed: int
    folder: Path
    data: Any
    settings: Mapping[str, Any]
    resume: bool

    @property
    def own_folder(self) -> Path:
        return seed_folder(self.folder, self.seed)


@dataclass(frozen=True)
class _Done:
    """files: of its folder, by name, where the process that asked does not see it."""

    seed: int
    folder: Path
    files: Mapping[str, bytes] | None = None


def _made(
    tasks: Sequence[_Task], jobs: int, machines: Cluster | None, observer: SearchObserver | None
) -> Generator[_Done | None]:
    """Each search as it ends; None for one that the observer stopped, which is the last."""
    if machines is not None:
        yield from _over_machines(tasks, machines)
    elif jobs > 1:
        yield from _side_by_side(tasks, min(jobs, len(tasks)))
    else:
        for task in tasks:
            yield _search(task, observer)


def _search(task: _Task, observer: SearchObserver | None = None) -> _Done | None:
    """What was stopped goes on; what was not begun begins as the others did, where nothing else is said."""
    folder, settings = task.own_folder, {**task.settings}
    is_begun = from_first(RunFolder(folder).config.exists)
    if is_begun and task.resume:
        for name in ("preset", "paper", "config", "seed"):
            settings.pop(name, None)
        found = search(task.data, out=folder, resume=True, observer=observer, **settings)
    else:
        begun = from_first(lambda: _begun_beside(task)) if task.resume else None
        if begun is not None and settings.get("config") is None:
            settings = {**settings, "config": begun}
            settings.pop("preset", None)
            settings.pop("paper", None)
        settings["seed"] = task.seed
        found = search(task.data, out=folder, observer=observer, **settings)
    return _Done(task.seed, folder) if found.finished else None


def _begun_beside(task: _Task) -> Path | None:
    """Another of the searches, whose settings this one has but for its seed."""
    begun = (folder for _, folder in sorted(seed_folders(task.folder).items()) if RunFolder(folder).config.exists())
    return next(begun, None)


def _side_by_side(tasks: Sequence[_Task], n_jobs: int) -> Generator[_Done | None]:
    n_threads = max(1, torch.get_num_threads() // n_jobs)
    content = [_packed(task, "use jobs=1") for task in tasks]
    with ProcessPool(n_jobs, n_threads) as pool:
        futures = pool.submit(_search_packed, content)
        try:
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool:
            raise RunError(
                f"a process that searches has died (exit code {pool.exit_code()}); what was found is kept: --resume "
                "goes on, and fewer jobs need less memory"
            ) from None


def _over_machines(tasks: Sequence[_Task], machines: Cluster) -> Iterator[_Done | None]:
    needs = machines.needs(str(tasks[0].settings.get("device") or "auto"))
    device = "cuda" if needs.n_gpus else "cpu"
    placed = [replace(task, settings={**task.settings, "device": device}) for task in tasks]
    content = [(_packed(task, "omit cluster"), needs) for task in placed]
    for _, done in machines.results(_search_there, content, needs):
        if done.files is not None:
            for name, file in done.files.items():
                path = done.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file)
        yield done


def _search_there(content: bytes, needs: Needs) -> _Done:
    """On a machine of the cluster, which may not see the folder: what is found is then brought back whole."""
    torch.set_num_threads(needs.n_cpus)
    task: _Task = _unpacked(content)
    if task.own_folder.is_dir():
        # What a lost machine had begun goes on.
        return _finished(_search(replace(task, resume=task.resume or RunFolder(task.own_folder).config.exists())))
    with tempfile.TemporaryDirectory() as elsewhere:
        here = replace(task, folder=Path(elsewhere), resume=False)
        _finished(_search(here))
        found = [path for path in here.own_folder.rglob("*") if path.is_file()]
        files = {str(path.relative_to(here.own_folder)): path.read_bytes() for path in found}
    return _Done(task.seed, task.own_folder, files)


def _finished(done: _Done | None) -> _Done:
    """Nobody stops a search in another process."""
    assert done is not None
    return done


def _search_packed(content: bytes) -> _Done:
    return _finished(_search(_unpacked(content)))


def _packed(task: _Task, remedy: str) -> bytes:
    own: tuple[tuple[Operation, ...], tuple[Regularizer, ...]] = (registered_operations(), registered_regularizers())
    paths = [function_path(operation) or "" for operation in own[0]]
    functions = [function for one in own[1] for function in (one.function, one.fixed)]
    given = [*task.settings.values(), *functions]
    modules = {path.partition(":")[0] for path in paths}
    modules |= {getattr(one, "__module__", None) or type(one).__module__ for one in given}
    return packed((task, own), modules, "the search", remedy)


def _unpacked(content: bytes) -> _Task:
    task: _Task
    task, (operations, regularizers) = unpacked(content)
    for operation in operations:
        register_operation(operation)
    for regularizer in regularizers:
        register_regularizer(regularizer)
    return task
