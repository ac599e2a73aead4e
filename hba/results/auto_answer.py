"""The answer of `hba auto`, made from the files of its run whenever it is shown."""

import math
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hba.algorithms.race_findings import RaceFindings
from hba.algorithms.race_policies import GROUPS
from hba.config.training import LEAST_EPOCHS
from hba.results.answer import REFERENCES, SYMMETRIES, WITH, Answer, answer, words_of
from hba.results.evaluation import EvaluationResult
from hba.results.run import ROWS_FOLDER, SEARCH_FOLDER, TEST_FOLDER
from hba.schedule.library import POLICY_NAME
from hba.schedule.recipes import RECIPES
from hba.schedule.schedule import Schedule
from hba.utils.settings import words
from hba.utils.text import counted, distinct_percents, duration


def auto_answer(
    record: Mapping[str, Any],
    results: EvaluationResult | None,
    policy: Schedule | None,
    folder: Path,
) -> Answer:
    """What a run says about the row that it has chosen.

    record: the content of auto.json. results: of the test so far. policy: of the
    chosen row. folder: of the run, which its commands name.
    """
    chosen = record.get("chosen")
    if chosen is None and results is not None:
        chosen = results.rows[0].name
    if chosen is None:
        return Answer("There is nothing to compare yet.", "no difference shown", {})
    n_compared = sum(bool(row["losses"]) for row in record.get("rows", ()))
    is_compared = n_compared > 1
    reason = (
        f"chosen {'on validation images' if is_compared else 'without a comparison'}"
    )
    tested = None
    if results is not None:
        policies = _policies_of_rows(record, results, folder)
        command = command_of_test(record, results, folder)
        test = folder / TEST_FOLDER
        tested = answer(results, command, chosen=reason, folder=test, policies=policies)
    if tested is None:
        text = f"Use {words_of(chosen)}, {reason}; the test has no result yet."
        tested = Answer(text, "no difference shown", {})
    further = [
        _on_few_epochs(record),
        _on_networks(record, tested.test_error),
        _on_content(chosen, policy),
        "" if chosen == SEARCH_FOLDER else _on_search(folder / SEARCH_FOLDER),
    ]
    sentences = [tested.sentence, *filter(None, further)]
    return replace(tested, sentence=" ".join(sentences))


def command_of_test(
    record: Mapping[str, Any], results: EvaluationResult, folder: Path
) -> str:
    """The command that runs the test of a run again."""
    first, *others = _policies_of_rows(record, results, folder).values()
    test = str(folder / TEST_FOLDER)
    settings = ["--against", ",".join(others), "--config", test, "--out", test]
    if results.warnings:
        settings.append("--allow-seen")
    return shlex.join(["hba", "evaluate", first, *settings])


def _policies_of_rows(
    record: Mapping[str, Any], results: EvaluationResult, folder: Path
) -> dict[str, str]:
    """For each row of the test, the name or file of its policy, as commands take it."""
    names = [row.name for row in results.rows]
    against = words(record.get("of_test", {}).get("against", REFERENCES))
    asked = [name for name in against if name != names[0]]
    first = names[0]
    if first == SEARCH_FOLDER:
        first = str(folder / SEARCH_FOLDER)
    elif (folder / ROWS_FOLDER / f"{first}.json").exists():
        first = str(folder / ROWS_FOLDER / f"{first}.json")
    # An evaluation may have added rows after these.
    return dict(zip(names, [first, *asked, *names[1 + len(asked) :]], strict=False))


def _on_few_epochs(record: Mapping[str, Any]) -> str:
    settings = record.get("settings", {})
    epochs = settings.get("epochs", LEAST_EPOCHS)
    if epochs >= LEAST_EPOCHS or "pretrained" in settings:
        return ""
    seconds = record["budget_seconds"] * LEAST_EPOCHS / epochs
    longer = f"--budget {math.ceil(seconds / 60)}m, for {LEAST_EPOCHS} epochs,"
    if record["has_given_epochs"]:
        longer = f"--epochs {LEAST_EPOCHS}"
    return (
        f"Trainings of {counted(epochs, 'epoch')} favor little augmentation: a new run"
        f" with {longer} may change the answer."
    )


def _on_networks(record: Mapping[str, Any], test_error: float) -> str:
    """Sentences on the network, if there were several, and on the best linear layer."""
    if record.get("network") is None:
        return ""
    settings = record["settings"]
    weights = "pretrained weights" if settings.get("pretrained") else "random weights"
    side = settings["image_size"]
    text = f"Trained: {settings['model']} from {weights}, on images of {side} pixels."
    layers = record.get("linear", ())
    linear = min(layers, key=lambda layer: layer["error_percent"], default=None)
    if linear is None or linear["test_percent"] is None or math.isnan(test_error):
        return text
    error, of_network = distinct_percents([linear["test_percent"], test_error])
    comparison = "the same, and takes"
    if error != of_network:
        is_lower = linear["test_percent"] < test_error
        comparison = "less, and takes" if is_lower else "more, but takes"
    return (
        f"{text} A linear layer on frozen features of {linear['model']} at "
        f"{linear['side']} pixels has {error} test error, which is {comparison} "
        f"{duration(max(1.0, linear['seconds']))}."
    )


def _on_content(chosen: str, policy: Schedule | None) -> str:
    """What the chosen policy applies."""
    race = None if policy is None else RaceFindings.of(policy.provenance)
    if race is not None:
        return f"{chosen}: {race.takes}."
    base, *changes = chosen.split(WITH)
    parts = [base.removeprefix(f"{SYMMETRIES}-"), *changes]
    texts = {
        **{name: recipe.text for name, recipe in RECIPES.items() if name != "none"},
        **{name: ", ".join(group) for name, group in GROUPS.items()},
    }
    return " ".join(f"{part}: {texts[part]}." for part in parts if part in texts)


def _on_search(folder: Path) -> str:
    """What the search in a folder has found."""
    path = folder / POLICY_NAME
    race = RaceFindings.of(Schedule.load(path).provenance) if path.exists() else None
    if race is None:
        return ""
    nothing = "no augmentation that helps" if race.forks else "no symmetry"
    operations = ", ".join(race.operations) or nothing
    return f"The search found {operations}."
