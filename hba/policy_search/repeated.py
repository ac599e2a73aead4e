"""One search again and again, each with a seed of its own: what they have in common is no chance.

The settings of all searches are written first, each into a folder of its own. A search there is then begun, or goes on,
by what its folder says, wherever it is made: there is no other way to begin one.
"""

import contextlib
import json
import secrets
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from hba.data.adapt import is_dataset
from hba.data.config import LAST_SEED, resolved_data
from hba.data.listing import check_beside
from hba.data.load import SearchData
from hba.distributed.cluster import Cluster, Needs, connected
from hba.distributed.collectives import broadcast_from_rank0, is_restarted_in, note_launch
from hba.distributed.process_info import is_first, size
from hba.distributed.sending import packed, unpacked
from hba.errors import DivergedError, RunError, SettingsError
from hba.operations import function_path, register_operation, registered_operations
from hba.policy_search.arguments import check_resume
from hba.policy_search.callbacks import SearchCallback
from hba.policy_search.custom_components import custom_components
from hba.policy_search.folder import RunFolder
from hba.policy_search.run import chosen_settings, search
from hba.regularization.groups import register_regularizer, registered_regularizers
from hba.report.over_seeds import OverSeeds
from hba.report.write import REPORT_NAME
from hba.schedule.library import seed_folder, seed_folders
from hba.schedule.schedule import Schedule
from hba.utils.files import read_text, run_lock, write_atomically, write_text
from hba.utils.pool import ProcessPool
from hba.utils.text import first_of

OnDone = Callable[[int, Path], None]
"""Called with the seed of a search that has ended, and its folder."""
OF_OBJECTS = ("network", "space", "algorithm")
"""Arguments that may be what no file holds; they are then given again to a search that goes on."""


def repeated_search(
    data: Any = None,
    *,
    seeds: int | None = None,
    out: str | Path,
    resume: bool = False,
    jobs: int = 1,
    cluster: str | None = None,
    callback: SearchCallback | None = None,
    on_done: OnDone = lambda seed, folder: None,
    **settings: Any,
) -> OverSeeds | None:
    """Search as often as `seeds` says, with the setting `seed` and the numbers after it, and compare the schedules.

    Each search has a folder in `out`, seed-0, seed-1, ..., and is the search that hba.search makes there. data,
    settings: as hba.search takes them, but for a budget. resume: go on with those that were stopped, and make those
    that were not begun; seeds may then be more. jobs: searches at a time, in processes of their own, which share
    PyTorch's threads. cluster: as hba.evaluate takes it. callback: of all searches, where there is one job. on_done: is
    told of each that has ended now.

    Returns None where the callback stopped a search. Raises HbaError for what cannot work; a search whose loss is not
    finite does not keep the others from being made, and is told of at the end.
    """
    folder = Path(out).absolute()
    _check(seeds, jobs, cluster, resume, settings, folder)
    with contextlib.ExitStack() as stack:
        broadcast_from_rank0(lambda: stack.enter_context(run_lock(folder)) and None)
        resume = broadcast_from_rank0(lambda: resume or is_restarted_in(folder))
        machines = stack.enter_context(connected(cluster))
        if is_first() and not resume:
            stack.callback(_tidy, folder)
        wanted = broadcast_from_rank0(lambda: _wanted(folder, data, seeds, settings, resume=resume))
        if is_first():
            note_launch(folder)
        given, kept = _given_data(data, resume=resume), _given_settings(settings, resume=resume)
        tasks = [_Task(seed, folder, given, kept) for seed in wanted]
        left = broadcast_from_rank0(lambda: [task.seed for task in tasks if not task.is_whole()])
        diverged = []
        for done in _made([task for task in tasks if task.seed in left], jobs, machines, callback):
            if done is None:
                return None
            if done.diverged is not None:
                diverged.append(f"seed {done.seed}: {done.diverged}")
            elif is_first():
                on_done(done.seed, done.folder)
        if diverged:
            raise DivergedError(f"{first_of(diverged)}; the other searches are in {out}")
        return broadcast_from_rank0(lambda: OverSeeds.read(folder))


def _check(
    seeds: int | None, jobs: int, cluster: str | None, resume: bool, settings: Mapping[str, Any], out: Path
) -> None:
    """SettingsError for what cannot be, before anything is done."""
    check_resume(settings.get("preset"), settings.get("paper", False), resume, out, settings.get("config"))
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


def _wanted(folder: Path, data: Any, seeds: int | None, settings: Mapping[str, Any], *, resume: bool) -> list[int]:
    """The seeds; their settings are written at once, so that whatever happens, each can be begun or go on."""
    there = {seed: path for seed, path in seed_folders(folder).items() if RunFolder(path).config.exists()}
    if not resume:
        if any(_has_found(path) for path in there.values()):
            raise RunError(f"{folder} holds searches already: add --resume to continue them, or choose another --out")
        config = chosen_settings(data, dict(settings))
        check_beside(folder, config.data)
        assert seeds is not None
        _check_last(config.seed + seeds - 1)
        own = custom_components(settings.get("network"), settings.get("space"))
        _forget(folder)
        for seed in range(config.seed, config.seed + seeds):
            seed_folder(folder, seed).mkdir(exist_ok=True)
            RunFolder(seed_folder(folder, seed)).write_config(config.model_copy(update={"seed": seed}), own=own)
        return [*range(config.seed, config.seed + seeds)]
    if not there:
        raise RunError(f"{folder} holds no searches to resume: there is no {seed_folder(folder, 0).name} in it")
    first = min(there)
    if settings.get("seed", first) != first:
        given = settings["seed"]
        raise SettingsError(f"resumed searches keep their seeds; {folder} begins with {first} (given {given})")
    wanted = [*range(first, first + seeds)] if seeds is not None else sorted(there)
    if missing := sorted(set(there) - set(wanted)):
        raise SettingsError(f"resumed searches may have more seeds, not fewer or others; {folder} has {missing} too")
    _check_last(wanted[-1])
    stored = json.loads(read_text(RunFolder(there[first]).config))
    for seed in set(wanted) - set(there):
        seed_folder(folder, seed).mkdir(exist_ok=True)
        write_text(RunFolder(seed_folder(folder, seed)).config, json.dumps({**stored, "seed": seed}, indent=2) + "\n")
    return wanted


def _check_last(seed: int) -> None:
    if seed > LAST_SEED:
        raise SettingsError(f"the last seed must be at most {LAST_SEED}, got {seed}; give fewer seeds, or a lower seed")


def _has_found(folder: Path) -> bool:
    return RunFolder(folder).has_checkpoint() or RunFolder(folder).policy.exists()


def _tidy(folder: Path) -> None:
    """Leave nothing behind where no search has found anything."""
    if not any(_has_found(path) for path in seed_folders(folder).values()):
        _forget(folder)


def _forget(folder: Path) -> None:
    """Searches that were only to be made."""
    for path in seed_folders(folder).values():
        for name in (RunFolder(path).config, path / ".lock"):
            name.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            path.rmdir()


def _given_data(data: Any, *, resume: bool) -> Any:
    """What is given to each search as its data: what no file holds, or where the images of its folder are now."""
    if is_dataset(data) or isinstance(data, SearchData):
        return data
    return resolved_data({"data": data})["data"] if resume and data is not None else None


def _given_settings(settings: Mapping[str, Any], *, resume: bool) -> dict[str, Any]:
    """What is given to each beside its folder: what no file holds, and where it goes on, what may be changed."""
    of_objects = {name: settings[name] for name in OF_OBJECTS if not isinstance(settings.get(name), str | None)}
    if not resume:
        return of_objects
    return {name: value for name, value in settings.items() if name != "seed"} | of_objects


@dataclass(frozen=True)
class _Task:
    """One of the searches. folder: of all of them, absolute. data, settings: beside what stands in its own folder."""

    seed: int
    folder: Path
    data: Any
    settings: Mapping[str, Any]

    @property
    def own_folder(self) -> Path:
        return seed_folder(self.folder, self.seed)

    def is_whole(self) -> bool:
        """Whether it has ended, with as many epochs as are asked for now, and is reported."""
        files = RunFolder(self.own_folder)
        if not (files.policy.exists() and (self.own_folder / REPORT_NAME).exists()):
            return False
        epochs = self.settings.get("epochs") or json.loads(read_text(files.config)).get("epochs")
        return Schedule.load(files.policy).epochs == epochs


@dataclass(frozen=True)
class _Done:
    """diverged: why it ended without a schedule of all epochs. files: of its folder, by name, where the process that
    asked does not see it.
    """

    seed: int
    folder: Path
    diverged: str | None = None
    files: Mapping[str, bytes] | None = None


def _made(
    tasks: Sequence[_Task], jobs: int, machines: Cluster | None, callback: SearchCallback | None
) -> Generator[_Done | None]:
    """Each search as it ends; None for one that the callback stopped, which is the last."""
    if machines is not None:
        yield from _over_machines(tasks, machines)
    elif jobs > 1:
        yield from _side_by_side(tasks, min(jobs, len(tasks)))
    else:
        for task in tasks:
            yield _search(task, callback)


def _search(task: _Task, callback: SearchCallback | None = None) -> _Done | None:
    try:
        found = search(task.data, out=task.own_folder, resume=True, callback=callback, **task.settings)
    except DivergedError as error:
        return _Done(task.seed, task.own_folder, str(error))
    return _Done(task.seed, task.own_folder) if found.finished else None


def _side_by_side(tasks: Sequence[_Task], n_jobs: int) -> Generator[_Done | None]:
    if not tasks:
        return
    n_threads = max(1, torch.get_num_threads() // n_jobs)
    shared = _packed(tasks[0], "use jobs=1")
    with ProcessPool(n_jobs, n_threads, _begin, shared) as pool:
        futures = pool.submit(_search_begun, [(task.seed, task.folder) for task in tasks])
        try:
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool:
            raise RunError(
                f"a process that searches has died (exit code {pool.exit_code()}); what was found is kept: --resume "
                "goes on, and fewer jobs need less memory"
            ) from None


_begun: list[_Task] = []
"""Of a process that searches: one, whose data and settings all tasks have."""


def _begin(content: bytes) -> None:
    _begun.append(_unpacked(content))


def _search_begun(of: tuple[int, Path]) -> _Done:
    seed, folder = of
    return _finished(_search(replace(_begun[0], seed=seed, folder=folder)))


def _over_machines(tasks: Sequence[_Task], machines: Cluster) -> Iterator[_Done | None]:
    if not tasks:
        return
    config = json.loads(read_text(RunFolder(tasks[0].own_folder).config))
    needs = machines.needs(str(tasks[0].settings.get("device") or config.get("device") or "auto"))
    shared = machines.ray.put(_packed(tasks[0], "omit cluster"))
    with _known_by(tasks[0].folder) as token:
        parts = [(shared, task.seed, token, _files_of(task.own_folder), needs) for task in tasks]
        for _, done in machines.results(_search_there, parts, needs):
            for name, content in (done.files or {}).items():
                write_atomically(done.folder / name, partial(_write, content))
            yield replace(done, files=None)


def _write(content: bytes, file: Any) -> None:
    file.write(content)


@contextlib.contextmanager
def _known_by(folder: Path) -> Iterator[str]:
    """The name of a file in a folder, by which another machine knows that it sees the same."""
    token = folder / f".seen-{secrets.token_hex(8)}"
    token.touch()
    try:
        yield token.name
    finally:
        token.unlink(missing_ok=True)


def _files_of(folder: Path) -> Mapping[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def _search_there(content: bytes, seed: int, token: str, files: Mapping[str, bytes], needs: Needs) -> _Done:
    """On a machine of the cluster. One that does not see the folder has its files, and brings back what is found."""
    torch.set_num_threads(needs.n_cpus)
    task = replace(_unpacked(content), seed=seed)
    if (task.folder / token).exists():
        return _finished(_search(task))
    with tempfile.TemporaryDirectory() as elsewhere:
        here = replace(task, folder=Path(elsewhere))
        for name, file in files.items():
            write_atomically(here.own_folder / name, partial(_write, file))
        done = _finished(_search(here))
        return replace(done, folder=task.own_folder, files=_files_of(here.own_folder))


def _finished(done: _Done | None) -> _Done:
    """Nobody stops a search in another process."""
    assert done is not None
    return done


def _packed(task: _Task, remedy: str) -> bytes:
    """A task with all that its user has registered."""
    operations, regularizers = registered_operations(), registered_regularizers()
    functions = [function for one in regularizers for function in (one.function, one.fixed)]
    modules = {(function_path(operation) or "").partition(":")[0] for operation in operations}
    modules |= {getattr(one, "__module__", None) or "" for one in functions}
    # Of what was given as a class itself, and of what is one of a class.
    for one in (*task.settings.values(), task.data):
        modules |= {getattr(one, "__module__", None) or "", type(one).__module__}
    return packed((task, operations, regularizers), modules, "the search", remedy)


def _unpacked(content: bytes) -> _Task:
    task: _Task
    task, operations, regularizers = unpacked(content)
    for operation in operations:
        register_operation(operation)
    for regularizer in regularizers:
        register_regularizer(regularizer)
    return task
