"""Runs the same search with several seeds; what they agree on is unlikely to be chance.

The settings of all searches are written first, each into a folder of its own. Wherever a search runs, it begins or
resumes by what its folder says.
"""

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hba.data.config import LAST_SEED, resolved_data
from hba.data.folder import check_beside
from hba.data.images import CPU, SearchData
from hba.data.load import is_dataset
from hba.distributed.collectives import broadcast_from_rank0, is_restarted_in, note_launch
from hba.distributed.process_info import is_first, size
from hba.errors import DivergedError, RunError, SettingsError
from hba.executors.executor import Executor, ProcessExecutor, SerialExecutor, Shared
from hba.executors.ray_executor import Cluster, RayExecutor, connected
from hba.policy_search.callbacks import SearchCallback
from hba.policy_search.checkpoint import RunFolder
from hba.policy_search.config import custom_components
from hba.policy_search.search import check_arguments, chosen_settings, search
from hba.report.over_seeds import OverSeeds
from hba.report.page import REPORT_NAME
from hba.schedule.library import seed_folder, seed_folders
from hba.schedule.schedule import Schedule
from hba.utils.files import read_text, run_lock, write_text
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
    settings: as hba.search takes them, but for a budget. resume: continue the searches that were stopped, and run
    those that have not begun; seeds may then be more. jobs: searches at a time, in processes of their own, which share
    PyTorch's threads. cluster: as hba.evaluate takes it; all machines must see `out`. callback: of all searches, where
    there is one job. on_done: called after each search.

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
        searches = _Searches(
            folder, _given_data(data, resume=resume), _given_settings(settings, resume=resume), callback
        )
        left = broadcast_from_rank0(lambda: [seed for seed in wanted if not searches.has_ended(seed)])
        executor = _executor(searches, left, jobs, machines)
        if not isinstance(executor, SerialExecutor):
            searches = replace(searches, callback=None)
        diverged = []
        with contextlib.closing(executor.run(_search, left, Shared(searches))) as ended:
            for _, done in ended:
                if done.is_stopped:
                    return None
                if done.diverged is not None:
                    diverged.append(f"seed {done.seed}: {done.diverged}")
                elif is_first():
                    on_done(done.seed, seed_folder(folder, done.seed))
        if diverged:
            raise DivergedError(f"{first_of(diverged)}; the other searches are in {out}")
        return broadcast_from_rank0(lambda: OverSeeds.read(folder))


def _check(
    seeds: int | None, jobs: int, cluster: str | None, resume: bool, settings: Mapping[str, Any], out: Path
) -> None:
    """SettingsError for what cannot be, before anything is done."""
    check_arguments(settings.get("preset"), settings.get("paper", False), resume, out, settings.get("config"))
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
            RunFolder(seed_folder(folder, seed)).write_config({**config.flat(), "seed": seed}, own)
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
class _Searches:
    """What all searches share. folder: absolute. data, settings: beside what stands in each search's own folder.

    callback: of searches in this process.
    """

    folder: Path
    data: Any
    settings: Mapping[str, Any]
    callback: SearchCallback | None = None

    def has_ended(self, seed: int) -> bool:
        """Whether the search has as many epochs as are asked for now, and is reported."""
        folder = seed_folder(self.folder, seed)
        files = RunFolder(folder)
        if not (files.policy.exists() and (folder / REPORT_NAME).exists()):
            return False
        epochs = self.settings.get("epochs") or json.loads(read_text(files.config)).get("epochs")
        return Schedule.load(files.policy).epochs == epochs


@dataclass(frozen=True)
class _Done:
    """diverged: why it ended without a schedule of all epochs. is_stopped: by the callback."""

    seed: int
    diverged: str | None = None
    is_stopped: bool = False


def _executor(searches: _Searches, seeds: Sequence[int], jobs: int, cluster: Cluster | None) -> Executor:
    if cluster is not None and seeds:
        config = json.loads(read_text(RunFolder(seed_folder(searches.folder, seeds[0])).config))
        device = searches.settings.get("device") or config.get("device") or "auto"
        return RayExecutor(cluster, cluster.needs(str(device)))
    # Each search finds its own device.
    n_jobs = min(jobs, len(seeds))
    return ProcessExecutor(CPU, n_jobs) if n_jobs > 1 else SerialExecutor(CPU)


def _search(seed: int, searches: _Searches, step_done: Callable[[], None]) -> _Done:
    """Begin or resume a search by what its folder says."""
    folder = seed_folder(searches.folder, seed)
    if not RunFolder(folder).config.exists():
        raise RunError(f"all machines must see the same folder {searches.folder}; set --out to a shared one")
    try:
        found = search(searches.data, out=folder, resume=True, callback=searches.callback, **searches.settings)
    except DivergedError as error:
        return _Done(seed, str(error))
    return _Done(seed, is_stopped=not found.finished)
