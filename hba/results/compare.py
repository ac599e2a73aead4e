"""Comparison of runs: the settings that differ, and the results."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hba.algorithms.race_findings import leg_ends
from hba.errors import SettingsError
from hba.results.evaluation import mean_of
from hba.results.provenance import error_definition
from hba.results.run import SEARCH_FOLDER, Run
from hba.results.tables import Table, settings_facts, share_of
from hba.schedule.summary import reach, summarize, summarize_regularizers
from hba.utils.text import percent, points

SETTINGS = "Settings that differ"
VALIDATION = "Validation of the search network"
TEST = "Test error and loss"
SCHEDULES = "Schedules in their last epoch"
REGULARIZERS = "Regularizers in their last epoch"


@dataclass(frozen=True)
class Comparison:
    """Runs to compare, by name."""

    runs: Mapping[str, Run]

    def tables(self) -> Mapping[str, Table]:
        """Tables by title, with a column for each run, without empty tables."""
        settings = self._table(_settings, "-")
        differing = tuple(row for row in settings.rows if len({*row[1:]} - {"-"}) > 1)
        tables = {
            SETTINGS: Table(settings.headings, differing),
            VALIDATION: self._table(_validation),
            TEST: self._table(partial(_test_errors, names=_names_of_rows(self.runs))),
            SCHEDULES: self._table(
                _operations, corner="images (probability, magnitude)"
            ),
            REGULARIZERS: self._table(_regularizers, "-"),
        }
        return {title: table for title, table in tables.items() if table.rows}

    def _table(
        self,
        of_run: Callable[[Run], Mapping[str, str]],
        missing: str = "",
        corner: str = "",
    ) -> Table:
        """A table with a row for each name in the cells of any run, in the order of
        their first mention.
        """
        columns = [of_run(run) for run in self.runs.values()]
        names = dict.fromkeys(name for column in columns for name in column)
        rows = tuple(
            (name, *(column.get(name, missing) for column in columns)) for name in names
        )
        return Table((corner, *self.runs), rows)


def compare(*runs: str | Path) -> Comparison:
    """Compare runs: folders of searches and evaluations.

    Raises SettingsError without a folder, and RunError if a folder contains no run or
    its files are broken.
    """
    if not runs:
        raise SettingsError(
            "compare needs at least one run: the folder of a search or an evaluation"
        )
    return Comparison({str(folder): Run.read(folder) for folder in runs})


def _settings(run: Run) -> Mapping[str, str]:
    of_search = {} if run.search is None else settings_facts(run.search.settings)
    of_evaluation = {} if run.results is None else settings_facts(run.results.settings)
    return of_search | {
        f"{name} (evaluation)": text for name, text in of_evaluation.items()
    }


def _validation(run: Run) -> Mapping[str, str]:
    """Loss and error after the last epoch with a validation; empty for a race, which
    has many networks.
    """
    losses = {} if run.search is None else run.search.measured("val_loss")
    if run.search is None or not losses or leg_ends(run.search.schedule.provenance):
        return {}
    cells = {"epoch": f"{max(losses)}", "loss": f"{losses[max(losses)]:.3f}"}
    errors = run.search.measured("val_error_percent")
    if errors:
        cells["error"] = percent(errors[max(errors)])
    definition = error_definition(run.search.schedule.provenance)
    if definition:
        cells["an error is"] = definition
    return cells


def _test_errors(run: Run, names: Mapping[str, str]) -> Mapping[str, str]:
    """Mean error of each row, its loss if it was stored, and the difference to the
    first.

    names: of the rows of all runs, by definition (see _names_of_rows).
    """
    if (results := run.results) is None:
        return {}
    cells = {"an error is": results.error} if results.error else {}
    first = names[results.rows[0].definition]
    for row in results.rows:
        name = names[row.definition]
        loss = mean_of(row.by_seed("test_loss"))
        cells[name] = percent(row.mean)
        if loss is not None:
            unit = " nats" if results.scale is None else ""
            cells[name] += f"  (loss {loss:.3f}{unit})"
        minus = results.differences.get(row.name)
        if minus is not None and name != first:
            cells[f"{first} minus {name}"] = points(minus.mean, minus.interval)
    return cells


def _names_of_rows(runs: Mapping[str, Run]) -> Mapping[str, str]:
    """A name for each augmentation of the evaluations, by its definition.

    Different augmentations that share a name, such as the policies of two searches,
    also have the name of their run.
    """
    rows = [
        (row, run_name)
        for run_name, run in runs.items()
        for row in (run.results.rows if run.results is not None else ())
    ]
    definitions: dict[str, set[str]] = {}
    for row, _ in rows:
        definitions.setdefault(row.name, set()).add(row.definition)
    names: dict[str, str] = {}
    for row, run_name in rows:
        # Every run of hba auto calls the policy that it has found so.
        is_shared = row.name == SEARCH_FOLDER or len(definitions[row.name]) > 1
        name = f"{row.name} of {run_name}" if is_shared else row.name
        names.setdefault(row.definition, name)
    return names


def _operations(run: Run) -> Mapping[str, str]:
    """Share of images, probability and magnitude of each operation: means over its
    copies, or one of each copy.
    """
    if run.schedule is None:
        return {}
    last = run.schedule.epochs - 1
    cells = {}
    shares = reach(run.schedule, last).shares
    for summary in summarize(run.schedule, (last,)):
        copies = (summary.shown_magnitudes or ((),))[-1]
        numbers = ", ".join(
            [f"{summary.probability[-1]:.2f}", *(f"{copy:.3g}" for copy in copies)]
        )
        operation = summary.operation
        cells[operation.name] = f"{share_of(operation, shares)}  ({numbers})"
    return cells


def _regularizers(run: Run) -> Mapping[str, str]:
    if run.schedule is None:
        return {}
    cells = {}
    for summary in summarize_regularizers(run.schedule):
        hyperparameter = summary.hyperparameter
        value = f"{summary.values[-1]:.3g} {hyperparameter.unit or ''}"
        cells[hyperparameter.name] = value.rstrip()
    return cells
