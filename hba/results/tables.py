"""Tables of a run, for its page and for commands."""

import statistics
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from hba.models.timm_networks import frozen_in_words
from hba.operations import Operation
from hba.operations.operation import MIXING
from hba.results.evaluation import MEASURES, EvaluationResult, Measure, mean_of, std_of
from hba.utils.text import points


class Table(NamedTuple):
    """A table of texts."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def networks_table(auto: Mapping[str, Any]) -> Table | None:
    """The networks and linear layers that `hba auto` considered, from auto.json; None
    if there was one network only.
    """
    rows: list[tuple[str, ...]] = []
    for number, candidate in enumerate(auto.get("candidates", ())):
        settings = candidate["settings"]
        weights = "random"
        if settings.get("pretrained"):
            weights = f"pretrained{frozen_in_words(settings)}"
        reached = ["not trained", "", ""]
        if candidate.get("loss") is not None:
            reached = [
                f"{candidate['loss']:.3f}",
                f"{candidate['error_percent']:.1f} %",
                f"{candidate['took']:.0f} s",
            ]
        mark = " ✓" if number == auto.get("network") else ""
        side = settings["image_size"]
        epochs = settings.get("epochs", auto["settings"].get("epochs"))
        rows.append(
            (f"{settings['model']}{mark}", str(side), str(epochs), weights, *reached)
        )
    for layer in auto.get("linear", ()):
        rows.append(
            (
                layer["model"],
                str(layer["side"]),
                "-",
                "all frozen, a linear layer",
                "",
                f"{layer['error_percent']:.1f} %",
                f"{layer['seconds']:.0f} s",
            )
        )
    headings = ("network", "pixels", "epochs", "weights", "loss", "error", "time")
    return Table(headings, tuple(rows)) if rows else None


def share(value: float) -> str:
    """`12.4 %`"""
    return f"{100 * value:.1f} %"


def share_of(operation: Operation, shares: Mapping[str, float]) -> str:
    """The share of images that get an operation, or of batches that it mixes."""
    unit = " of batches" if operation.stage == MIXING else ""
    return share(shares[operation.name]) + unit


def measured_table(results: EvaluationResult, measure: Measure) -> Table | None:
    """Mean, standard deviation, value of each seed and difference to the schedule of
    each row; None without values.
    """
    _, heading, digits = MEASURES[measure]
    differences = results.schedule_minus(measure)
    rows = []
    for row in results.rows:
        by_seed = row.by_seed(measure)
        if not by_seed:
            continue
        mean, std, *each = (
            "-" if number is None else f"{number:.{digits}f}"
            for number in (
                mean_of(by_seed),
                std_of(by_seed),
                *(by_seed.get(seed) for seed in row.seeds),
            )
        )
        minus = differences.get(row.name)
        difference = ""
        if minus is not None:
            difference = points(minus.mean, minus.interval, digits=digits)
        rows.append((row.name, mean, std, "  ".join(each), difference))
    if not rows:
        return None
    minus_this = f"{results.rows[0].name} minus this, 95 % interval"
    return Table(("trained with", heading, "std", "each seed", minus_this), tuple(rows))


def classes_table(results: EvaluationResult) -> Table | None:
    """The error of each class in each row, as means over seeds; None if the error is
    not a mean over classes.
    """
    of_rows = {}
    for row in results.rows:
        of_seeds = [errors for errors in row.class_error_percents if errors is not None]
        if of_seeds:
            of_rows[row.name] = [
                [error for error in errors if error is not None]
                for errors in zip(*of_seeds, strict=True)
            ]
    if not of_rows:
        return None
    rows = tuple(
        (
            name,
            *(
                f"{statistics.mean(errors[number]):.2f}" if errors[number] else "-"
                for errors in of_rows.values()
            ),
        )
        for number, name in enumerate(results.class_names)
    )
    return Table(("class", *of_rows), rows)


def confused(results: EvaluationResult) -> dict[str, Any] | None:
    """The answers of the first row on the test images, over all seeds.

    Returns:
        None if images have several labels. `matrix`: images by class and answer, with
        the names of classes; None for more than 12 classes, which would be unreadable.
        `pairs`: a table of the ten pairs that this row or the best other one confuses
        most, as shares of the images of the class.
    """
    counts = results.rows[0].answers
    names = results.class_names
    if counts is None:
        return None
    matrix = tuple(
        (name, tuple(map(int, row))) for name, row in zip(names, counts, strict=True)
    )
    best_other = results.best_other
    shares = {
        row.name: row.answers / np.maximum(1, row.answers.sum(1, keepdims=True))
        for number, row in enumerate(results.rows)
        if row.answers is not None and (number == 0 or row.name == best_other)
    }
    largest = np.max(list(shares.values()), axis=0)
    np.fill_diagonal(largest, 0)
    order = np.argsort(-largest, axis=None, kind="stable")[:10]
    pairs = tuple(
        (
            names[label],
            names[answer],
            *(share(of_row[label, answer]) for of_row in shares.values()),
        )
        for label, answer in (divmod(int(index), len(largest)) for index in order)
        if largest[label, answer] > 0
    )
    return {
        "matrix": matrix if len(names) <= 12 else None,
        "pairs": Table(("class", "taken for", *shares), pairs),
    }


def settings_facts(settings: Mapping[str, Any]) -> dict[str, str]:
    """Each setting as text; `not set` if it depends on the data."""
    texts = {"None": "not set", "": "not set", "True": "on", "False": "off"}
    facts = {}
    for name, value in settings.items():
        parts = value
        if isinstance(value, Mapping):
            parts = [f"{key}={part}" for key, part in value.items()]
        text = str(parts)
        if isinstance(parts, list | tuple):
            text = ", ".join(map(str, parts))
        facts[name] = texts.get(text, text)
    return facts
