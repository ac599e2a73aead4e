"""Runs side by side: which settings differ, and what was found."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hba.errors import SettingsError
from hba.report.findings import error_definition
from hba.report.page import settings_facts
from hba.report.results import mean_of
from hba.report.run import Run
from hba.report.tables import Table, share
from hba.schedule.summary import reach, summarize, summarize_regularizers
from hba.utils.text import nats, percent, points

SETTINGS, VALIDATION, TEST = "Settings that differ", "Validation of the search network", "Test error and loss"
SCHEDULES, REGULARIZERS = "Schedules in their last epoch", "Regularizers in their last epoch"
WHERE = ("data_root", "workers", "device", "download")
"""Settings that say where things are and what computes, which are not shown as differences."""

Cells = Mapping[str, str]
"""What one run has, by the name of a table's row."""


@dataclass(frozen=True)
class Comparison:
    """Runs, by names that tell them apart."""

    runs: Mapping[str, Run]

    def tables(self) -> Mapping[str, Table]:
        """By title, a column for each run; those without a row are left out."""
        settings = [*self._differing(_of_search), *self._differing(_of_evaluation, " (evaluation)")]
        found = {
            SETTINGS: Table(("", *self.runs), tuple(settings)),
            VALIDATION: self._table(_validation),
            TEST: self._table(_test_errors),
            SCHEDULES: self._table(_operations, corner="images (probability, magnitude)"),
            REGULARIZERS: self._table(_regularizers, "-"),
        }
        return {title: table for title, table in found.items() if table.rows}

    def _differing(self, of_run: Callable[[Run], Cells], suffix: str = "") -> Iterator[tuple[str, ...]]:
        """Rows of the settings that the runs which have any do not share; a dash where a run lacks one."""
        known = [bool(of_run(run)) for run in self.runs.values()]
        for name, *cells in self._table(of_run, "-").rows:
            values = {"not set" if cell == "-" else cell for cell in itertools.compress(cells, known)}
            if name not in WHERE and len(values) > 1:
                yield name + suffix, *cells

    def _table(self, of_run: Callable[[Run], Cells], missing: str = "", corner: str = "") -> Table:
        """A row for each name that a run has something of, in the order of their first mention."""
        cells = [of_run(run) for run in self.runs.values()]
        names = dict.fromkeys(name for found in cells for name in found)
        rows = tuple((name, *(found.get(name, missing) for found in cells)) for name in names)
        return Table((corner, *self.runs), rows)


def compare(*runs: str | Path) -> Comparison:
    """Folders of searches and evaluations side by side.

    Raises SettingsError for none, RunError for a folder that holds no run, and where its files are broken.
    """
    if not runs:
        raise SettingsError("compare needs at least one run, the folder of a search or an evaluation")
    found, names = [Run.read(folder) for folder in runs], [Path(folder).resolve().name for folder in runs]
    # Two runs of one name have their paths, and one that is given twice a number.
    names = [str(folder) if names.count(name) > 1 else name for folder, name in zip(runs, names, strict=True)]
    unique = [f"{name} ({n})" if names.count(name) > 1 else name for n, name in enumerate(names, start=1)]
    return Comparison(dict(zip(unique, found, strict=True)))


def _of_search(run: Run) -> Cells:
    return {} if run.search is None else {name: text or "not set" for name, text in settings_facts(run.search.settings)}


def _of_evaluation(run: Run) -> Cells:
    settings = {} if run.results is None else run.results.settings
    return {name: text or "not set" for name, text in settings_facts(settings)}


def _validation(run: Run) -> Cells:
    """Loss and error after the last epoch that was validated."""
    losses = {} if run.search is None else run.search.measured("val_loss")
    if run.search is None or not losses:
        return {}
    errors, meaning = run.search.measured("val_error_percent"), error_definition(run.search.schedule.provenance)
    found = {"epoch": f"{max(losses)}", "loss": f"{losses[max(losses)]:.3f}"}
    found |= {"error": percent(errors[max(errors)])} if errors else {}
    return found | ({"an error is": meaning} if meaning else {})


def _test_errors(run: Run) -> Cells:
    """Each row's mean error, and loss where it was kept, and the schedule's difference to it."""
    if (results := run.results) is None:
        return {}
    found = {"an error is": results.error} if results.error else {}
    for number, row in enumerate(results.rows):
        name = row.name if number else "the schedule"
        loss = mean_of(row.by_seed("test_loss"))
        found[name] = percent(row.mean) + ("" if loss is None else f"  ({nats(loss)} nats)")
        if (minus := results.differences.get(row.name)) is not None:
            found[f"the schedule minus {row.name}"] = points(minus.mean, minus.interval)
    return found


def _operations(run: Run) -> Cells:
    """Share of images, probability and magnitude of each operation, as means over its copies, or each copy's."""
    if run.schedule is None:
        return {}
    last, found = run.schedule.epochs - 1, {}
    shares = reach(run.schedule, last).shares
    for summary in summarize(run.schedule, (last,)):
        copies = (summary.shown_magnitudes or ((),))[-1]
        numbers = ", ".join([f"{summary.probability[-1]:.2f}", *(f"{copy:.3g}" for copy in copies)])
        found[summary.operation.name] = f"{share(shares[summary.operation.name])}  ({numbers})"
    return found


def _regularizers(run: Run) -> Cells:
    """The value of each in its unit."""
    found = () if run.schedule is None else summarize_regularizers(run.schedule)
    return {one.hyperparameter.name: f"{one.values[-1]:.3g} {one.hyperparameter.unit or ''}".rstrip() for one in found}
