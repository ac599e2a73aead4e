"""hba search: find a schedule."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

import hba
from hba.algorithms import ALGORITHMS
from hba.algorithms.update_schedule import advice_in, overfitting_note_in
from hba.config.presets import SEARCH_PRESETS, find_preset
from hba.config.training import CommonSearchConfig
from hba.data.config import run_name
from hba.distributed.collectives import joined
from hba.distributed.process_info import is_first
from hba.errors import HbaError, SettingsError
from hba.policy_search.budget import Budget
from hba.policy_search.callbacks import SearchProgress, TensorBoardLogger
from hba.policy_search.config import SearchConfig, from_config
from hba.report.findings import (
    change_lines,
    error_definition,
    evaluation_words,
    network_line,
    network_measured,
    reach_line,
    regularizer_table,
    spread_line,
)
from hba.report.over_seeds import OverSeeds
from hba.schedule.library import seed_folder, seed_folders
from hba.utils.progress import CallbackList
from hba.utils.tensorboard import FOLDER_NAME
from hba.utils.text import counted, first_of, percent
from hba.utils.text import duration as duration_words

from .completion import DATA, SEARCH_PRESET
from .help import SectionedCommand
from .main import BEGAN, INTERRUPTED
from .options import algorithm_options, duration, given, number_option, path_option, settings_options
from .show import print_over_seeds
from .terminal import (
    SearchTerminal,
    class_words,
    console,
    left_out_words,
    operations_file_arguments,
    operations_file_option,
    run_folder,
    say,
    table,
)

MOST_REGULARIZERS = 8
BUDGET = "Choose the number of epochs so that the search ends within this time: 90s, 20m, 1h30m."
LEAST_SECONDS = 60.0
"""A shorter search does not say how long it will take."""
DEFAULT_TEXTS = dict.fromkeys(
    (name for settings in SEARCH_PRESETS.values() for name in settings), "by dataset, else {}"
)


@click.command(cls=SectionedCommand)
@click.argument("data", required=False, shell_complete=DATA)
@click.option("--preset", metavar="NAME", shell_complete=SEARCH_PRESET, help="Settings by name, see `hba presets`.")
@path_option("--out", help="Folder of the run. [default: a new one in runs/]")
@click.option("--resume", is_flag=True, help="Resume the run in --out with its settings; --epochs may be more.")
@click.option("--paper", is_flag=True, help="Search as in the paper: --algorithm hba, whose defaults are the paper's.")
@path_option("--config", help="Start from the settings of an earlier search: its folder or config.json.")
@click.option("--budget", "budget_seconds", type=duration, metavar="TIME", help=BUDGET)
@click.option("--tensorboard", is_flag=True, help="Write TensorBoard events into the run's folder tensorboard/.")
@number_option("--seeds", help="Number of searches, with seeds from --seed on, each in its own folder in --out.")
@number_option("--jobs", default=1, help="With --seeds: searches at a time. [default: 1]")
@click.option("--cluster", metavar="ADDRESS", help="With --seeds: search on a running Ray cluster, or auto.")
@operations_file_option
@settings_options(CommonSearchConfig, without=("data",), default_texts=DEFAULT_TEXTS)
@algorithm_options(ALGORITHMS, SearchConfig.model_fields["algorithm"].description or "", default_texts=DEFAULT_TEXTS)
def search(data: str | None, out: Path | None, seeds: int | None, **options: Any) -> None:
    """Search an augmentation schedule for DATA.

    DATA is digits (the default), cifar10, cifar100, svhn, svhn-full, fashionmnist, imagenet, or a folder
    DIR/<class>/*.png, or DIR/train/<class>/*.png with optional DIR/val, DIR/test; a .csv or .parquet table of image
    paths and labels; a .npz file of arrays; or a folder that the library datasets has saved.
    """
    resume, several, tensorboard = options["resume"], seeds is not None, options.pop("tensorboard")
    jobs, cluster = options.pop("jobs"), options.pop("cluster")
    if resume and out is None:
        raise SettingsError("--resume needs --out, the folder of the run to resume")
    if resume and (options["preset"] is not None or options["paper"]):
        raise SettingsError("--resume keeps the settings of the run; remove --preset and --paper")
    if options["budget_seconds"] is not None:
        options["budget_seconds"] = Budget(options["budget_seconds"], click.get_current_context().meta[BEGAN])
    several = several or bool(resume and out is not None and seed_folders(out))
    if several and tensorboard:
        raise SettingsError("--tensorboard is for one search; omit --seeds, or --tensorboard")
    if not several and (jobs != 1 or cluster is not None):
        raise SettingsError("--jobs and --cluster are for several searches; add --seeds")
    settings = given(options)
    name = "" if out is not None else _run_name(data, options["preset"], options["config"])
    with joined(), run_folder(out, name) as folder:
        if several:
            finished = _search_seeds(data, folder, seeds=seeds, jobs=jobs, cluster=cluster, **settings)
        else:
            finished = _search_once(data, folder, tensorboard=tensorboard, **settings)
    if not finished:
        raise SystemExit(INTERRUPTED)


def _run_name(data: str | None, preset: str | None, config: Path | None) -> str:
    """The name of the folder of a run, after its data."""
    if data is None and config is not None:
        data = from_config(config, {}).data
    return run_name(data or (find_preset(preset)["data"] if preset else "digits"))


def _search_once(data: str | None, folder: Path, *, tensorboard: bool, **settings: Any) -> bool:
    """Whether the search has finished."""
    with _Terminal() as terminal:
        callback: Any = terminal
        if tensorboard and is_first():
            callback = CallbackList(terminal, TensorBoardLogger(folder / FOLDER_NAME))
        try:
            result = hba.search(data, out=folder, callback=callback, **settings)
        finally:
            terminal.restore_signals()
    if is_first():
        _report(result, folder)
    return result.finished


def _search_seeds(data: str | None, folder: Path, **settings: Any) -> bool:
    """The same search with several seeds, and what the searches agree on; whether all have finished."""
    done: list[int] = []
    resume = f"hba search --out {shlex.quote(str(folder))} --resume{operations_file_arguments()}"

    def on_done(seed: int, _: Path) -> None:
        done.append(seed)
        of_seed = seed_folder(folder, seed)
        error = next(iter(network_measured(hba.load_policy(of_seed).provenance).values()), None)
        say(f"seed {seed}: validation error {percent(error)}; {of_seed / 'policy.json'}")

    try:
        with _Terminal() as terminal:
            try:
                found = hba.repeated_search(data, out=folder, callback=terminal, on_done=on_done, **settings)
            finally:
                terminal.restore_signals()
    except (KeyboardInterrupt, HbaError):
        if done:
            say(f"searches that ended: {counted(len(done), 'seed')}, in {folder}; resume with:\n  {resume}", err=True)
        raise
    if found is None:
        say(f"Stopped; resume with:\n  {resume}")
    elif is_first():
        _report_over_seeds(found, folder)
    return found is not None


class _Terminal(SearchTerminal, SearchProgress):
    """Shows progress: a bar in a terminal, a few lines elsewhere."""

    def planned(self, plan: hba.SearchPlan) -> None:
        for line in plan_lines(plan):
            say(line)
        self.begin(plan)

    def started(self, step: int, total_steps: int, batch_size: int, n_epochs: int) -> None:
        super().started(step, total_steps, batch_size, n_epochs)
        self.catch_signals()

    def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
        super().epoch_done(metrics)
        epoch, seconds = int(metrics["epoch"] or 0), metrics["seconds"] or 0.0
        if epoch == 1 and (left := seconds * (self.n_epochs - 1)) >= LEAST_SECONDS:
            say(f"About {duration_words(left)} to go.")
        self.say_epoch(epoch)


def plan_lines(plan: hba.SearchPlan) -> list[str]:
    """What a search will do: the images, the network and the device, the number of steps, and notes."""
    threads = f" ({counted(plan.threads, 'thread')})" if plan.device == "cpu" else ""
    shared = f", shared by {plan.processes} processes" if plan.processes > 1 else ""
    done = f" ({plan.epochs_done} done)" if plan.epochs_done else ""
    where = f"; in {plan.folder}" if plan.folder is not None else ""
    test = "" if plan.test_images is None else f"; the test images of {plan.data} are kept for hba evaluate, unopened"
    if plan.test_images:
        test = f"; {plan.test_images:,} test images are kept for hba evaluate"
    lines = [
        f"{plan.train_images:,} training and {plan.val_images:,} validation images of {class_words(plan.class_names)}"
        f"{test}{left_out_words(plan.left_out, plan.folder)}",
        f"{plan.model}, {plan.n_parameters:,} parameters, images of {plan.image_size}x{plan.image_size}, on "
        f"{plan.device}{threads}{shared}{where}",
        f"{counted(plan.epochs, 'epoch')}{done}, each of {counted(plan.steps_per_epoch, 'step')} on {plan.batch_size} "
        f"images; {counted(plan.policy_steps, 'policy step')}",
    ]
    if plan.regularizers:
        operations = f"{counted(len(plan.operations), 'operation')}; " if plan.operations else ""
        values = [f"{name} {value:.3g}" for name, value in plan.regularizers.items()]
        lines.append(f"tuned: {operations}{first_of(values, MOST_REGULARIZERS)}")
    return [*lines, *plan.notes]


def _report(result: hba.SearchResult, out: Path) -> None:
    """What was found, where it is, and what to do next."""
    printer = console()
    own = operations_file_arguments()
    resume = f"hba search --out {shlex.quote(str(out))} --resume{own}"
    if result.schedule is None:
        printer.print(f"Stopped before the end of the first epoch. Resume with:\n  {resume}")
        return
    schedule = result.schedule
    for line in change_lines(schedule):
        printer.print(line)
    if schedule.space.regularizers:
        printer.print(table(*regularizer_table(schedule), "Regularizers", numbers=True))
    if schedule.space.operations:
        printer.print(reach_line(schedule, schedule.epochs - 1))
    if schedule.spread.any():
        printer.print(spread_line(schedule))
    errors = ((metrics["epoch"], metrics["val_error_percent"]) for metrics in result.metrics)
    measured = [(int(epoch), error) for epoch, error in errors if epoch is not None and error is not None]
    printer.print(network_line(dict((measured[0], measured[-1])), error_definition(schedule.provenance)))
    for note in filter(None, (advice_in(schedule.provenance), overfitting_note_in(schedule.provenance))):
        printer.print(note)
    policy = out / "policy.json"
    printer.print(f"Schedule: {policy} ({result.metrics[-1]['seconds']:.0f} s)")
    if result.report is not None:
        printer.print(f"Report: {result.report}")
    if result.finished:
        printer.print(f"Next, see whether it helps:\n  {shlex.join(evaluation_words(policy, schedule))}{own}")
    else:
        printer.print(f"Stopped after {counted(schedule.epochs, 'epoch')}; resume with:\n  {resume}")


def _report_over_seeds(found: OverSeeds, folder: Path) -> None:
    printer = console()
    print_over_seeds(str(folder), found, printer)
    first, *others = (str(seed_folder(folder, seed)) for seed in sorted(found.schedules))
    printer.print(
        f"Each search has a folder, such as {first}; `hba show {shlex.quote(str(folder))}` prints this again."
    )
    words = ["hba", "evaluate", first, "--against", ",".join(["none", *others])]
    printer.print(f"Next, see whether they help:\n  {shlex.join(words)}{operations_file_arguments()}")
