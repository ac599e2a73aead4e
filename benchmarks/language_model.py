"""Is a language model better by a schedule of regularisation that STN or Delta-STN has found?

    python benchmarks/language_model.py run [--data DIR] [--jobs 2] [--estimate]
    python benchmarks/language_model.py page

`run` does what benchmarks/language_models/plan.toml says: searches on parts of WikiText-2's held-out text, ordinary
trainings by what they found, and trainings with fixed rates. DIR has its valid.txt and test.txt. Each run's results are
kept as soon as it ended, in benchmarks/results/language-model.jsonl. `page` writes the table of
docs/language-models.md.
"""

import tomllib
from pathlib import Path

import click
from common.pages import fill_page
from common.records import DOCS, store_of
from common.running import carry_out
from language_models.page import MARK, table_of
from language_models.tasks import Plan, tasks_of
from language_models.texts import source, write_parts
from quality.options import DEVICE, KEPT_IN

from hba.errors import HbaError

PLAN = Path(__file__).parent / "language_models" / "plan.toml"
QUESTION = "language-model"


@click.group(help=__doc__)
def main() -> None:
    """Commands."""


@main.command(help="Run what the plan says.")
@click.option("--data", help="Folder of wikitext-2-heldout. [default: that in the folder HBA_DATA]")
@click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="At a time, a thread each.")
@DEVICE
@click.option("--work", type=click.Path(path_type=Path), default=Path("runs/language-model"), show_default=True)
@KEPT_IN
@click.option("--estimate", is_flag=True, help="Only say what would run, and how long it takes.")
def run(data: str | None, jobs: int, device: str, work: Path, results: Path, estimate: bool) -> None:
    try:
        plan = Plan.make(tomllib.loads(PLAN.read_text(encoding="utf-8")))
        text = write_parts(source(data), plan.words, work / "text")
        carry_out(tasks_of(plan, text, device, work), store_of(results, QUESTION), device, jobs, estimate)
    except HbaError as error:
        raise click.ClickException(str(error)) from None


@main.command(help="Write the table of docs/language-models.md.")
@KEPT_IN
def page(results: Path) -> None:
    fill_page("language-models", MARK, DOCS, table_of(list(store_of(results, QUESTION).by_key().values())))


if __name__ == "__main__":
    main()
