"""hba evaluate-text: does a schedule of regularisation help a language model?"""

from pathlib import Path
from typing import Any

import click

import hba.text
from hba.errors import DivergedError, HbaError, SettingsError
from hba.text.config import TextEvaluationConfig
from hba.text.evaluation import RIVALS, Loss, TextEvaluationProgress
from hba.text.measure import in_words, perplexity
from hba.utils.interrupts import terminated_as_interrupted

from .completion import SCHEDULE
from .options import given, settings_options
from .sections import SectionedCommand
from .terminal import console, kept_line, run_folder, say


@click.command(name="evaluate-text", cls=SectionedCommand)
@click.argument("schedule", shell_complete=SCHEDULE)
@click.argument("data", required=False, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Folder for results.json. [default: a new one in runs/]")
@click.option(
    "--resume", is_flag=True, help="Resume the evaluation in --out: there may be more seeds, and more rivals."
)
@click.option(
    "--against",
    metavar="NAMES",
    default="none,static,final",
    show_default=True,
    help=f"Fixed regularisations to compare with, separated by commas: {', '.join(RIVALS)}.",
)
@settings_options(
    TextEvaluationConfig,
    without=("data",),
    default_texts=dict.fromkeys((*TextEvaluationConfig.model_fields.keys() - {"seeds", "device"},), "as in the search"),
)
def evaluate_text(
    schedule: str, data: Path | None, out: Path | None, resume: bool, against: str, **options: Any
) -> None:
    """Train language models with SCHEDULE and with fixed regularisation, and compare their test perplexities.

    DATA is the folder of text; left out, that of the search.

    Ctrl-C, or SIGTERM, keeps the trainings that have ended; the same command with --out and --resume does the others.
    """
    if resume and out is None:
        raise SettingsError("--resume needs --out, the folder of the evaluation to resume")
    with run_folder(out, "evaluate") as folder, _Terminal() as callback, terminated_as_interrupted():
        try:
            found = hba.text.evaluate(
                schedule, data, against=against, out=folder, resume=resume, callback=callback, **given(options)
            )
        except (KeyboardInterrupt, HbaError) as error:
            if callback.n_done:
                say(kept_line(callback.n_done, folder, has_diverged=isinstance(error, DivergedError)), err=True)
            raise
    for line in found.lines():
        console().print(line)
    console().print(f"Results: {folder / 'results.json'}")


class _Terminal(TextEvaluationProgress):
    """Shows progress: a bar in a terminal, a line for each training elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.n_done = 0

    def training_done(self, name: str, seed: int, loss: Loss) -> None:
        self.n_done += 1
        super().training_done(name, seed, loss)
        if not self.bar.visible:
            say(f"{name}, seed {seed}: test perplexity {in_words(perplexity(loss.test))}")
