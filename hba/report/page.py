"""report.html: the page of a run, made only from the files of its folder."""

import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from hba.algorithms.race_findings import RaceFindings, leg_ends
from hba.data.config import display_name
from hba.data.images import EvaluationData, SearchData
from hba.data.labels import error_in_words
from hba.errors import HbaWarning
from hba.own_training.ledger import LEDGER_NAME
from hba.report import dots, examples, figures, findings
from hba.report.contest_page import contest_page
from hba.report.samples import Samples, read_samples
from hba.report.templates import SIGNS, style, template_of
from hba.report.worst import WORST_NAME, WorstImages
from hba.results import tables
from hba.results.answer import answer, words_of
from hba.results.auto_answer import auto_answer
from hba.results.evaluation import MEASURES, RESULTS_NAME, EvaluationResult
from hba.results.provenance import error_definition
from hba.results.run import (
    AUTO_NAME,
    CONFIG_NAME,
    EVALUATED_NAME,
    TEST_FOLDER,
    Run,
    SearchFiles,
    read_part,
)
from hba.schedule.pictures import panels
from hba.schedule.schedule import Schedule
from hba.schedule.summary import reach, task_of_schedule
from hba.tasks import task_of
from hba.training.trained_network import is_kept, load_network
from hba.utils.devices import VERSION
from hba.utils.files import reason_of, run_of, write_text
from hba.utils.text import count_of, counted, duration, first_of, number_of

REPORT_NAME = "report.html"


def write_report(run: str | Path) -> Path:
    """Write report.html into the folder of a search, an evaluation, `hba auto` or a
    contest, from its files; return its path.

    The page is a single file and needs no network. Raises RunError if the folder
    contains no run, if its files are broken, or if the page cannot be written;
    ScheduleError for a schedule that breaks the format.
    """
    folder = run_of(run)
    path = folder / REPORT_NAME
    is_contest = (folder / LEDGER_NAME).exists()
    write_text(path, contest_page(folder) if is_contest else page_of(Run.read(run)))
    return path


def report_at_the_end(
    folder: Path, data: SearchData | EvaluationData, evaluated: Schedule | None = None
) -> Path | None:
    """Write the report of a run that has just ended, whose other files are complete;
    None if that failed.

    evaluated: the schedule of an evaluation, to save too. A failure is only an
    HbaWarning: the run is complete.
    """
    try:
        if evaluated is not None:
            evaluated.save(folder / EVALUATED_NAME)
        for name, samples in Samples.of(data).items():
            samples.save(folder / name)
        has_masks = task_of(data.train.labels).has_masks
        if isinstance(data, EvaluationData) and has_masks and is_kept(folder):
            _save_worst_images(folder, data)
        report = write_report(folder)
        run = folder.resolve().parent
        is_test = folder.resolve().name == TEST_FOLDER and (run / AUTO_NAME).exists()
        if is_test and (run / REPORT_NAME).exists():
            # A resumed evaluation has added trainings to the test of `hba auto`.
            write_report(run)
        return report
    except Exception as error:
        # Images of any kind may fail in any way, and the run may have taken hours.
        text = (
            f"no report was written: {reason_of(error)}; the run's other files are"
            f" complete in {folder}"
        )
        warnings.warn(text, HbaWarning, stacklevel=3)
        return None


def _save_worst_images(folder: Path, data: EvaluationData) -> None:
    """Save the worst test images of the network in a folder, for its page. A failure is
    only an HbaWarning.
    """
    try:
        WorstImages.of(load_network(folder), data).save(folder / WORST_NAME)
    except Exception as error:
        # A network that torch.export cannot write has no program, and networks may fail
        # in any way.
        text = f"the report lacks the worst test images: {reason_of(error)}"
        warnings.warn(text, HbaWarning, stacklevel=4)


def page_of(run: Run) -> str:
    kind, sentences, details = _answer(run)
    samples, native = read_samples(run)
    worst = read_part(run.folders[1] / WORST_NAME, WorstImages.load)
    schedule = run.schedule
    search = run.search
    results = run.results
    origin = {} if search is None else search.schedule.provenance
    race = RaceFindings.of(origin)
    page = template_of("report.html.j2").render(
        run=run,
        title=_title(run),
        kind=kind,
        sign=SIGNS[kind],
        answer=sentences,
        details=details,
        results=results,
        evaluation=(
            None
            if results is None
            else _evaluation_part(results, run.auto.get("linear", ()))
        ),
        worst=[] if worst is None else worst.examples(),
        networks=tables.networks_table(run.auto),
        chosen_row=words_of(str(run.auto.get("chosen"))),
        contest=dots.contest_dots(run.auto.get("rows") or (), run.auto.get("chosen")),
        policy=(None if schedule is None else _policy_part(schedule, samples, native)),
        race=race,
        symmetry_results={} if race is None else findings.symmetry_results(race),
        race_sentences=[] if race is None else findings.race_sentences(race),
        race_dots={} if race is None else dots.race_dots(race),
        losses=[] if search is None else list(_losses(search)),
        has_legs=bool(leg_ends(origin)),
        commands=list(_commands(run)),
        made=list(_made(run)),
        style=style(),
        version=VERSION,
    )
    # File names may contain bytes that are no text, which the page shows as \udcff.
    return page.lstrip().encode("utf-8", "backslashreplace").decode()


def _title(run: Run) -> str:
    results = run.results
    origin = {} if run.schedule is None else run.schedule.provenance
    data = origin.get("dataset") if results is None else results.settings.get("data")
    name = display_name(str(data)) if data else run.folder.resolve().name
    if run.auto or results is None:
        return f"What {'to use' if run.auto else 'a search found'} for {name}"
    row = results.rows[0].name
    return (
        f"Does the schedule “{row}” help on {name}?"
        if len(results.rows) > 1
        else f"Trained with “{row}”"
    )


def _answer(run: Run) -> tuple[str, str, str]:
    """The kind of the answer, the answer in one or two sentences, and a detail in small
    print.
    """
    results = run.results
    is_compared = results is not None and results.best_other is not None
    if run.auto:
        answered = auto_answer(run.auto, results, run.schedule, run.folder)
        kind = answered.kind if is_compared else "not compared yet"
        return kind, answered.sentence, ""
    evaluated = None if results is None else answer(results, folder=run.folder)
    if evaluated is not None:
        kind = evaluated.kind if is_compared else "not compared yet"
        step = f"To be surer: {evaluated.next_step}." if evaluated.next_step else ""
        return kind, evaluated.sentence, step
    if run.search is None:
        return "not compared yet", "There is nothing to compare yet.", ""
    schedule = run.search.schedule
    race = RaceFindings.of(schedule.provenance)
    shares = reach(schedule, schedule.epochs - 1).shares
    names = sorted(
        (name for name in shares if shares[name] > examples.LEAST_SHARE),
        key=lambda name: -shares[name],
    )
    if race is not None and race.taken:
        names = race.operations
    elif not names:
        names = [regularizer.name for regularizer in schedule.space.regularizers]
    text = (
        f"Found {first_of(names) or 'no augmentation'}. Whether it helps has not been"
        " tested yet."
    )
    return "not compared yet", text, _origin(run.search)


def _origin(search: SearchFiles) -> str:
    """A sentence on how the schedule was found."""
    origin = search.schedule.provenance
    n_epochs = count_of(origin.get("epochs_finished")) or search.schedule.epochs
    legs = leg_ends(origin)
    steps = count_of(origin.get("policy_steps"))
    seconds = number_of(origin.get("wall_seconds"), 0, 1e9)
    costs = [counted(n_epochs, "epoch")]
    if steps is not None and not legs:
        costs.append(counted(steps, "policy step"))
    if seconds is not None:
        costs.append(duration(seconds))
    algorithm = origin.get("algorithm", "a search")
    text = f"Found by {algorithm} in {', '.join(costs)}."
    planned = legs[-1] if legs else search.settings.get("epochs") or n_epochs
    if planned > n_epochs:
        text += f" It stopped after {n_epochs} of {planned} epochs."
    return text


def _evaluation_part(
    results: EvaluationResult, linear: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    is_uneven = results.rows[0].is_uneven
    shown = [
        measure for measure in MEASURES if measure != "balanced_accuracy" or is_uneven
    ]
    return {
        "dots": dots.error_dots(results, "test_error", linear),
        "balanced": (
            dots.error_dots(results, "balanced_accuracy", linear) if is_uneven else None
        ),
        "numbers": [
            table
            for measure in shown
            if (table := tables.measured_table(results, measure))
        ],
        "error": error_in_words(results.error),
        "classes": tables.classes_table(results),
        "confused": tables.confused(results),
    }


def _policy_part(
    schedule: Schedule, samples: Samples | None, native: Samples | None
) -> dict[str, Any]:
    space = schedule.space
    shares = reach(schedule, schedule.epochs - 1).shares
    notes = {
        operation.name: tables.share_of(operation, shares)
        for operation in space.operations
    }
    drawn = [
        (
            panel.stage,
            panel.name,
            notes.get(panel.name, ""),
            panel.ends,
            figures.panel_figure(panel, schedule.epochs),
        )
        for panel in (panels(schedule) if schedule.epochs > 1 else ())
    ]
    shown = samples if samples is not None and space.acts_on_images else None
    is_larger = (
        shown
        and native
        and native.images[0].shape[-1] > 1.5 * shown.images[0].shape[-1]
    )
    return {
        "examples": (
            list(examples.operation_examples(schedule, shown, native)) if shown else []
        ),
        "class_examples": (
            list(examples.class_examples(schedule, shown, native)) if shown else []
        ),
        "has_masks": shown is not None and shown.masks is not None,
        "class_moves": space.class_moves.sentences() if space.class_moves else [],
        "together": (
            examples.together(schedule, shown, native if is_larger else None)
            if shown
            else []
        ),
        "size": "x".join(map(str, shown.images[0].shape[1:])) if shown else "",
        "operations": [panel for panel in drawn if panel[1] in notes],
        "regularizers": [panel for panel in drawn if panel[1] not in notes],
        "shares": shares,
        "numbers": findings.policy_table(schedule),
        "tuned": findings.regularizer_table(schedule),
        "reach": (
            findings.reach_line(schedule, schedule.epochs - 1)
            if space.operations
            else ""
        ),
        "lines": findings.schedule_lines(schedule),
    }


def _losses(search: SearchFiles) -> Iterator[tuple[str, Markup]]:
    """Title and figure of the loss and of the error in training and validation, if they
    were measured.
    """
    error = (
        f"Error{error_in_words(error_definition(search.schedule.provenance))}, per cent"
    )
    for title, ending, digits in (("Loss", "loss", 3), (error, "error_percent", 2)):
        lines = {
            "training": search.measured(f"train_{ending}"),
            "validation": search.measured(f"val_{ending}"),
        }
        if lines := {name: line for name, line in lines.items() if line}:
            yield (
                title,
                figures.metrics_figure(
                    title, lines, digits, leg_ends(search.schedule.provenance)
                ),
            )


def _commands(run: Run) -> Iterator[tuple[str, str]]:
    """Purpose and words of each command that you can run in the folder of the run."""
    if run.auto:
        if command := run.auto.get("command"):
            yield "This run again, from the folder where it was started", str(command)
        return
    if run.search is not None:
        if run.results is None:
            words = findings.evaluation_words(
                Path(run.policy_file), run.search.schedule
            )
            yield "Next, see whether it helps", shlex.join(words)
        has_own_parts = "your own" in run.search.settings.values()
        command = task_of_schedule(run.search.schedule).repeat_command
        if run.search.settings and command is not None and not has_own_parts:
            yield (
                "The search again",
                shlex.join(["hba", command, "--config", CONFIG_NAME, "--out", "again"]),
            )
    if run.results is not None and run.results.own_network is None:
        others = ",".join(row.name for row in run.results.rows[1:])
        words = [
            "hba",
            "evaluate",
            run.policy_file,
            "--config",
            RESULTS_NAME,
            "--against",
            others,
            "--out",
            "again",
        ]
        yield "The evaluation again", shlex.join(words)


def _made(run: Run) -> Iterator[tuple[str, list[tuple[str, str]], dict[str, str]]]:
    """Title, facts and all settings of each part of the run."""
    if run.search is not None:
        origin = run.search.schedule.provenance
        facts = [("how", _origin(run.search))]
        if "train_images" in origin and "val_images" in origin:
            counts = (
                f"{origin['train_images']:,} training, {origin['val_images']:,}"
                " validation"
            )
            facts.append(("images", f"{counts}; {origin.get('image_size')} pixels"))
        names = origin.get("class_names")
        if names and len(names) > 1:
            facts.append(
                ("classes", f"{len(names)}: {first_of([*map(str, names)], 10)}")
            )
        yield (
            "The search",
            [*facts, *_machine_facts(origin)],
            tables.settings_facts(run.search.settings),
        )
    if run.results is not None:
        seconds = run.results.wall_seconds
        time = [("time", duration(seconds))] if seconds else []
        yield (
            "The evaluation",
            [*time, *_machine_facts(run.results.environment)],
            tables.settings_facts(run.results.settings),
        )


def _machine_facts(environment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    device = environment.get("device")
    if device:
        text = f"{device}, {environment.get('device_name')}"
        if "n_threads" in environment:
            text += f", {counted(environment['n_threads'], 'thread')}"
        yield "device", text
    if packages := environment.get("packages"):
        versions = [f"{name} {number}" for name, number in packages.items() if number]
        python = f"Python {environment.get('python')}"
        yield "versions", ", ".join([*versions, python])
