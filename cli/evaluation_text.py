"""What `hba evaluate` prints before the first training and after the last."""

from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

import hba
from hba.config.inheritance import Sourced
from hba.data.labels import error_in_words
from hba.data.naming import shown_name
from hba.policy_evaluation import RESULTS_NAME
from hba.policy_evaluation.paired import PairedDifference
from hba.policy_evaluation.plan import EvaluationPlan
from hba.policy_evaluation.result import mean_of, std_of
from hba.utils.text import counted, nats, of_seeds, percent, points

from .options import as_typed
from .wording import class_words, left_out_words


def plan_lines(plan: EvaluationPlan) -> Iterator[str]:
    """What will be done, with what and where, and what to know before."""
    config = plan.config
    test = "" if plan.test_images is None else f" and {plan.test_images:,} test"
    images = f"{plan.train_images:,} training{test} images of {class_words(plan.class_names)}"
    yield f"{images}{left_out_words(plan.left_out, plan.folder)}"
    yield (
        f"{plan.model} on {plan.device}, {config.side}x{config.side} pixels, "
        f"{counted(config.epochs, 'epoch')} of {counted(plan.steps_per_training // config.epochs, 'step')}"
    )
    at_a_time = f", {plan.jobs} at a time" if plan.jobs > 1 else ""
    where = "" if plan.folder is None else f"; results in {plan.folder / RESULTS_NAME}"
    seeds = counted(config.seeds, "seed") + (f" from {config.first_seed} on" if config.first_seed else "")
    yield f"trainings: {plan.n_trainings} ({', '.join(plan.rows)}; {seeds}){at_a_time}{where}"
    if config.spread is not None:
        yield f"spread of all schedules: {config.spread:g} logits"
    if plan.n_kept:
        yield f"trainings that are kept: {plan.n_kept}"
    if plan.inherited:
        taken = ", ".join(f"{name} {value}" for name, value in plan.inherited.items())
        yield f"settings as in the search on {plan.inherited_from}: {taken}"
    yield from plan.notes


def print_settings(settings: Mapping[str, Sourced], printer: Console) -> None:
    """A row for each setting: its value as it would be typed, empty where the data decide, and where it comes from."""
    table = Table("setting", Column("value", overflow="fold"), "from", title="Settings; an empty value is not set")
    for name, (value, layer) in settings.items():
        table.add_row(*map(Text, (name, "" if value is None else as_typed(value), layer)))
    printer.print(table)


def print_table(result: hba.EvaluationResult, printer: Console) -> None:
    """One row for each augmentation, with its mean test loss in nats.

    Where it would be too wide, the errors of each seed stand below it.
    """
    table = _table(result, with_each_seed=True)
    is_too_wide = printer.measure(table, options=printer.options.update(width=10_000)).maximum > printer.width
    printer.print(_table(result, with_each_seed=False) if is_too_wide else table)
    if is_too_wide:
        printer.print("Each seed, in per cent:")
        for row in result.rows:
            printer.print(Text(f"  {row.name}: {_each_seed(row)}"))


def _table(result: hba.EvaluationResult, *, with_each_seed: bool) -> Table:
    config = result.config
    table = Table(
        title=Text(
            f"Test error{error_in_words(result.error)} after the last of {config.epochs} epochs: {result.model} on "
            f"{shown_name(config.data)}, {result.train_images} training and {result.test_images} test images"
        )
    )
    schedule, differences = result.rows[0].name, result.differences
    each = [_each_seed(row) for row in result.rows] if with_each_seed else []
    columns = {
        "mean": [percent(row.mean) for row in result.rows],
        "std": [percent(row.std) for row in result.rows],
        "loss": [nats(mean_of(tuple(row.test_loss_by_seed.values()))) for row in result.rows],
        "seeds": [str(len(row.seeds)) for row in result.rows],
        **({"each seed": each} if with_each_seed else {}),
    }
    table.add_column("trained with", overflow="fold")
    for heading, cells in columns.items():
        table.add_column(heading, justify="right", min_width=max(map(len, [heading, *cells])))
    if differences:
        columns["difference"] = [_points(differences.get(row.name)) for row in result.rows]
        widest = max(map(len, columns["difference"]))
        minus_this = Text(f"{schedule} minus this, 95 % interval", overflow="fold")
        table.add_column(minus_this, justify="right", min_width=widest, overflow="fold")
    for number, row in enumerate(result.rows):
        table.add_row(*map(Text, (row.name, *(cells[number] for cells in columns.values()))))
    return table


def print_balanced(result: hba.EvaluationResult, printer: Console) -> None:
    """Balanced accuracy, where the classes of the test split are unbalanced; elsewhere the error says the same."""
    if not result.is_unbalanced:
        return
    differences, schedule = result.balanced_accuracy_differences, result.rows[0].name
    table = Table(
        "trained with",
        *(Column(heading, justify="right") for heading in ("mean", "std")),
        *([Column(Text(f"{schedule} minus this, 95 % interval"), justify="right")] if differences else []),
        title="Balanced accuracy: the mean over classes of the share that is right, for the classes are unbalanced",
    )
    for row in result.rows:
        values = tuple(row.balanced_accuracy_percent.values())
        mean = percent(mean_of(values)) + of_seeds(len(values), len(row.seeds))
        cells = [row.name, mean, percent(std_of(values))]
        table.add_row(*map(Text, [*cells, *([_points(differences.get(row.name))] if differences else [])]))
    printer.print(table)


def _each_seed(row: hba.policy_evaluation.EvaluationRow) -> str:
    return "  ".join(f"{error:.2f}" for error in row.test_error_percent)


def _points(difference: PairedDifference | None) -> str:
    return "" if difference is None else points(difference.mean, difference.interval)
