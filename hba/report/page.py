"""report.html: one page of what a run found, from the files of its folder alone."""

import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from hba.data.config import display_name
from hba.data.labels import error_in_words
from hba.errors import HbaWarning
from hba.report import figures, findings, tables
from hba.report.race import RaceFindings, leg_ends
from hba.report.results import EvaluationResult
from hba.report.run import EVALUATED_NAME, Run, SearchFiles
from hba.report.samples import SAMPLES_NAME, Samples
from hba.schedule.library import POLICY_NAME
from hba.schedule.pictures import panels
from hba.schedule.schedule import Schedule
from hba.schedule.summary import not_shown, reach
from hba.utils.devices import VERSION
from hba.utils.files import reason_of, write_text
from hba.utils.text import count_of, counted, duration, first_of, number_of

REPORT_NAME = "report.html"
SHOWN_CLASSES = 10
LARGEST_PIXELATED = 64
"""Side of images whose pixels are shown as squares."""


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
    A failure becomes an HbaWarning; nothing is raised, because the run itself is complete.
    """
    try:
        if evaluated is not None:
            evaluated.save(folder / EVALUATED_NAME)
        samples().save(folder / SAMPLES_NAME)
        return write_report(folder)
    except Exception as error:
        # Any error at all: images may be of any kind, and hours of work stand behind.
        text = f"no report was written: {reason_of(error)}; the run's other files are complete in {folder}"
        warnings.warn(text, HbaWarning, stacklevel=2)
        return None


def page_of(run: Run) -> str:
    """The HTML text."""
    # Loading it takes a while.
    import jinja2

    folder = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("report.html.j2").render(
        title=_title(run),
        standfirst="" if run.search is None else _standfirst(run.search),
        schedule=None if run.schedule is None else _schedule_part(run.schedule, run.samples),
        search=None if run.search is None else _search_part(run.folder, run.search),
        evaluation=None if run.results is None else _evaluation_part(run.results),
        style=(folder / "page.css").read_text(encoding="utf-8"),
        folder=str(run.folder),
        version=VERSION,
    )
    return figures.printable(page.lstrip())


def _title(run: Run) -> str:
    if run.results is not None and run.search is None:
        data = display_name(str(run.results.settings.get("data")))
        return f"Does the schedule “{run.results.rows[0].name}” help on {data}?"
    assert run.schedule is not None
    dataset = run.schedule.provenance.get("dataset")
    return f"Schedule for {display_name(str(dataset)) if dataset else run.folder.resolve().name}"


def _standfirst(search: SearchFiles) -> str:
    """One or two sentences under the title."""
    origin = search.schedule.provenance
    n_epochs, legs = count_of(origin.get("epochs_finished")) or search.schedule.epochs, leg_ends(origin)
    steps, seconds = count_of(origin.get("policy_steps")), number_of(origin.get("wall_seconds"), 0, 1e9)
    found = [counted(n_epochs, "epoch")]
    found += [] if steps is None or legs else [counted(steps, "policy step")]
    found += [] if seconds is None else [duration(seconds)]
    by, planned = origin.get("algorithm", "a search"), legs[-1] if legs else search.settings.get("epochs") or n_epochs
    stopped = f" It stopped after {n_epochs} of {planned} epochs." if planned > n_epochs else ""
    return f"Found by {by} in {', '.join(found)}.{stopped}"


def _schedule_part(schedule: Schedule, samples: Samples | None) -> dict[str, Any]:
    space, shares = schedule.space, reach(schedule, schedule.epochs - 1).shares
    title, changed = findings.change_table(schedule)
    notes = {one.name: findings.share_of(one, shares) for one in space.operations}
    drawn = [
        (one.stage, one.name, notes.get(one.name, ""), one.ends, figures.panel_figure(one, schedule.epochs))
        for one in panels(schedule)
    ]
    return {
        "operations": [panel for panel in drawn if panel[1] in notes and not findings.is_single(schedule)],
        "regularizers": [panel for panel in drawn if panel[1] not in notes],
        "is_mixed": bool(space.mixing),
        "has_walk": bool(space.walk),
        "has_spread": bool(schedule.spread.any()),
        "tuned": findings.regularizer_table(schedule),
        "changed_title": title,
        "changed": changed,
        "images": list(figures.augmented_images(schedule, samples)) if samples and space.acts_on_images else [],
        "are_small": samples is not None and max(samples.images[0].shape) <= LARGEST_PIXELATED,
        "not_shown": ", ".join(not_shown(space)),
    }


def _search_part(folder: Path, search: SearchFiles) -> dict[str, Any]:
    schedule, origin = search.schedule, search.schedule.provenance
    facts = []
    if "train_images" in origin and "val_images" in origin:
        counts = f"{origin['train_images']:,} training, {origin['val_images']:,} validation"
        facts.append(("images", f"{counts}; {origin.get('image_size')} pixels"))
    if names := origin.get("class_names"):
        facts.append(("classes", f"{len(names)}: {first_of(list(map(str, names)), SHOWN_CLASSES)}"))
    race = RaceFindings.of(origin)
    of_race = [] if race is None else race.sentences
    return {
        "race": None if race is None else {"sentences": of_race, **figures.race_figures(race)},
        "has_legs": bool(leg_ends(origin)),
        "losses": list(_losses(search)),
        "trust": [line for line in findings.schedule_lines(schedule) if line not in of_race],
        "facts": [*facts, *_machine_facts(origin)],
        "settings": settings_facts(search.settings),
        "next_command": shlex.join(findings.evaluation_words(folder / POLICY_NAME, schedule)),
    }


def _losses(search: SearchFiles) -> Iterator[tuple[str, Markup]]:
    """Title and figure of the loss and of the error, of training and validation, where they were measured."""
    error = f"Error{error_in_words(findings.error_definition(search.schedule.provenance))}, per cent"
    for title, ending, digits in (("Loss", "loss", 3), (error, "error_percent", 2)):
        lines = {"training": search.measured(f"train_{ending}"), "validation": search.measured(f"val_{ending}")}
        if lines := {name: line for name, line in lines.items() if line}:
            yield title, figures.metrics_figure(title, lines, digits, leg_ends(search.schedule.provenance))


def _machine_facts(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Device and versions, where they are recorded."""
    if found.get("device"):
        threads = f", {counted(found['n_threads'], 'thread')}" if "n_threads" in found else ""
        yield "device", f"{found['device']}, {found.get('device_name')}{threads}"
    if packages := found.get("packages"):
        versions = [f"{name} {number}" for name, number in packages.items() if number]
        yield "versions", ", ".join([*versions, f"Python {found.get('python')}"])


def _evaluation_part(results: EvaluationResult) -> dict[str, Any]:
    settings = results.settings
    # The verdict is one sentence; numbers have no blank after their point.
    verdict, end, interpretation = str(results.verdict or "").removeprefix("Verdict: ").partition(". ")
    time = [("time", duration(results.wall_seconds))] if results.wall_seconds else []
    return {
        "title": f"Test error{error_in_words(results.error)} after the last of {settings.get('epochs')} epochs: "
        f"{results.model} on {display_name(str(settings.get('data')))}, {results.train_images:,} training and "
        f"{results.test_images:,} test images",
        "verdict": verdict[:1].upper() + verdict[1:] + end.strip(),
        "interpretation": interpretation,
        "figure": figures.differences_figure(results),
        "table": tables.measured_table(results, "test_error"),
        "losses": tables.measured_table(results, "test_loss"),
        "confused": tables.confused_table(results),
        "balanced": tables.measured_table(results, "balanced_accuracy"),
        "facts": [*time, *_machine_facts(results.environment)],
        "settings": settings_facts(settings),
    }


def settings_facts(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Each setting as text; `not set` where the data decide."""
    texts = {"None": "not set", "": "not set", "True": "on", "False": "off"}
    found = []
    for name, value in settings.items():
        parts = [f"{key}={one}" for key, one in value.items()] if isinstance(value, Mapping) else value
        text = ", ".join(map(str, parts)) if isinstance(parts, list | tuple) else str(parts)
        found.append((name, texts.get(text, text)))
    return found
