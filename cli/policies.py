"""hba policies: the schedules that ship with the package, and the card of one."""

import click

from hba.schedule.library import policy_names, shipped_schedules
from hba.utils.text import percent

from .terminal import console, json_option, print_json, table


def _completed(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in policy_names() if name.startswith(incomplete)]


@click.command()
@click.argument("name", required=False, shell_complete=_completed)
@json_option
def policies(name: str | None, as_json: bool) -> None:
    """List the schedules that ship with the package, or print the card of NAME.

    A card says what a schedule was found on and by which commands, and what trainings with it came to beside others.
    The names work wherever a command takes a SCHEDULE.
    """
    if name is not None:
        _print_card(name, as_json)
    elif as_json:
        print_json([schedule._asdict() for schedule in shipped_schedules()])
    else:
        _print_list()


def _print_list() -> None:
    shown = table(("name", "dataset", "model", "epochs", "test error", "verdict"))
    for schedule in shipped_schedules():
        origin, results = schedule.provenance, schedule.card["results"]
        verdict = results["verdict_details"]
        shown.add_row(
            schedule.name,
            str(origin.get("dataset")),
            str(origin.get("model")),
            str(schedule.epochs),
            percent(results["rows"][0]["mean"]),
            f"{verdict['kind']}, against {verdict['against']}",
        )
    console().print(shown)
    console().print("hba policies NAME prints the card of one.")


def _print_card(name: str, as_json: bool) -> None:
    # What reads and draws tables of an evaluation is imported for this alone.
    from hba.report.card import costs, read_card
    from hba.report.contests import errors_table

    card = read_card(name)
    if as_json:
        print_json(card.model_dump(mode="json"))
        return
    results, printer = card.results, console()
    printer.print(card.text)
    found = errors_table(results)
    shown = table(found.headings)
    for row in found.rows:
        shown.add_row(*row)
    printer.print(shown)
    if results.verdict is not None:
        printer.print(results.verdict)
    packages = ", ".join(f"{name} {results.packages.get(name)}" for name in ("hba-augment", "torch"))
    for line in costs(name):
        printer.print(line)
    printer.print(f"{results.test_images} test images; {packages}. To make it again:")
    for command in (card.search, card.evaluate):
        printer.print(f"  {command}", soft_wrap=True)
