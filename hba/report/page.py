"""report.html: one page of what a run found, from the files of its folder alone."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hba.algorithms.update_schedule import advice_in, overfitting_note_in, policy_steps_in
from hba.data.config import display_name
from hba.data.labels import error_in_words
from hba.report.confusions import confusions
from hba.report.contests import contests, losses_table
from hba.report.curves import operation_panels
from hba.report.figures import Chart, Confusions, Contests, Panels, Stack, Stage, Table
from hba.report.findings import (
    CHANGE_HEADINGS,
    change_table,
    error_told,
    evaluation_words,
    network_line,
    network_measured,
    numbers_line,
    reach_line,
    regularizer_table,
    spread_line,
    whole_line,
)
from hba.report.losses import loss_charts
from hba.report.pictures import stages
from hba.report.regularizers import regularizer_panels
from hba.report.rendering import rendered
from hba.report.repeat import evaluation_command, search_command
from hba.report.run import POLICY_NAME, EvaluationFiles, Run, SearchFiles
from hba.report.stacks import numbers_stack, operations_stack
from hba.schedule.pictures import is_seen, lines_below
from hba.schedule.schedule import Schedule
from hba.schedule.summary import not_on_pixels
from hba.utils.provenance import VERSION, count_of, number_of
from hba.utils.text import counted, duration, first_of

SHOWN_CLASSES = 10
TEMPLATE = "report.html.j2"

Facts = tuple[tuple[str, str], ...]
"""What is said in a few words, by what it is of."""


@dataclass(frozen=True)
class PolicyPart:
    """What the operations of a schedule do. changed: None where nothing moved."""

    panels: Panels
    operations: Stack
    numbers: Stack
    spread: str | None
    changed_title: str
    changed: Table | None


@dataclass(frozen=True)
class RegularizersPart:
    """What a schedule tunes beside operations. note: on those that act as whole numbers."""

    panels: Panels
    table: Table
    note: str | None


@dataclass(frozen=True)
class SchedulePart:
    """What a schedule does: a part where it has operations, one where it has regularizers. caption_lines: most lines
    below an image. not_shown: regularizers that no picture shows.
    """

    policy: PolicyPart | None
    regularizers: RegularizersPart | None
    stages: tuple[Stage, ...]
    caption_lines: int
    not_shown: str


@dataclass(frozen=True)
class SearchPart:
    """How a search went. trust: sentences, as `hba show` has them. command: None where none can repeat it.
    next_command: what tells whether the schedule helps.
    """

    losses: tuple[Chart, ...]
    trust: tuple[str, ...]
    facts: Facts
    settings: Facts
    command: str | None
    next_command: str


@dataclass(frozen=True)
class EvaluationPart:
    """verdict: the sentence of the verdict alone; interpretation: those after it. losses, confusions: None without
    any.
    """

    title: str
    verdict: str | None
    interpretation: str
    contests: Contests
    losses: Table | None
    confusions: Confusions | None
    facts: Facts
    settings: Facts
    command: str | None


def page_of(run: Run, *, with_pictures: bool = True) -> str:
    """The HTML text. with_pictures: False leaves out the images of the run."""
    search, evaluation, schedule = run.search, run.evaluation, run.schedule
    problems = run.problems if with_pictures else (*run.problems, "The images would make this page too large.")
    return rendered(
        TEMPLATE,
        title=_title(run),
        standfirst=_standfirst(run),
        schedule=None if schedule is None else _schedule_part(schedule, run if with_pictures else None),
        search=None if search is None else _search_part(run.folder, search),
        evaluation=None if evaluation is None else _evaluation_part(run.folder, evaluation),
        problems=problems,
        folder=str(run.folder),
        version=VERSION,
    )


def _title(run: Run) -> str:
    if run.search is not None:
        schedule = run.search.schedule
        return f"{_kind(schedule)} schedule for {_dataset(schedule.provenance) or run.name}"
    assert run.evaluation is not None
    results = run.evaluation.results
    return f"Does the schedule “{results.rows[0].name}” help on {_data_name(results.settings)}?"


def _kind(schedule: Schedule) -> str:
    if not schedule.space.regularizers:
        return "Augmentation"
    return "Augmentation and regularization" if schedule.space.operations else "Regularization"


def _standfirst(run: Run) -> str:
    """One sentence under the title; of an evaluation, the verdict says more."""
    if run.search is None:
        return ""
    origin, schedule = run.search.schedule.provenance, run.search.schedule
    steps, seconds = policy_steps_in(origin), number_of(origin.get("wall_seconds"), 0, 1e9)
    found = [
        counted(schedule.epochs, "epoch"),
        *([] if steps is None else [counted(steps, "policy step")]),
        *([] if seconds is None else [duration(seconds)]),
    ]
    planned = count_of(run.search.settings.get("epochs"))
    unfinished = (
        f" It stopped after {schedule.epochs} of {planned} epochs." if planned and planned > schedule.epochs else ""
    )
    algorithm = origin.get("algorithm")
    by = f" by {algorithm}" if isinstance(algorithm, str) else ""
    return f"Found{by} in {', '.join(found)}.{unfinished}"


def _schedule_part(schedule: Schedule, run: Run | None) -> SchedulePart:
    samples, space = None if run is None else run.samples, schedule.space
    return SchedulePart(
        policy=_policy_part(schedule) if space.operations else None,
        regularizers=_regularizers_part(schedule) if space.regularizers else None,
        stages=() if samples is None or not is_seen(space) else stages(schedule, samples),
        caption_lines=lines_below(space),
        not_shown=", ".join(not_on_pixels(space)),
    )


def _policy_part(schedule: Schedule) -> PolicyPart:
    title, changed = change_table(schedule)
    rows = tuple(tuple(cell.replace("->", "→") for cell in row) for row in changed)
    headings = ("operation", *CHANGE_HEADINGS[1:])
    return PolicyPart(
        panels=operation_panels(schedule),
        operations=operations_stack(schedule),
        numbers=numbers_stack(schedule),
        spread=spread_line(schedule) if schedule.spread.any() else None,
        changed_title=title,
        changed=Table(headings, rows) if rows else None,
    )


def _regularizers_part(schedule: Schedule) -> RegularizersPart:
    headings, rows = regularizer_table(schedule)
    return RegularizersPart(regularizer_panels(schedule), Table(headings, tuple(rows)), whole_line(schedule))


def _search_part(folder: Path, search: SearchFiles) -> SearchPart:
    schedule = search.schedule
    planned = count_of(search.settings.get("epochs"), least=1) or schedule.epochs
    return SearchPart(
        losses=loss_charts(search.metrics, max(planned, schedule.epochs), error_told(schedule.provenance)),
        trust=tuple(_trust(schedule)),
        facts=tuple(_facts_of_search(schedule)),
        settings=settings_facts(search.settings),
        command=search_command(schedule),
        next_command=shlex.join(evaluation_words(folder / POLICY_NAME, schedule)),
    )


def _trust(schedule: Schedule) -> Iterator[str]:
    """What `hba show` says, in its words."""
    if schedule.space.operations:
        yield reach_line(schedule, schedule.epochs - 1)
    if schedule.space.searches_count:
        yield numbers_line(schedule)
    if schedule.spread.any():
        yield spread_line(schedule)
    if measured := network_measured(schedule.provenance):
        yield network_line(measured, error_told(schedule.provenance))
    yield from filter(None, (advice_in(schedule.provenance), overfitting_note_in(schedule.provenance)))


def _facts_of_search(schedule: Schedule) -> Iterator[tuple[str, str]]:
    origin = schedule.provenance
    settings = origin.get("settings")
    known = settings if isinstance(settings, Mapping) else {}
    yield "data", f"{known.get('data') or origin.get('dataset') or 'not told'}"
    counts = [count_of(origin.get(name)) for name in ("train_images", "val_images")]
    if None not in counts:
        yield "images", f"{counts[0]:,} training, {counts[1]:,} validation; {origin.get('image_size')} pixels"
    names = origin.get("class_names")
    if isinstance(names, list):
        yield "classes", f"{len(names)}: {first_of([str(name) for name in names], SHOWN_CLASSES)}"
    yield "network", f"{origin.get('model')}"
    yield "seed", f"{known.get('seed')}"
    yield from _facts_of_machine(origin)


def _facts_of_machine(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    seconds = number_of(found.get("wall_seconds"), 0, 1e9)
    if seconds is not None:
        yield "time", duration(seconds)
    if found.get("device"):
        n_threads = count_of(found.get("n_threads"))
        threads = "threads not told" if n_threads is None else counted(n_threads, "thread")
        yield "device", f"{found['device']}, {found.get('device_name')}, {threads}"
    packages = found.get("packages")
    if isinstance(packages, Mapping):
        versions = [f"{name} {number}" for name, number in packages.items() if number]
        yield "versions", ", ".join([*versions, f"Python {found.get('python')}"])


def _evaluation_part(folder: Path, evaluation: EvaluationFiles) -> EvaluationPart:
    results = evaluation.results
    settings = results.settings
    # Numbers have no blank after their point.
    verdict, end, interpretation = (results.verdict or "").removeprefix("Verdict: ").partition(". ")
    model = settings.get("model") or (results.own_network or "").partition(" ")[0]
    title = (
        f"Test error{error_in_words(results.error)} after the last of {settings.get('epochs')} epochs: {model} on "
        f"{_data_name(settings)}, {results.train_images:,} training and {results.test_images:,} test images"
    )
    seeds = sorted({seed for row in results.rows for seed in row.seeds})
    return EvaluationPart(
        title=title,
        verdict=verdict + end.strip() if verdict else None,
        interpretation=interpretation,
        contests=contests(results),
        losses=losses_table(results),
        confusions=confusions(results),
        facts=(
            ("data", f"{settings.get('data')}"),
            ("network", f"{model}"),
            ("seeds", ", ".join(map(str, seeds))),
            *_facts_of_machine(results.model_dump()),
        ),
        settings=settings_facts(settings),
        command=evaluation_command(folder, evaluation),
    )


def settings_facts(settings: Mapping[str, Any]) -> Facts:
    """Each as text; empty where the data decide."""
    return tuple((name, setting_text(value)) for name, value in settings.items())


def setting_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _dataset(origin: Mapping[str, Any]) -> str:
    found = origin.get("dataset")
    return display_name(found) if isinstance(found, str) else ""


def _data_name(settings: Mapping[str, Any]) -> str:
    return display_name(str(settings.get("data")))
