"""Runs the same search with several seeds. Results on which they agree are unlikely to
be chance.

First, the settings of each search are written into its own folder, from which it can
start or resume on any machine.
"""

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hba.data.config import resolved_data
from hba.errors import DivergedError, RunError, SettingsError
from hba.executors.executor import SerialExecutor, Shared
from hba.executors.ray_executor import check_one_way, connected, executor_for
from hba.policy_search.callbacks import SearchCallback
from hba.policy_search.checkpoint import RunFolder
from hba.policy_search.search import chosen_config, custom_components, search
from hba.results.over_seeds import OverSeeds
from hba.results.run import OWN
from hba.schedule.library import seed_folder, seed_folders
from hba.utils.files import read_text, resumes, run_lock
from hba.utils.processes import end_if_importing_main
from hba.utils.text import first_of

OBJECTS = ("network", "space", "algorithm")
"""Arguments that may be objects, which no file contains."""


def repeated_search(
    data: Any = None,
    *,
    seeds: int | None = None,
    out: str | Path,
    resume: bool = False,
    jobs: int = 1,
    cluster: str | None = None,
    callback: SearchCallback | None = None,
    on_done: Callable[[int, Path], None] = lambda seed, folder: None,
    **settings: Any,
) -> OverSeeds | None:
    """Run searches that differ in their seed only, and compare the schedules.

    Each search has a folder in `out`, seed-0, seed-1, ..., and is identical to one of
    hba.search there. A search whose loss is not finite does not stop the others;
    DivergedError names it at the end.

    Args:
        data: The data, as hba.search takes them.
        seeds: Number of searches: with the setting `seed` and the numbers after it.
        out: Folder of the searches.
        resume: Continue stopped searches, and run those that have not begun; you may
            increase `seeds`.
        jobs: Searches at a time, in separate processes, which share PyTorch's threads.
        cluster: As hba.evaluate takes it; all machines must see `out`.
        callback: For all searches, if there is one job.
        on_done: Called after each search, with its seed and its folder.
        settings: As hba.search takes them, without budget_seconds and progress.

    Returns:
        The comparison; None if the callback stopped a search.

    Raises:
        HbaError: For wrong arguments or data.
        DivergedError: If the loss of a search is not finite.
    """
    end_if_importing_main()
    folder = Path(out).absolute()
    if not resume and (seeds is None or seeds < 2):
        raise SettingsError(
            f"seeds must be at least 2, got {seeds}; for one search, omit it"
        )
    check_one_way(jobs, cluster)
    if settings.get("budget_seconds") is not None:
        raise SettingsError(
            "a budget would end each search with another number of epochs; give epochs"
        )
    with run_lock(folder), connected(cluster) as machines:
        run_seeds = _write_configs(folder, data, seeds, settings, resume)
        # On this machine, each search chooses its own device.
        device = "cpu"
        if machines is not None:
            stored = json.loads(
                read_text(RunFolder(seed_folder(folder, run_seeds[0])).config)
            )
            device = str(settings.get("device") or stored["device"])
        executor = executor_for(device, min(jobs, len(run_seeds)), machines)
        # A new search reads its settings from its folder, except objects.
        in_no_file = [
            name for name in OBJECTS if not isinstance(settings.get(name), str | None)
        ]
        arguments = {
            name: settings[name] for name in (settings if resume else in_no_file)
        }
        arguments["callback"] = (
            callback if isinstance(executor, SerialExecutor) else None
        )
        arguments["data"] = resolved_data({"data": data})["data"]
        arguments.pop("seed", None)
        diverged = []
        with contextlib.closing(
            executor.run(_search, run_seeds, Shared((folder, arguments)), lambda: None)
        ) as ended:
            for _, (seed, error, is_finished) in ended:
                if error is not None:
                    diverged.append(f"seed {seed}: {error}")
                elif not is_finished:
                    return None
                else:
                    on_done(seed, seed_folder(folder, seed))
        if diverged:
            raise DivergedError(
                f"{first_of(diverged)}; the other searches are in {out}"
            )
        return OverSeeds.read(folder)


def _write_configs(
    folder: Path,
    data: Any,
    seeds: int | None,
    settings: Mapping[str, Any],
    resume: bool,
) -> Sequence[int]:
    """Write settings like those of the first search for each that has none yet; return
    the seeds of all.
    """
    runs = {
        seed: RunFolder(path) for seed, path in sorted(seed_folders(folder).items())
    }
    there = [seed for seed, run in runs.items() if resume and run.config.exists()]
    if there:
        stored = json.loads(read_text(runs[there[0]].config))
        replaced = stored.pop(OWN, ())
        first = there[0]
    elif resume and (data is None or seeds is None):
        raise RunError(
            f"{folder} has no searches to resume: it contains no"
            f" {seed_folder(folder, 0).name}"
        )
    elif any(run.checkpoint.exists() or run.policy.exists() for run in runs.values()):
        raise RunError(
            f"{folder} holds searches already: add --resume to continue them, or choose"
            " another --out"
        )
    else:
        resumes(resume, seed_folder(folder, 0))
        stored = chosen_config(data, **settings).flat()
        replaced = [*custom_components(settings.get("network"), settings.get("space"))]
        first = stored["seed"]
    run_seeds = there if seeds is None else range(first, first + seeds)
    if settings.get("seed", first) != first or not {*there} <= {*run_seeds}:
        raise SettingsError(
            f"resumed searches keep their seeds, and may only get more; {folder} has"
            f" {there}"
        )
    for seed in {*run_seeds} - {*there}:
        seed_folder(folder, seed).mkdir(exist_ok=True)
        RunFolder(seed_folder(folder, seed)).write_config(
            {**stored, "seed": seed}, replaced
        )
    return run_seeds


def _search(
    seed: int, shared: tuple[Path, Mapping[str, Any]], step_done: Callable[[], None]
) -> tuple[int, str | None, bool]:
    """Start or resume the search in a folder; return its seed, why it diverged, and
    whether it finished.
    """
    folder, arguments = shared
    out = seed_folder(folder, seed)
    if not RunFolder(out).config.exists():
        raise RunError(
            f"all machines must see the same folder {folder}; set --out to a shared one"
        )
    try:
        return seed, None, search(out=out, resume=True, **arguments).finished
    except DivergedError as error:
        return seed, str(error), False
