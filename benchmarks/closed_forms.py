"""Problems that can be solved exactly: how near does each response come to the true one, and to the best lambda?

    python benchmarks/closed_forms.py [--seeds 5] [--problems noise,decay,decay-wide,deep,groups]
    python benchmarks/closed_forms.py --draw

Ridge regression whose penalty comes about by augmentation: input noise of scale exp(lambda), or rows that act as weight
decay exp(lambda); by linear regression and by a deep linear network. The tool's hypernetwork learns by the tool's own
updates of the response. Results go to benchmarks/results/quality/closed-forms, where those of problems that were not
run again stay, and the picture to docs/closed-forms.png; --draw only draws it, from what is kept.
"""

import json
from pathlib import Path

import click
import torch
from closed_form.picture import draw
from closed_form.problems import PROBLEMS
from closed_form.record import HEADINGS, Record, record, table_rows

from hba.errors import HbaError, SettingsError
from hba.policy.magnitude_table import as_markdown
from hba.runtime.files import write_text
from hba.runtime.validation import words

ROOT = Path(__file__).parent
RESULTS = ROOT / "results" / "quality" / "closed-forms" / "closed_forms.json"
PICTURE = ROOT.parent / "docs" / "closed-forms.png"


@click.command(help=__doc__)
@click.option("--seeds", type=click.IntRange(1), default=5, show_default=True, help="Of each run, from 0.")
@click.option("--problems", default=",".join(PROBLEMS), show_default=True, help="Names, separated by commas.")
@click.option("--draw", "only_draw", is_flag=True, help="Only draw the picture, from the results that are kept.")
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, help="[default: benchmarks/results/...]")
@click.option("--picture", type=click.Path(path_type=Path), default=PICTURE, help="[default: docs/closed-forms.png]")
def main(seeds: int, problems: str, only_draw: bool, results: Path, picture: Path) -> None:
    try:
        names = words(problems)
        if unknown := set(names) - set(PROBLEMS):
            raise SettingsError(f"unknown problem {min(unknown)!r}; known: {', '.join(PROBLEMS)}")
        if only_draw and not results.exists():
            raise SettingsError(f"there are no results at {results} to draw")
        if not only_draw:
            # More threads only slow matrices as small as these.
            torch.set_num_threads(1)
            for name in names:
                keep(name, record(PROBLEMS[name], seeds, click.echo), results)
        records = kept(results)
        draw(records, picture)
    except HbaError as error:
        raise click.ClickException(str(error)) from None
    click.echo(as_markdown(HEADINGS, table_rows(records)))


def kept(results: Path) -> dict[str, Record]:
    """By name, in the order of the problems."""
    records = json.loads(results.read_text(encoding="utf-8")) if results.exists() else {}
    return {name: records[name] for name in PROBLEMS if name in records}


def keep(name: str, found: Record, results: Path) -> None:
    """Put the record of a problem in the place of its last one."""
    write_text(results, json.dumps(kept(results) | {name: found}, separators=(",", ":"), allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
