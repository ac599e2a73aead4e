"""The page docs/search-quality.md, made from the records that are kept."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reproduction.page import hardware_of

from hba.magnitude_table import as_markdown
from quality.beds import DIGITS
from quality.candidates import CANDIDATES, PAPER
from quality.error_tables import ERROR_HEADINGS, error_rows
from quality.planted_search import RECOVERED_WITHIN
from quality.planted_tables import Records, rate_rows
from quality.records import Book, Kept
from quality.whole_search import RIVALS

HEAD = """# How good a search is, by its settings

Generated from `benchmarks/results/quality` by `python benchmarks/search_quality.py page`; edit `benchmarks/quality`
instead. No test split was opened for any number here: validation images decide between candidates.
"""

PLANTED_TEXT = f"""## Planted answers

Validation images went through one operation, or a pair, and training images did not; on `none` nothing was planted.
By problem: searches that have every planted operation among the first {RECOVERED_WITHIN} of all by probability at the
end, of all searches, with the 95 % Wilson interval. A ranking at random has one given operation of 15 there in 20 %.
Mean rank and `by strength` (probability times how far the magnitude is from doing nothing) are those of the planted
operations, 1 being the largest; `planted p` and `others p` are mean end probabilities; the validation error is that of
the search network, mean over all runs.
"""

SEARCHES_TEXT = f"""## The search's own network

Validation error of the search network after the last epoch: mean ± standard deviation over seeds, and the mean
difference to `{PAPER}` with the same seed, with its 95 % t-interval. A search also fits its policy to these
images, so that the next section counts for more.
"""

_RIVALS_TEXT = " ".join(f"`{name}`: {what}." for name, what in RIVALS.items())

TRAININGS_TEXT = f"""## Fresh networks, trained with what was found

Trained on the search's training images with the schedule that the search of the same seed found, and measured on its
validation images, which the schedule was searched with.
{_RIVALS_TEXT}
"""

NOT_RUN = "Not run.\n"

Table = tuple[Sequence[str], list[list[str]]]
"""Headings and rows."""


@dataclass(frozen=True)
class Section:
    """text: its head. command: what makes its records, without options. table: of the records of one suite."""

    text: str
    command: str
    table: Callable[[Records], Table]
    records: Records


def write_page(results: Path, docs: Path) -> None:
    """docs/search-quality.md; results: the folder of this page's records."""
    sections = (
        Section(PLANTED_TEXT, "planted.py", rate_rows, records_in(results / "planted")),
        Section(SEARCHES_TEXT, "search_quality.py candidates", _error_table, _of_all_data(results, "searches")),
        Section(TRAININGS_TEXT, "search_quality.py retrain", _error_table, _of_all_data(results, "trainings")),
    )
    parts = [HEAD, _candidates_text()]
    for section in sections:
        parts += [section.text, *(_suite_texts(section) or [NOT_RUN])]
    (docs / "search-quality.md").write_text("\n".join(parts), encoding="utf-8")


def records_in(folder: Path) -> list[tuple[str, Kept]]:
    """Each candidate's and rival's runs, as far as they had the settings that it has now; the last of equal ones."""
    found = []
    for name in (*CANDIDATES, *RIVALS):
        latest: dict[str, Kept] = {}
        for kept in Book(folder / f"{name}.json").all():
            if name in RIVALS or _has_settings(kept, CANDIDATES[name].settings):
                key = json.dumps([kept.shared["dataset"], kept.shared["settings"]["epochs"], kept.run], sort_keys=True)
                latest[key] = kept
        found += [(name, kept) for kept in latest.values()]
    return found


def _has_settings(kept: Kept, settings: Mapping[str, Any]) -> bool:
    # Through JSON, which knows no tuples.
    return all(kept.shared["settings"].get(name) == value for name, value in json.loads(json.dumps(settings)).items())


def _of_all_data(results: Path, kind: str) -> list[tuple[str, Kept]]:
    return [record for folder in sorted(results.glob(f"*/{kind}")) for record in records_in(folder)]


def _suite_texts(section: Section) -> list[str]:
    """A text and a table for each choice of images and epochs."""
    groups: dict[tuple[str, int, int], list[tuple[str, Kept]]] = {}
    for name, kept in section.records:
        key = (kept.shared["dataset"], kept.shared["settings"]["epochs"], kept.run.get("training_epochs", 0))
        groups.setdefault(key, []).append((name, kept))
    texts = []
    for (dataset, epochs, training_epochs), records in sorted(groups.items()):
        options = "" if dataset == DIGITS else f" --data DIR --label {dataset}"
        options += f" --epochs {epochs}" + (f" --training-epochs {training_epochs}" if training_epochs else "")
        hardware = "; ".join(sorted({hardware_of(kept.shared) for _, kept in records}))
        commits = ", ".join(sorted({f"`{kept.shared['commit']}`" for _, kept in records}))
        texts.append(
            f"Data: {dataset}. Hardware: {hardware}. Commit: {commits}. "
            f"Command: `python benchmarks/{section.command}{options}`.\n"
        )
        texts.append(as_markdown(*section.table(records)) + "\n")
    return texts


def _error_table(records: Records) -> Table:
    return ERROR_HEADINGS, error_rows(records)


def _candidates_text() -> str:
    rows = [
        [
            name,
            candidate.text,
            ", ".join(f"`{setting}={value}`" for setting, value in candidate.settings.items()) or "-",
        ]
        for name, candidate in CANDIDATES.items()
    ]
    return "## Candidates\n\n" + as_markdown(("name", "what it does", "settings"), rows) + "\n"
