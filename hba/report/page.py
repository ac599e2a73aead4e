"""report.html: one page of what a run found, from the files of its folder alone."""

import functools
import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hba.algorithms.update_schedule import advice_in, overfitting_note_in, policy_steps_in
from hba.data.config import display_name
from hba.data.labels import error_in_words
from hba.errors import ReportWarning
from hba.report import figures, findings, tables
from hba.report.results import RESULTS_NAME, EvaluationResult
from hba.report.run import EVALUATED_NAME, EvaluationFiles, Run, SearchFiles
from hba.report.samples import SAMPLES_NAME, Samples, stages
from hba.schedule.library import POLICY_NAME
from hba.schedule.pictures import is_seen, panels
from hba.schedule.schedule import Schedule
from hba.schedule.summary import not_on_pixels, of_one_range, reach, summarize, summarize_regularizers
from hba.utils.files import write_text
from hba.utils.provenance import VERSION, number_of
from hba.utils.text import counted, duration, first_of

REPORT_NAME = "report.html"
MOST_CLASSES = 100
"""Of more, a confusion matrix shows nothing, and only the most confused pairs are listed."""
SHOWN_CLASSES = 10

Facts = list[tuple[str, str]]


class PanelOnPage(NamedTuple):
    """One operation, or regularizers of one range. note: beside its name. ends: lines of what it went from and to."""

    name: str
    note: str
    ends: Sequence[tuple[str, str]]
    svg: str


def write_report(run: str | Path) -> Path:
    """Write report.html into the folder of a search or an evaluation, from its files; return where it is.

    One file that needs no other and no network. Raises RunError where the folder holds no run, where its files are
    broken, and where it cannot be written; ScheduleError for a schedule that breaks its format.
    """
    folder = Path(run)
    write_text(folder / REPORT_NAME, page_of(Run.read(folder)))
    return folder / REPORT_NAME


def report_at_the_end(folder: Path, samples: Callable[[], Samples], evaluated: Schedule | None = None) -> Path | None:
    """The report of a run that has just ended, whose other files are written; None where that failed.

    samples: gives images of the run, which are kept beside it. evaluated: the schedule of an evaluation, kept too.
    A failure becomes a ReportWarning; nothing is raised, because the run itself is complete.
    """
    try:
        samples().save(folder / SAMPLES_NAME)
    except Exception as error:
        # Any error at all: images may be of any kind, and hours of work stand behind.
        _warn(folder, "no images were kept for the report", error)
    try:
        if evaluated is not None:
            evaluated.save(folder / EVALUATED_NAME)
        return write_report(folder)
    except Exception as error:
        _warn(folder, "no report was written", error)
        return None


def _warn(folder: Path, what: str, error: Exception) -> None:
    reason = next(iter(str(error).splitlines()), type(error).__name__)
    warnings.warn(f"{what}: {reason}; the run's other files are complete in {folder}", ReportWarning, stacklevel=3)


def is_reported(folder: Path) -> bool:
    """Whether an evaluation's report exists and is no older than its results."""
    report, results = folder / REPORT_NAME, folder / RESULTS_NAME
    return report.exists() and report.stat().st_mtime_ns >= results.stat().st_mtime_ns


def page_of(run: Run) -> str:
    """The HTML text."""
    schedule = run.schedule
    values = {
        "title": _title(run),
        "standfirst": "" if run.search is None else _standfirst(run.search),
        "schedule": None if schedule is None else _schedule_part(schedule, run.samples),
        "search": None if run.search is None else _search_part(run.folder, run.search),
        "evaluation": None if run.evaluation is None else _evaluation_part(run.evaluation),
        "problems": run.problems,
        "style": (Path(__file__).parent / "page.css").read_text(encoding="utf-8"),
        "folder": str(run.folder),
        "version": VERSION,
    }
    return figures.printable(_template().render(values).lstrip())


@functools.cache
def _template() -> Any:
    # Loading it takes a while.
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2")


def _title(run: Run) -> str:
    if run.search is None:
        assert run.evaluation is not None
        results = run.evaluation.results
        return f"Does the schedule “{results.rows[0].name}” help on {display_name(str(results.settings.get('data')))}?"
    space, origin = run.search.schedule.space, run.search.schedule.provenance
    kinds = ["augmentation"] * bool(space.operations) + ["regularization"] * bool(space.regularizers)
    dataset = origin.get("dataset")
    name = display_name(dataset) if isinstance(dataset, str) and dataset else run.name
    return f"{' and '.join(kinds).capitalize()} schedule for {name}"


def _standfirst(search: SearchFiles) -> str:
    """One or two sentences under the title."""
    schedule, origin = search.schedule, search.schedule.provenance
    steps, seconds = policy_steps_in(origin), number_of(origin.get("wall_seconds"), 0, 1e9)
    found = [counted(schedule.epochs, "epoch")]
    found += [] if steps is None else [counted(steps, "policy step")]
    found += [] if seconds is None else [duration(seconds)]
    by = f" by {origin['algorithm']}" if "algorithm" in origin else ""
    planned = search.settings.get("epochs") or schedule.epochs
    cut = f" It stopped after {schedule.epochs} of {planned} epochs." if planned > schedule.epochs else ""
    return f"Found{by} in {', '.join(found)}.{cut}"


def _schedule_part(schedule: Schedule, samples: Samples | None) -> dict[str, Any]:
    space = schedule.space
    return {
        "policy": _policy_part(schedule.without_regularizers()) if space.operations else None,
        "regularizers": _regularizers_part(schedule.without_operations()) if space.regularizers else None,
        "changed": _changed(schedule) if space.operations else None,
        "stages": [] if samples is None or not is_seen(space) else stages(schedule, samples),
        "not_shown": ", ".join(not_on_pixels(space)),
    }


def _changed(schedule: Schedule) -> tuple[str, tables.Table] | None:
    title, changed = findings.change_table(schedule)
    rows = tuple(tuple(cell.replace("->", "→") for cell in row) for row in changed)
    return (title, tables.Table(("operation", *findings.CHANGE_HEADINGS[1:]), rows)) if rows else None


def _policy_part(policy: Schedule) -> dict[str, Any]:
    """The strongest operations of the last epoch come first."""
    last = policy.epochs - 1
    by_name, shares = {panel.name: panel for panel in panels(policy)}, reach(policy, last).shares
    shown = []
    for summary in summarize(policy, (0, last)):
        name, unit = summary.operation.name, summary.operation.unit or "magnitude"
        ends = [("probability", _from_to(summary.probability, ".2f"))]
        if summary.magnitude is not None:
            ends.append(("magnitude", f"{unit} {_from_to(summary.magnitude, '.3g')}"))
        words = f"{name} over {counted(policy.epochs, 'epoch')}: probability {', '.join(text for _, text in ends)}"
        shown.append(
            PanelOnPage(name, findings.share(shares[name]), ends, figures.panel_svg(by_name[name].draw, words))
        )
    return {
        "panels": shown,
        "table": tables.curves_table(policy),
        "has_spread": bool(policy.spread.any()),
    }


def _from_to(values: Sequence[float], form: str) -> str:
    before, after = format(values[0], form), format(values[-1], form)
    return before if before == after else f"{before} → {after}"


def _regularizers_part(tuned: Schedule) -> dict[str, Any]:
    shown = []
    for panel, together in zip(panels(tuned), of_one_range(summarize_regularizers(tuned)), strict=True):
        ends = [
            " ".join([one.hyperparameter.own_name, _from_to(one.values, ".3g"), one.hyperparameter.unit or ""]).strip()
            for one in together
        ]
        words = f"{panel.name} over {counted(tuned.epochs, 'epoch')}: {', '.join(ends)}"
        figure = figures.panel_svg(panel.draw, words, left=0.23, right=0.97)
        shown.append(PanelOnPage(panel.name, "", [("regularizer", end) for end in ends], figure))
    headings, rows = findings.regularizer_table(tuned)
    return {"panels": shown, "table": tables.Table(headings, tuple(rows))}


def _search_part(folder: Path, search: SearchFiles) -> dict[str, Any]:
    schedule = search.schedule
    return {
        "losses": list(_losses(search)),
        "trust": list(_trust(schedule)),
        "facts": list(_search_facts(schedule)),
        "settings": settings_facts(search.settings),
        "next_command": shlex.join(findings.evaluation_words(folder / POLICY_NAME, schedule)),
    }


def _losses(search: SearchFiles) -> Iterator[tuple[str, str, tables.Table]]:
    """Title, figure and numbers: loss and error of training and validation, where they were measured."""
    error = f"Error{error_in_words(findings.error_definition(search.schedule.provenance))}, per cent"
    for title, ending, digits in (("Loss", "loss", 3), (error, "error_percent", 2)):
        lines = {"training": search.measured(f"train_{ending}"), "validation": search.measured(f"val_{ending}")}
        lines = {name: line for name, line in lines.items() if line}
        if lines:
            yield title, figures.metrics_figure(title, lines, digits), tables.metrics_table(lines)


def _trust(schedule: Schedule) -> Iterator[str]:
    """What `hba show` says of it."""
    if schedule.space.operations:
        yield findings.reach_line(schedule, schedule.epochs - 1)
    if schedule.space.searches_count:
        yield findings.numbers_line(schedule)
    if schedule.spread.any():
        yield findings.spread_line(schedule)
    if measured := findings.network_measured(schedule.provenance):
        yield findings.network_line(measured, findings.error_definition(schedule.provenance))
    yield from filter(None, (advice_in(schedule.provenance), overfitting_note_in(schedule.provenance)))


def _search_facts(schedule: Schedule) -> Iterator[tuple[str, str]]:
    origin = schedule.provenance
    known = origin.get("settings") or {}
    yield "data", f"{known.get('data') or origin.get('dataset') or 'unknown'}"
    if "train_images" in origin and "val_images" in origin:
        counts = f"{origin['train_images']:,} training, {origin['val_images']:,} validation"
        yield "images", f"{counts}; {origin.get('image_size')} pixels"
    if names := origin.get("class_names"):
        yield "classes", f"{len(names)}: {first_of(list(map(str, names)), SHOWN_CLASSES)}"
    yield "network", f"{origin.get('model')}"
    yield "seed", f"{known.get('seed')}"
    yield from _machine_facts(origin)


def _machine_facts(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Time, device and versions, as far as they are known."""
    if found.get("wall_seconds") is not None:
        yield "time", duration(found["wall_seconds"])
    if found.get("device"):
        threads = f", {counted(found['n_threads'], 'thread')}" if "n_threads" in found else ""
        yield "device", f"{found['device']}, {found.get('device_name')}{threads}"
    if packages := found.get("packages"):
        versions = [f"{name} {number}" for name, number in packages.items() if number]
        yield "versions", ", ".join([*versions, f"Python {found.get('python')}"])


def _evaluation_part(evaluation: EvaluationFiles) -> dict[str, Any]:
    results, settings = evaluation.results, evaluation.results.settings
    # The verdict is one sentence; numbers have no blank after their point.
    verdict, end, interpretation = str(results.verdict or "").removeprefix("Verdict: ").partition(". ")
    return {
        "title": f"Test error{error_in_words(results.error)} after the last of {settings.get('epochs')} epochs: "
        f"{results.model} on {display_name(str(settings.get('data')))}, {results.train_images:,} training and "
        f"{results.test_images:,} test images",
        "verdict": verdict[:1].upper() + verdict[1:] + end.strip(),
        "interpretation": interpretation,
        "figures": [
            one for one in (figures.errors_figure(results), figures.differences_figure(results)) if one is not None
        ],
        "table": tables.errors_table(results),
        "losses": tables.losses_table(results),
        "confusion": _confusion_part(results),
        "facts": [
            ("data", f"{settings.get('data')}"),
            ("network", results.model),
            ("seeds", ", ".join(map(str, sorted({seed for row in results.rows for seed in row.seeds})))),
            *_machine_facts({**results.environment, "wall_seconds": results.wall_seconds or None}),
        ],
        "settings": settings_facts(settings),
    }


def _confusion_part(results: EvaluationResult) -> dict[str, Any] | None:
    """None where no confusion matrix was kept, as by older versions."""
    shares, names = tables.confusion_shares(results), results.class_names or ()
    if not shares:
        return None
    matrices = shares if len(names) <= MOST_CLASSES else {}
    return {
        "figures": [(name, figures.confusion_figure(name, one, names)) for name, one in matrices.items()],
        "pairs": tables.confused_table(shares, names),
        "balanced": tables.balanced_table(results),
    }


def settings_facts(settings: Mapping[str, Any]) -> Facts:
    """Each setting as text; empty where the data decide."""
    return [(name, setting_text(value)) for name, value in settings.items()]


def setting_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
