"""hba search --seeds: the same search several times, and what the searches have in common."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hba.distributed.process_info import is_first
from hba.errors import HbaError
from hba.policy_search.repeated import repeated_search
from hba.report.findings import network_measured
from hba.report.over_seeds import OverSeeds
from hba.schedule.library import load_policy, seed_folder
from hba.utils.text import counted, percent

from .operations_files import operations_file_arguments
from .over_seeds_text import print_over_seeds
from .terminal import console, say


def search_seeds(
    data: str | None,
    folder: Path,
    terminal: Callable[[], Any],
    seeds: int | None,
    jobs: int,
    cluster: str | None,
    **settings: Any,
) -> None:
    """terminal: makes what shows the progress of one search in this process."""
    done: list[int] = []
    go_on = f"hba search --out {shlex.quote(str(folder))} --resume{operations_file_arguments()}"

    def on_done(seed: int, _: Path) -> None:
        done.append(seed)
        of_seed = seed_folder(folder, seed)
        say(f"seed {seed}: {_found(of_seed)}; {of_seed / 'policy.json'}")

    try:
        with terminal() as callback:
            try:
                found = repeated_search(
                    data,
                    seeds=seeds,
                    out=folder,
                    jobs=jobs,
                    cluster=cluster,
                    callback=callback,
                    on_done=on_done,
                    **settings,
                )
            finally:
                callback.restore_signals()
    except (KeyboardInterrupt, HbaError):
        if done:
            say(f"searches that ended: {counted(len(done), 'seed')}, in {folder}; resume with:\n  {go_on}", err=True)
        raise
    if found is None:
        say(f"Stopped; resume with:\n  {go_on}")
        raise SystemExit(130)
    if is_first():
        _report(found, folder)


def _found(folder: Path) -> str:
    errors = network_measured(load_policy(folder).provenance).values()
    return f"validation error {percent(next(iter(errors), None))}"


def _report(found: OverSeeds, folder: Path) -> None:
    print_over_seeds(str(folder), found, console())
    first, *others = (str(seed_folder(folder, seed)) for seed in sorted(found.schedules))
    console().print(
        f"Each search has a folder, such as {first}; see all again by `hba show {shlex.quote(str(folder))}`."
    )
    words = ["hba", "evaluate", first, "--against", ",".join(["none", *others])]
    console().print(f"Next, see whether they help:\n  {shlex.join(words)}{operations_file_arguments()}")
