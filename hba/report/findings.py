"""Sentences and tables about a schedule that `hba search`, `hba show`, `hba apply` and
reports share.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from hba.algorithms.race_findings import RaceFindings
from hba.algorithms.race_policies import NO_GROUP
from hba.config.training import PLATEAU
from hba.data.labels import error_in_words
from hba.operations.operation import MIXING, WALK
from hba.policy.space import SearchSpace
from hba.results.provenance import error_definition, network_measured
from hba.results.tables import Table, share_of
from hba.schedule.schedule import Schedule
from hba.schedule.summary import (
    key_epochs,
    reach,
    summarize,
    summarize_regularizers,
    task_of_schedule,
    used_operations,
)
from hba.utils.text import counted, percent


def evaluation_words(policy: Path, schedule: Schedule) -> list[str]:
    """The command that evaluates a schedule. Trainings have no validation loss for a
    plateau, so steps replace it.
    """
    settings = schedule.provenance.get("settings")
    words = ["hba", task_of_schedule(schedule).evaluate_command, str(policy)]
    is_plateau = (
        isinstance(settings, Mapping)
        and settings.get("learning_rate_schedule") == PLATEAU
    )
    if is_plateau:
        words += ["--learning-rate-schedule", "step"]
    return words


def policy_table(schedule: Schedule) -> Table:
    """The operations that a schedule applies in its last epoch, with means over copies
    in the first and the last.
    """
    last = schedule.epochs - 1
    shares = reach(schedule, last).shares
    rows = []
    for summary in summarize(schedule, (0, last)):
        operation = summary.operation
        if shares[operation.name] > 0:
            magnitudes = _moved(
                ", ".join(f"{copy:.3g}" for copy in ends)
                for ends in summary.shown_magnitudes or ()
            )
            magnitude = f"{magnitudes} {operation.unit or ''}".strip() or "-"
            probability = _moved(f"{value:.2f}" for value in summary.probability)
            share = share_of(operation, shares)
            rows.append((operation.name, probability, magnitude, share))
    return Table(
        ("operation", "probability", "magnitude", "share of images"), tuple(rows)
    )


def _moved(ends: Iterable[str]) -> str:
    """A number at the beginning and at the end, only once if they are equal; empty
    without numbers.
    """
    return " -> ".join(dict.fromkeys(ends))


def of_walk(space: SearchSpace) -> str:
    return " of the walk" if space.has_stages else ""


def regularizer_table(schedule: Schedule) -> Table:
    """Each regularizer: its start in the search, its values at key epochs, and its unit
    if any.
    """
    epochs = key_epochs(schedule)
    rows = []
    for summary in summarize_regularizers(schedule):
        hyperparameter = summary.hyperparameter
        numbers = (summary.began, *(summary.values[epoch] for epoch in epochs))
        rounded = "rounded" if hyperparameter.whole else None
        unit = ", ".join(filter(None, [hyperparameter.unit, rounded]))
        rows.append(
            (hyperparameter.name, *(f"{number:.3g}" for number in numbers), unit)
        )
    return Table(
        (
            "regularizer",
            "began at",
            *(f"epoch {epoch + 1}" for epoch in epochs),
            "unit",
        ),
        tuple(rows),
    )


def schedule_lines(schedule: Schedule) -> list[str]:
    """Sentences on the race, the operations of an image in the last epoch, the spread,
    and the network's error.
    """
    space = schedule.space
    origin = schedule.provenance
    race = RaceFindings.of(origin)
    lines = race_sentences(race) if race else []
    if space.class_moves is not None:
        lines += space.class_moves.sentences()
        lines.append(
            "Give the transform an image and its label for these moves: `image, label ="
            " transform(image, label)`; without a label, they are left out."
        )
    if space.operations:
        lines.append(reach_line(schedule, schedule.epochs - 1))
    reached = {epoch: reach(schedule, epoch).numbers for epoch in key_epochs(schedule)}
    if (
        space.searches_count
        and schedule.epochs > 1
        and any(numbers[0] < 1 for numbers in reached.values())
    ):
        shares = ", ".join(
            f"{' / '.join(f'{100 * part:.0f}' for part in numbers)} % in epoch"
            f" {epoch + 1}"
            for epoch, numbers in reached.items()
        )
        numbers = " / ".join(map(str, range(space.max_count + 1)))
        lines.append(
            f"The number of operations{of_walk(space)} is searched too; images that get"
            f" {numbers} of them: {shares}."
        )
    if schedule.spread.any():
        lines.append(
            f"Spread: up to {schedule.spread.max():.3g}. Every image draws its own"
            " values around the schedule's; the spread is the standard deviation of"
            " their logits."
        )
    for epoch, value in network_measured(origin).items():
        name = (
            f"Validation error{error_in_words(error_definition(origin))} of the search"
            " network"
        )
        lines.append(
            f"{name}: {percent(value)} after epoch {epoch}. A training with the"
            " schedule has another error."
        )
    return lines


def reach_line(schedule: Schedule, epoch: int) -> str:
    """Sentences on how many operations an image gets in an epoch (from 0), and on the
    share of mixed batches.
    """
    if not used_operations(schedule):
        return "The policy augments nothing: the probabilities of all operations are 0."
    space = schedule.space
    shares, numbers = reach(schedule, epoch)
    mean = sum(number * share for number, share in enumerate(numbers))
    moves = space.class_moves
    of_some_classes = () if moves is None else moves.operations
    staged = [
        shares[operation.name]
        for operation in space.operations
        if operation.stage not in (WALK, MIXING)
        and operation.name not in of_some_classes
    ]
    got = (
        f"at most {counted(space.max_count, 'operation')}{of_walk(space)}, {mean:.2f}"
        " on average"
    )
    if not space.walk or numbers[0] == 1:
        got = f"{sum(staged):.2f} operations on average"
    elif sum(staged) > 0:
        got += f", and {sum(staged):.2f} operations of other stages"
    none = numbers[0] * math.prod(1 - share for share in staged)
    sentences = []
    if space.acts_on_images:
        sentences.append(
            f"An image gets {got}; {100 * none:.0f} % of the images get none."
        )
    if of_some_classes:
        sentences.append(
            f"These numbers are without {', '.join(of_some_classes)}, which only"
            " images of some classes get."
        )
    mixed = sum(shares[operation.name] for operation in space.mixing)
    if mixed:
        sentences.append(f"{100 * mixed:.0f} % of the batches are mixed.")
    return " ".join(sentences)


def race_sentences(race: RaceFindings) -> list[str]:
    """Sentences on the symmetries, the forks and the policy of a race."""
    sentences = _on_symmetries(race)
    lower = race.lower
    if race.forks:
        changes = {
            name: f"{name} ({minus:+.3f} +- {error:.3f})"
            for name, (minus, error) in race.forks.items()
        }
        lowered = ", ".join(changes[name] for name in lower)
        not_lowered = ", ".join(
            changes[name] for name in changes if name not in (*lower, NO_GROUP)
        )
        sentences.append(
            f"Lowered the loss of {race.n_val} validation images from"
            f" {race.loss:.3f} by more than a standard error:"
            f" {lowered or 'no fork'}; did not: {not_lowered or 'no fork'}."
        )
    policy = "The policy"
    if race.winner:
        policy += f" is that of the fork {race.winner}"
    elif race.n_left:
        policy += " is the default, because no fork has ended yet"
    since = ""
    if race.is_moved:
        since = (
            ", with the probabilities and magnitudes that look-ahead has found since"
        )
    operations = ", ".join(race.operations) or "no augmentation"
    sentences.append(f"{policy}: {operations}{since}.")
    if len(lower) > 1:
        sentences.append(
            "Among forks within a standard error of the best, the race chooses the"
            " hardest to fit."
        )
    if race.n_left:
        ended = ", ".join(race.forks) or "no fork"
        text = f"Forks that have ended: {ended}; {race.n_left} have not."
        if race.winner:
            text += " Until all have, the policy is the best so far."
        sentences.append(text)
    return sentences


def _on_symmetries(race: RaceFindings) -> list[str]:
    """At most one sentence on the symmetries that a race has tested."""
    if not race.symmetries:
        return []
    if all(math.isnan(gap) for gap, _ in race.symmetries.values()):
        return [
            "No symmetry could be tested: the network had learned nothing yet; use"
            " more epochs."
        ]
    costs = {
        name: f"{name} ({100 * gap:z.0f} +- {100 * error:.0f} %)"
        for name, (gap, error) in race.symmetries.items()
    }
    results = "; ".join(
        f"{result}: {', '.join(costs[name] for name in names)}"
        for result, names in symmetry_results(race).items()
    )
    return [
        f"Symmetries {results}. In brackets: the share of what the network has learned"
        f" that it loses on new images moved in this way ({race.new_images}), with its"
        f" standard error; their sum is at most {100 * race.largest_gap:.0f} % for a"
        " symmetry that holds, and their difference is more for one that does not."
    ]


def symmetry_results(race: RaceFindings) -> dict[str, list[str]]:
    """Names of symmetries by the result of their test in words, without empty lists."""
    results = {
        "that hold": race.holding,
        "that hold for some classes": [*race.by_class],
        "that do not hold": [name for name in race.broken if name not in race.by_class],
        "not decided, and not taken": race.undecided,
    }
    return {result: names for result, names in results.items() if names}
