"""hba auto: one command that finds the best augmentation for images, tests it, and
trains a network with it.
"""

import shlex
from pathlib import Path
from typing import Any

import click

import hba
from hba.algorithms import ALGORITHMS
from hba.config.evaluation import EvaluationConfig
from hba.config.training import CommonSearchConfig
from hba.data.config import run_name
from hba.data.reading import LEFT_OUT_NAME
from hba.policy_choice.callbacks import AutoProgress
from hba.policy_search.config import SearchConfig
from hba.results.answer import answer
from hba.results.auto_answer import command_of_test
from hba.results.run import AUTO_NAME, read_left_out
from hba.utils.text import counted

from .evaluate import print_errors
from .help import SectionedCommand
from .main import INTERRUPTED
from .options import (
    DATA,
    algorithm_options,
    duration,
    given,
    number_option,
    path_option,
    settings_options,
)
from .terminal import (
    console,
    operations_file_arguments,
    operations_file_option,
    resume_line,
    run_folder,
    say,
)

BUDGET = (
    "Time for everything, such as 5m or 1h30m. [default: 20m on a CPU, 10m on a GPU;"
    " without DATA 90s]"
)
CHOSEN = {
    name: "depends on time and images"
    for name in ("model", "image_size", "epochs", "batch_size", "fast")
}
CHOSEN |= {"pretrained": "random and pretrained weights are compared"}
OF_EVALUATION = sorted(
    {*EvaluationConfig.model_fields} - {*CommonSearchConfig.model_fields} - {"with_val"}
)


@click.command(
    cls=SectionedCommand,
    params=[
        *settings_options(
            CommonSearchConfig,
            without=("data",),
            default_texts={**CHOSEN, "baseline": "none"},
        ),
        *settings_options(
            EvaluationConfig,
            without={*EvaluationConfig.model_fields} - {*OF_EVALUATION},
            default_texts={"seeds": "depends on the time"},
        ),
        *algorithm_options(
            ALGORITHMS, SearchConfig.model_fields["algorithm"].description or ""
        ),
    ],
)
@click.argument("data", required=False, shell_complete=DATA)
@click.option("--budget", "budget_seconds", type=duration, metavar="TIME", help=BUDGET)
@click.option(
    "--against",
    help=(
        "What the test compares with, as for hba evaluate. [default: none,randaugment]"
    ),
)
@path_option("--out", help="Folder of the run. [default: a new one in runs/]")
@click.option(
    "--resume", is_flag=True, help="Resume the run in --out with its settings."
)
@number_option(
    "--jobs", help="Trainings at a time. [default: on a CPU one per thread, else 1]"
)
@click.option(
    "--cluster",
    metavar="ADDRESS",
    help="Train on a running Ray cluster; auto finds that of this machine.",
)
@operations_file_option
def auto(data: str | None, out: Path | None, **options: Any) -> None:
    """Find the best augmentation for DATA within a time, test it, and train a network
    with it.

    \b
      hba auto                          digits, an example of 90 seconds
      hba auto photos/                  20 minutes on a CPU, 10 on a GPU
      hba auto photos/ --budget 1h      longer trainings, larger images, more seeds

    DATA is as for `hba search`, usually a folder DIR/<class>/*.jpg, or
    DIR/train/<class>/* with optional DIR/val and DIR/test. The network, image size,
    epochs and seeds are chosen to fit into the time, unless you set them. hba searches
    a policy, compares whole trainings with it, with recipes that people choose by hand,
    with RandAugment and without augmentation on validation images, and measures the
    best one on test images.

    Ctrl-C ends the current step and answers from the results so far. If the process is
    killed, --resume continues.
    """
    with (
        run_folder(out, run_name(data or "digits"), resume=options["resume"]) as folder,
        _Terminal() as terminal,
    ):
        try:
            result = hba.auto(data, out=folder, callback=terminal, **given(options))
        except KeyboardInterrupt:
            if (folder / AUTO_NAME).exists():
                say(resume_line("auto", folder), err=True)
            raise
    _report(result)
    if not result.finished:
        raise SystemExit(INTERRUPTED)


class _Terminal(AutoProgress):
    """Prints each line, above the bar if one is shown."""

    def said(self, line: str) -> None:
        say(line)


def _report(result: hba.AutoResult) -> None:
    """Print the numbers, the files, and what to do next, below the answer."""
    printer = console()
    folder = result.folder
    quoted = shlex.quote(str(folder))
    if result.results is not None:
        print_errors(result.results)
    for note in result.record.notes:
        printer.print(note)
    if left_out := read_left_out(folder / LEFT_OUT_NAME):
        printer.print(
            f"Left out: {counted(len(left_out), 'file')}, see {quoted}/{LEFT_OUT_NAME}"
        )
    files = {
        "policy.json": "Policy: {file}",
        "pipeline.py": "Policy as Python without hba: {file}",
        "network.pt": "Network: {file}; to use it: hba predict {folder} IMAGE...",
    }
    for name, line in files.items():
        if (folder / name).exists():
            printer.print(line.format(file=f"{quoted}/{name}", folder=quoted))
    if result.report is not None:
        printer.print(f"Report: {quoted}/{result.report.name}")
    if not result.finished:
        printer.print(resume_line("auto", folder))
    elif result.results is not None:
        command = command_of_test(result.record.model_dump(), result.results, folder)
        answered = answer(result.results, command=command + operations_file_arguments())
        if answered is not None and answered.next_step is not None:
            printer.print(f"To be surer: {answered.next_step}")
