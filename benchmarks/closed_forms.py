"""Problems that can be solved exactly: how near does each response come to the true one, and to the best lambda?

    python benchmarks/closed_forms.py [--seeds 5] [--problems noise,decay,decay-wide,deep,groups]
    python benchmarks/closed_forms.py --draw

Ridge regression whose penalty comes about by augmentation: input noise of scale exp(lambda), or rows that act as weight
decay exp(lambda); by linear regression and by a deep linear network. The tool's hypernetwork learns by the tool's own
updates of the response. Results go to benchmarks/results, where what is kept is not run again, and the picture to
docs/closed-forms.png; --draw only draws it, from what is kept. That what is said to be exact is, and that responses
come to it where they should, is tested in tests/test_closed_forms.py.
"""

from pathlib import Path

import click
from closed_form.tables import closed_form_table, draw
from closed_form.tasks import all_tasks
from common.records import DOCS, RESULTS, store_of
from common.running import carry_out
from common.tables import markdown
from exact.problems import PROBLEMS

from hba.errors import HbaError, SettingsError
from hba.utils.settings import words


@click.command(help=__doc__)
@click.option("--seeds", type=click.IntRange(1), default=5, show_default=True, help="Of each run, from 0.")
@click.option("--problems", default=",".join(PROBLEMS), show_default=True, help="Names, separated by commas.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="At a time, a thread each.")
@click.option("--draw", "only_draw", is_flag=True, help="Only draw the picture, from the results that are kept.")
@click.option("--estimate", is_flag=True, help="Only say what would run, and how long it takes.")
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, help="[default: benchmarks/results]")
@click.option("--picture", type=click.Path(path_type=Path), default=DOCS / "closed-forms.png", help="[default: docs/]")
def main(seeds: int, problems: str, jobs: int, only_draw: bool, estimate: bool, results: Path, picture: Path) -> None:
    store = store_of(results, "closed-forms")
    try:
        names = words(problems)
        if unknown := set(names) - set(PROBLEMS):
            raise SettingsError(f"unknown problem {min(unknown)!r}; known: {', '.join(PROBLEMS)}")
        if not only_draw:
            carry_out(list(all_tasks(names, seeds)), store, "cpu", jobs, estimate)
        if estimate:
            return
        kept = list(store.by_key().values())
        if not kept:
            raise SettingsError(f"there are no results at {store.path} to draw")
        draw(kept, picture)
    except HbaError as error:
        raise click.ClickException(str(error)) from None
    click.echo(markdown(closed_form_table(kept)))


if __name__ == "__main__":
    main()
