"""hba search: find a schedule."""

import shlex
import signal
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import click

import hba
from hba.algorithms import ALGORITHMS
from hba.algorithms.update_schedule import advice_in, overfitting_note_in
from hba.config.presets import SEARCH_PRESETS
from hba.config.search import CommonSearchConfig
from hba.data.naming import run_name
from hba.distributed.collectives import joined
from hba.distributed.process_info import is_first
from hba.errors import SettingsError
from hba.policy_search.budget import Budget, with_many_epochs
from hba.policy_search.config import SearchConfig
from hba.policy_search.earlier import from_earlier_config
from hba.policy_search.progress import SearchProgress
from hba.policy_search.tensorboard import TensorBoardLogger
from hba.report.findings import change_lines, error_told, evaluation_words, network_line, reach_line, spread_line
from hba.schedule.library import seed_folders
from hba.utils.progress import CallbackList
from hba.utils.tensorboard import FOLDER_NAME
from hba.utils.text import counted

from .completion import DATA, SEARCH_PRESET
from .durations import duration
from .main import BEGAN
from .operations_files import operations_file_arguments, operations_file_option
from .options import algorithm_options, given, settings_options
from .plan import Estimate, plan_lines
from .search_seeds import search_seeds
from .sections import SectionedCommand
from .terminal import console, run_folder, say

N_LINES = 10
DEFAULT_TEXTS = dict.fromkeys(
    (name for settings in SEARCH_PRESETS.values() for name in settings), "by dataset, else {}"
)


@click.command(cls=SectionedCommand)
@click.argument("data", required=False, shell_complete=DATA)
@click.option(
    "--preset",
    metavar="NAME",
    shell_complete=SEARCH_PRESET,
    help="Start from these settings, as `hba presets` lists them. [default: by dataset, none for a folder]",
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the run. [default: a new one in runs/]")
@click.option(
    "--resume",
    is_flag=True,
    help="Resume the run in --out, with its settings: DATA may be where its images are now, --epochs may be more.",
)
@click.option(
    "--paper",
    is_flag=True,
    help="The paper's search: another name for --algorithm hba, whose defaults are the paper's.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="Begin with the settings of an earlier search, its folder or config.json; what is given here replaces them.",
)
@click.option(
    "--budget",
    "budget_seconds",
    type=duration,
    metavar="TIME",
    help="Choose the number of epochs so that the search ends within this time here: 90s, 20m, 1h30m.",
)
@click.option("--tensorboard", is_flag=True, help="Write TensorBoard events into the run's folder tensorboard/.")
@click.option(
    "--seeds",
    type=int,
    metavar="INT",
    help="Search so many times, with --seed and the numbers after it, each in a folder of its own in --out, and show "
    "what the searches have in common. [default: one search]",
)
@click.option(
    "--jobs",
    type=int,
    default=1,
    show_default=True,
    metavar="INT",
    help="With --seeds: searches at a time, each in its own process with its share of the threads.",
)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="With --seeds: search on the machines of a running Ray cluster, as `hba evaluate` trains there.",
)
@operations_file_option
@settings_options(CommonSearchConfig, without=("data",), default_texts=DEFAULT_TEXTS)
@algorithm_options(ALGORITHMS, SearchConfig.model_fields["algorithm"].description or "", default_texts=DEFAULT_TEXTS)
def search(
    data: str | None,
    preset: str | None,
    out: Path | None,
    resume: bool,
    paper: bool,
    tensorboard: bool,
    config: Path | None,
    budget_seconds: float | None,
    seeds: int | None,
    jobs: int,
    cluster: str | None,
    **options: Any,
) -> None:
    """Search a schedule of augmentations for DATA.

    DATA is digits (the default), cifar10, cifar100, svhn, svhn-full, fashionmnist, imagenet, or a folder
    DIR/<class>/*.png, or DIR/train/<class>/*.png with optional DIR/val, DIR/test; a .csv or .parquet table of image
    paths and labels; a .npz file of arrays; or a folder that the library datasets has saved.
    """
    if resume and out is None:
        raise SettingsError("--resume needs --out, the folder of the run to resume")
    if resume and (preset is not None or paper):
        raise SettingsError("--resume keeps the settings of the run; remove --preset and --paper")
    budget = None if budget_seconds is None else Budget(budget_seconds, click.get_current_context().meta[BEGAN])
    named = given({"data": data, **options})
    if budget is not None:
        named = with_many_epochs(named)
    name = "" if out is not None else run_name(_data_of(named, preset, paper, config))
    if seeds is not None or (resume and out is not None and seed_folders(out)):
        if tensorboard:
            raise SettingsError("--tensorboard is of one search; omit --seeds, or --tensorboard")
        settings = given({**options, "budget_seconds": budget, "config": config})
        with joined(), run_folder(out, name) as folder:
            search_seeds(
                data, folder, _Terminal, seeds, jobs, cluster, preset=preset, paper=paper, resume=resume, **settings
            )
        return
    if jobs != 1 or cluster is not None:
        raise SettingsError("--jobs and --cluster are for several searches; add --seeds")
    with joined(), run_folder(out, name) as folder:
        with _Terminal() as callback:
            told: Any = callback
            if tensorboard and is_first():
                told = CallbackList(callback, TensorBoardLogger(folder / FOLDER_NAME))
            try:
                result = hba.search(
                    data,
                    preset=preset,
                    paper=paper,
                    out=folder,
                    resume=resume,
                    callback=told,
                    **given({**options, "budget_seconds": budget, "config": config}),
                )
            finally:
                callback.restore_signals()
        if is_first():
            _report(result, folder)
    if not result.finished:
        raise SystemExit(130)


def _data_of(named: dict[str, Any], preset: str | None, paper: bool, config: Path | None) -> str:
    if config is not None:
        return from_earlier_config(config, named).data
    return SearchConfig.from_preset(named, preset, paper=paper).data


class _Terminal(SearchProgress):
    """Shows progress: a bar in a terminal, a few lines elsewhere. Ctrl-C or SIGTERM ends the search after its step."""

    def __init__(self) -> None:
        super().__init__()
        self.stop = False
        self.estimate = Estimate()
        self.previous_handlers: dict[int, Any] = {}

    def planned(self, plan: hba.SearchPlan) -> None:
        for line in plan_lines(plan):
            say(line)
        self.begin(plan)
        self.estimate.begin(plan)

    def started(self, step: int, total_steps: int, batch_size: int, n_epochs: int) -> None:
        super().started(step, total_steps, batch_size, n_epochs)
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.signal(number, self._request_stop)
            # Of several searches, the first one has found the caller's.
            self.previous_handlers.setdefault(number, before)

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        """The second one ends the process at once."""
        self.stop = True
        self.restore_signals()

    def restore_signals(self) -> None:
        for number, handler in self.previous_handlers.items():
            signal.signal(number, handler)

    def stop_requested(self) -> bool:
        return self.stop

    def step_done(self, step: int) -> None:
        super().step_done(step)
        if words := self.estimate.step_done(step):
            say(words)

    def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
        super().epoch_done(metrics)
        epoch = int(metrics["epoch"] or 0)
        if not self.bar.visible and epoch % max(1, self.n_epochs // N_LINES) == 0:
            say(self.text)


def _report(result: hba.SearchResult, out: Path) -> None:
    """What was found, where it is, and what to do next."""
    printer = console()
    own = operations_file_arguments()
    go_on = f"hba search --out {shlex.quote(str(out))} --resume{own}"
    if result.schedule is None:
        printer.print(f"Stopped before the end of the first epoch. Resume with:\n  {go_on}")
        return
    schedule = result.schedule
    for line in change_lines(schedule):
        printer.print(line)
    if schedule.space.operations:
        printer.print(reach_line(schedule, schedule.epochs - 1))
    if schedule.spread.any():
        printer.print(spread_line(schedule))
    errors = ((metrics["epoch"], metrics["val_error_percent"]) for metrics in result.metrics)
    measured = [(int(epoch), error) for epoch, error in errors if epoch is not None and error is not None]
    printer.print(network_line(dict((measured[0], measured[-1])), error_told(schedule.provenance)))
    for note in filter(None, (advice_in(schedule.provenance), overfitting_note_in(schedule.provenance))):
        printer.print(note)
    policy = out / "policy.json"
    printer.print(f"Schedule: {policy} ({result.metrics[-1]['seconds']:.0f} s)")
    if result.report is not None:
        printer.print(f"Report: {result.report}")
    if result.finished:
        printer.print(f"Next, see whether it helps:\n  {shlex.join(evaluation_words(policy, schedule))}{own}")
    else:
        printer.print(f"Stopped after {counted(schedule.epochs, 'epoch')}; resume with:\n  {go_on}")
