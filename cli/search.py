"""hba search: find a schedule."""

import shlex
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import click

import hba
from hba.algorithms import ALGORITHMS
from hba.algorithms.race_findings import RaceFindings
from hba.config.presets import SEARCH_PRESETS, find_preset
from hba.config.training import CommonSearchConfig
from hba.data.config import run_name
from hba.errors import HbaError, SettingsError
from hba.policy_search.callbacks import SearchProgress, TensorBoardLogger
from hba.policy_search.config import SearchConfig
from hba.report.findings import evaluation_words
from hba.results.provenance import network_measured
from hba.schedule.library import seed_folder, seed_folders
from hba.utils.progress import FOLDER_NAME, CallbackList
from hba.utils.text import counted, duration as duration_words, first_of, percent

from .help import SectionedCommand
from .main import INTERRUPTED
from .options import (
    DATA,
    algorithm_options,
    complete,
    duration,
    given,
    number_option,
    path_option,
    settings_options,
)
from .show import print_findings, print_over_seeds
from .terminal import (
    classes_line,
    operations_file_arguments,
    operations_file_option,
    resume_line,
    run_folder,
    say,
)

MOST_REGULARIZERS = 8
N_LINES = 10
"""Number of epochs that print a line if no bar is shown."""
LEAST_SECONDS = 60.0
"""Only searches of at least this length print how long they will take."""
BY_DATASET = dict.fromkeys(
    (name for preset in SEARCH_PRESETS.values() for name in preset),
    "by dataset, else {}",
)
BY_DATASET["image_size"] = "{}"  # says so itself
BUDGET = (
    "Choose the number of epochs so that the search ends within this time: 90s, 20m,"
    " 1h30m."
)
JOBS = (
    "Searches at a time (with --seeds), or forks of a race. [default: 1; forks on a"
    " CPU: one per thread]"
)


@click.command(
    cls=SectionedCommand,
    params=[
        *settings_options(
            CommonSearchConfig, without=("data",), default_texts=BY_DATASET
        ),
        *algorithm_options(
            ALGORITHMS,
            SearchConfig.model_fields["algorithm"].description or "",
            default_texts=BY_DATASET,
        ),
    ],
)
@click.argument("data", required=False, shell_complete=DATA)
@click.option(
    "--preset",
    metavar="NAME",
    shell_complete=complete(SEARCH_PRESETS),
    help="Named settings, see `hba presets`.",
)
@path_option("--out", help="Folder of the run. [default: a new one in runs/]")
@click.option(
    "--resume", is_flag=True, help="Resume the run in --out with its settings."
)
@click.option(
    "--paper",
    is_flag=True,
    help="Search as in the paper: --algorithm hba, whose defaults are the paper's.",
)
@path_option(
    "--config",
    help="Start from the settings of an earlier search: its folder or config.json.",
)
@click.option("--budget", "budget_seconds", type=duration, metavar="TIME", help=BUDGET)
@click.option(
    "--tensorboard",
    is_flag=True,
    help="Write TensorBoard events into the run's folder tensorboard/.",
)
@number_option(
    "--seeds",
    help=(
        "Number of searches, with seeds counted from --seed, each in its own folder in"
        " --out."
    ),
)
@number_option("--jobs", help=JOBS)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Ray cluster to use, or auto; for --seeds or --algorithm race.",
)
@operations_file_option
def search(
    data: str | None, out: Path | None, seeds: int | None, **options: Any
) -> None:
    """Find an augmentation schedule for DATA.

    \b
      hba search photos/                        the default algorithm: flips, crops,
                                                color, ...
      hba search photos/ --budget 20m           a search that ends within 20 minutes
      hba search --out runs/photos-1 --resume   continue after Ctrl-C or a crash

    DATA is a folder DIR/<class>/*.png, or DIR/train/<class>/*.png with optional DIR/val
    and DIR/test; a dataset: digits (the default), cifar10, cifar100, svhn, svhn-full,
    fashionmnist or imagenet; a .csv or .parquet table of image paths and labels; a .npz
    file of arrays; a folder that the library datasets has saved; or one written by `hba
    prepare`.
    """
    jobs = options.pop("jobs")
    tensorboard = options.pop("tensorboard")
    several = seeds is not None or bool(
        options["resume"] and out is not None and seed_folders(out)
    )
    if several and tensorboard:
        raise SettingsError(
            "--tensorboard is for one search; omit --seeds, or --tensorboard"
        )
    preset = options["preset"]
    settings = given(options)
    name = "digits"
    if options["config"]:
        name = "search"
    elif preset:
        name = find_preset(preset)["data"]
    with run_folder(out, run_name(data or name), resume=options["resume"]) as folder:
        if several:
            finished = _search_seeds(
                data, folder, seeds=seeds, jobs=1 if jobs is None else jobs, **settings
            )
        else:
            finished = _search_once(
                data, folder, tensorboard=tensorboard, jobs=jobs, **settings
            )
    if not finished:
        raise SystemExit(INTERRUPTED)


def _search_once(
    data: str | None, folder: Path, *, tensorboard: bool, **settings: Any
) -> bool:
    """Run one search. Returns whether it has finished."""
    with SearchTerminal(_plan_lines) as terminal:
        callback: Any = terminal
        if tensorboard:
            callback = CallbackList(terminal, TensorBoardLogger(folder / FOLDER_NAME))
        result = hba.search(data, out=folder, callback=callback, **settings)
    words: list[str] = []
    if result.schedule is not None:
        print_findings(result.schedule)
        words = evaluation_words(folder / "policy.json", result.schedule)
    print_end(result, folder, "search", words)
    return result.finished


def _search_seeds(data: str | None, folder: Path, **settings: Any) -> bool:
    """Search with several seeds, and print what the searches agree on. Returns whether
    all have finished.
    """
    done: list[int] = []

    def on_done(seed: int, of_seed: Path) -> None:
        done.append(seed)
        path = seed_folder(folder, seed) / "policy.json"
        origin = hba.load_policy(path).provenance
        error = next(iter(network_measured(origin).values()), None)
        race = RaceFindings.of(origin)
        say(
            f"seed {seed}:"
            f" {race.takes if race else f'validation error {percent(error)}'}; {path}"
        )

    try:
        with SearchTerminal(_plan_lines) as terminal:
            over_seeds = hba.repeated_search(
                data, out=folder, callback=terminal, on_done=on_done, **settings
            )
    except (KeyboardInterrupt, HbaError):
        if done:
            say(
                f"Finished searches: {counted(len(done), 'seed')}."
                f" {resume_line('search', folder)}",
                err=True,
            )
        raise
    if over_seeds is None:
        say(f"Stopped. {resume_line('search', folder)}")
    else:
        print_over_seeds(str(folder), over_seeds)
        first, *other_folders = (
            str(seed_folder(folder, seed)) for seed in sorted(over_seeds.schedules)
        )
        say(
            f"Each search has a folder, such as {first}; `hba show"
            f" {shlex.quote(str(folder))}` prints this again."
        )
        words = [
            "hba",
            "evaluate",
            first,
            "--against",
            ",".join(["none", *other_folders]),
        ]
        say(
            "Next, see whether they help:\n "
            f" {shlex.join(words)}{operations_file_arguments()}"
        )
    return over_seeds is not None


class SearchTerminal(SearchProgress):
    """Shows progress: a bar in a terminal, a few lines elsewhere.

    The first Ctrl-C or SIGTERM ends the search after the current step, the second one
    at once.

    Args:
        plan_lines: Describes a search before it starts.
    """

    def __init__(self, plan_lines: Callable[[Any], list[str]]) -> None:
        super().__init__()
        self.stop = False
        self._plan_lines = plan_lines
        self._handlers = dict[int, Any]()
        self._first_seconds = 0.0

    def planned(self, plan: Any) -> None:
        self.legs = plan.leg_by_epoch
        for line in self._plan_lines(plan):
            say(line)

    def started(
        self, step: int, total_steps: int, batch_size: int, n_epochs: int
    ) -> None:
        super().started(step, total_steps, batch_size, n_epochs)
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.signal(number, self._request_stop)
            # With several searches, only the first one sees the caller's handlers.
            self._handlers.setdefault(number, before)

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        self.stop = True
        self._restore_handlers()

    def _restore_handlers(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def __exit__(self, *error: object) -> None:
        self._restore_handlers()
        super().__exit__(*error)

    def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
        super().epoch_done(metrics)
        epoch = int(metrics["epoch"] or 0)
        seconds = metrics["seconds"] or 0.0
        every = max(1, self.n_epochs // N_LINES)
        # The first epoch may include compilation by Numba.
        if epoch == 1:
            self._first_seconds = seconds
        elif (
            epoch == 2
            and (left := (seconds - self._first_seconds) * (self.n_epochs - 2))
            >= LEAST_SECONDS
        ):
            say(f"About {duration_words(left)} to go.")
        ends = (
            self.legs[epoch - 1] not in self.legs[epoch:]
            if self.legs
            else epoch % every == 0
        )
        if ends and not self.visible:
            say(self.text)

    def stop_requested(self) -> bool:
        return self.stop


def _plan_lines(plan: hba.SearchPlan) -> list[str]:
    threads = f" ({counted(plan.threads, 'thread')})" if plan.device == "cpu" else ""
    where = "" if plan.folder is None else f"; in {plan.folder}"
    done = f" ({plan.epochs_done} done)" if plan.epochs_done else ""
    count = f"{plan.test_images:,}" if plan.test_images else "the"
    test = (
        ""
        if plan.test_images is None
        else f"; {count} test images are kept for hba evaluate, unopened"
    )
    lines = [
        (
            f"{plan.train_images:,} training and {plan.val_images:,} validation images"
            f" of {classes_line(plan.class_names, plan.left_out, plan.folder)}{test}"
        ),
        (
            f"{plan.model}, {plan.n_parameters:,} parameters, images of"
            f" {plan.image_size}x{plan.image_size}, on"
            f" {plan.device}{threads}{where}"
        ),
        f"{counted(plan.epochs, 'epoch')}{done}, each of"
        f" {counted(plan.steps_per_epoch, 'step')} on {plan.batch_size} images"
        + ("" if plan.legs else f"; {counted(plan.policy_steps, 'policy step')}"),
    ]
    if plan.regularizers:
        operations = (
            f"{counted(len(plan.operations), 'operation')}; " if plan.operations else ""
        )
        values = [f"{name} {value:.3g}" for name, value in plan.regularizers.items()]
        lines.append(f"tuned: {operations}{first_of(values, MOST_REGULARIZERS)}")
    return [*lines, *plan.notes]


def print_end(
    result: hba.SearchResult, folder: Path, command: str, evaluation: Sequence[str]
) -> None:
    """Print where the schedule is, and the next command: the evaluation, or the one
    that resumes the search.
    """
    if result.schedule is not None:
        steps = "" if result.steps is None else f"; {result.steps}"
        say(
            f"Schedule: {folder / 'policy.json'} ({result.metrics[-1]['seconds']:.0f}"
            f" s{steps})"
        )
    if result.report is not None:
        say(f"Report: {result.report}")
    if result.finished:
        say(
            "Next, see whether it helps:\n "
            f" {shlex.join(evaluation)}{operations_file_arguments()}"
        )
    else:
        epochs = (
            "the first epoch"
            if result.schedule is None
            else f"epoch {len(result.metrics) + 1}"
        )
        say(f"Stopped before the end of {epochs}. {resume_line(command, folder)}")
