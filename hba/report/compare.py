"""Runs side by side: which settings differ, and what was found."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hba.errors import SettingsError
from hba.report.figures import Chart, Table
from hba.report.findings import error_told, natural, share
from hba.report.losses import Points, chart, points_of
from hba.report.page import setting_text
from hba.report.rendering import rendered
from hba.report.run import Run
from hba.schedule.summary import reach, summarize, summarize_regularizers
from hba.utils.files import write_text
from hba.utils.provenance import VERSION
from hba.utils.text import nats, percent, points

TEMPLATE = "compare.html.j2"
SETTINGS, VALIDATION, TEST = "Settings that differ", "Validation of the search network", "Test error"
TEST_LOSS = "Test loss, in nats"
SCHEDULES, REGULARIZERS = "Schedules in their last epoch", "Regularizers in their last epoch"
WHERE = ("data_root", "workers", "device", "download")
"""Settings that say where things are and what computes, which is not told as a difference."""
N_STYLES = 6


@dataclass(frozen=True)
class Comparison:
    """Runs, by names that tell them apart."""

    runs: Mapping[str, Run]

    def tables(self) -> Mapping[str, Table]:
        """By title, a column for each run; those without a row are left out."""
        found = {
            SETTINGS: self._settings(),
            VALIDATION: self._validation(),
            TEST: self._test(),
            TEST_LOSS: self._by_name(_test_losses, ""),
            SCHEDULES: self._schedules(),
            REGULARIZERS: self._by_name(_regularizers, "-"),
        }
        return {title: table for title, table in found.items() if table.rows}

    def save(self, path: str | Path) -> Path:
        """Write it as one HTML file, whole or not at all."""
        path = Path(path)
        text = rendered(
            TEMPLATE,
            title=f"{len(self.runs)} runs side by side",
            folders=tuple((name, str(run.folder)) for name, run in self.runs.items()),
            tables=self.tables(),
            chart=self._chart(),
            version=VERSION,
        )
        write_text(path, text)
        return path

    def _settings(self) -> Table:
        """Of searches and of evaluations, those that not all runs of the kind have alike."""
        rows = []
        for kind in ("search", "evaluation"):
            by_run = {name: settings for name, run in self.runs.items() if (settings := _settings_of(run, kind))}
            names = dict.fromkeys(setting for settings in by_run.values() for setting in settings)
            for setting in names:
                values = [settings.get(setting) for settings in by_run.values()]
                if setting not in WHERE and any(value != values[0] for value in values):
                    label = setting if kind == "search" else f"{setting} (evaluation)"
                    rows.append((label, *(_value(by_run.get(name), setting) for name in self.runs)))
        return Table(("", *self.runs), tuple(rows))

    def _validation(self) -> Table:
        losses = {name: _measured(run, "val_loss") for name, run in self.runs.items()}
        errors = {name: _measured(run, "val_error_percent") for name, run in self.runs.items()}
        if not any(losses.values()):
            return Table((), ())
        rows = (
            ("epoch", *(f"{max(found)}" if found else "" for found in losses.values())),
            ("loss", *(f"{found[max(found)]:.3f}" if found else "" for found in losses.values())),
            ("error", *(percent(found[max(found)]) if found else "" for found in errors.values())),
            *_what_errors_are(
                None if run.schedule is None else error_told(run.schedule.provenance) for run in self.runs.values()
            ),
        )
        return Table(("", *self.runs), rows)

    def _test(self) -> Table:
        """Of evaluations, each row's mean, and the schedule's difference to it where there is one."""
        by_run = {
            name: {row.name: row for row in run.evaluation.results.rows[1:]}
            for name, run in self.runs.items()
            if run.evaluation is not None
        }
        if not by_run:
            return Table((), ())
        kinds = (None if run.evaluation is None else run.evaluation.results.error for run in self.runs.values())
        own = [*_what_errors_are(kinds), ("the schedule", *(_own_error(run) for run in self.runs.values()))]
        others = []
        for other in dict.fromkeys(other for rows in by_run.values() for other in rows):
            found = [by_run.get(name, {}).get(other) for name in self.runs]
            others.append((other, *("" if row is None else percent(row.mean) for row in found)))
            minus = [None if row is None else row.schedule_minus_row for row in found]
            differences = ("" if one is None else points(one.mean, one.interval) for one in minus)
            others.append((f"the schedule minus {other}", *differences))
        return Table(("", *self.runs), (*own, *others))

    def _by_name(self, of_run: Callable[[Run], Mapping[str, str]], missing: str) -> Table:
        """A row for each name that a run has something of."""
        cells = {name: of_run(run) for name, run in self.runs.items()}
        names = dict.fromkeys(name for found in cells.values() for name in found)
        rows = tuple((name, *(found.get(name, missing) for found in cells.values())) for name in names)
        return Table(("", *self.runs), rows)

    def _schedules(self) -> Table:
        """Share of images, probability and magnitude of each operation, as means over its copies, or each copy's."""
        of_run: dict[str, dict[str, str]] = {}
        for name, run in self.runs.items():
            if run.schedule is not None:
                last = run.schedule.epochs - 1
                shares = reach(run.schedule, last).shares
                for summary in summarize(run.schedule, (last,)):
                    operation = summary.operation.name
                    copies = (summary.shown_magnitudes or ((),))[-1]
                    numbers = ", ".join([f"{summary.probability[-1]:.2f}", *(f"{copy:.3g}" for copy in copies)])
                    shown = f"{share(shares[operation])}  ({numbers})"
                    of_run.setdefault(operation, {})[name] = shown
        rows = tuple((operation, *(cells.get(name, "") for name in self.runs)) for operation, cells in of_run.items())
        return Table(("images (probability, magnitude)", *self.runs), rows)

    def _chart(self) -> Chart | None:
        """Validation losses over epochs."""
        losses = {name: _measured(run, "val_loss") for name, run in self.runs.items()}
        found = {name: of_run for name, of_run in losses.items() if of_run}
        if not found:
            return None
        epochs = max(max(of_run) for of_run in found.values())
        styles = [f"run{number % N_STYLES}" for number in range(len(found))]
        return chart("Validation loss", found, epochs, 3, styles)


def compare(*runs: str | Path) -> Comparison:
    """Folders of searches and evaluations side by side.

    Raises SettingsError for none, RunError for a folder that holds no run, and where its files are broken.
    """
    if not runs:
        raise SettingsError("compare needs at least one run, the folder of a search or an evaluation")
    found = [Run.read(folder) for folder in runs]
    return Comparison(dict(zip(_names(found), found, strict=True)))


def _names(runs: Sequence[Run]) -> list[str]:
    """The folders' names; those that are the same get their parents' too, and the same folder twice its number."""
    short = [run.name for run in runs]
    names = [
        name if short.count(name) == 1 else "/".join(run.folder.resolve().parts[-2:])
        for name, run in zip(short, runs, strict=True)
    ]
    return [name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names, start=1)]


def _what_errors_are(kinds: Iterable[str | None]) -> Iterator[tuple[str, ...]]:
    """A row where an error is not the share of wrong answers in all of the runs."""
    told = ["" if kind is None else kind for kind in kinds]
    if any(told):
        yield ("an error is", *told)


def _settings_of(run: Run, kind: str) -> Mapping[str, object]:
    if kind == "search":
        return {} if run.search is None else run.search.settings
    return {} if run.evaluation is None else run.evaluation.results.settings


def _value(settings: Mapping[str, object] | None, name: str) -> str:
    """A dash where the run has no such setting, as another algorithm."""
    return "-" if settings is None or name not in settings else setting_text(settings[name]) or "not set"


def _measured(run: Run, name: str) -> Points:
    return {} if run.search is None else points_of(run.search.metrics, name)


def _own_error(run: Run) -> str:
    return "" if run.evaluation is None else percent(run.evaluation.results.rows[0].mean)


def _test_losses(run: Run) -> Mapping[str, str]:
    """Each row's mean, where it was kept."""
    rows = () if run.evaluation is None else run.evaluation.results.rows
    names = ["the schedule", *(row.name for row in rows[1:])]
    return {
        name: nats(row.test_loss.mean)
        for name, row in zip(names, rows, strict=False)
        if row.test_loss is not None and row.test_loss.mean is not None
    }


def _regularizers(run: Run) -> Mapping[str, str]:
    """In their units."""
    found = () if run.schedule is None else summarize_regularizers(run.schedule)
    return {one.hyperparameter.name: natural(one.values[-1], one.hyperparameter.unit) for one in found}
