"""The page docs/search-quality.md, made from the records that are kept."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from closed_form import record as closed_forms
from reproduction.page import hardware_of
from reproduction.same_settings import same_settings

from hba.config.presets import PAPER_SETTINGS
from hba.policy.magnitude_table import as_markdown
from hba.policy_evaluation.verdict import verdict
from quality.aims import aim_rows
from quality.candidates import CANDIDATES, DEFAULT, PAPER
from quality.commands import command_of_cost, command_of_suite, command_of_verdict
from quality.cost import COST_HEADINGS, cost_rows
from quality.error_tables import (
    CONFIRMING_FROM,
    CONFIRMING_HEADINGS,
    ERROR_HEADINGS,
    VERDICT_HEADINGS,
    confirming_rows,
    error_rows,
    verdict_differences,
    verdict_rows,
)
from quality.left_out import LEFT_OUT_HEADINGS, left_out_rows
from quality.planted_search import RECOVERED_WITHIN
from quality.planted_tables import Records, rate_rows
from quality.problems import HELD_OUT
from quality.records import Book, Kept
from quality.verdict_runs import OF_DEFAULT, ROWS, STANDARD_ROWS
from quality.whole_search import LEFT_OUT, RANDOM, RIVALS

HEAD = f"""# How good a search is

Generated from `benchmarks/results/quality` by `python benchmarks/search_quality.py page`; edit `benchmarks/quality`
instead. First the verdict, on test images: is what the default search found better than a random policy, than its own
curves handed to other operations, than the policies that people use? Then how the default was chosen, by validation
images and by problems with a known answer. `{DEFAULT}` is the default of `hba search`, `{PAPER}` is
`hba search --paper`.
"""

AIM_HEADINGS = ("aim", "data", "is it?", "figures")

EVIDENCE_TEXT = """What the tables below point to:

- Look-ahead raises what was planted, also in problems that the default was not chosen by. The paper's hypergradient
  does so in less than half of the searches, whatever else is set about it. Comparing several draws for the same image
  puts the planted operation nearer to the first place than comparing images; that it recovers more is not shown. More
  validation images, calibration, a warm-up and the hypergradient on top (`hba-lookahead`) recover no more. Twice as
  many lambda steps (`lookahead-draws-often`) take lambda further and recover as much, in more time, so that the
  default has fewer. Of a planted pair often only one is among the first three.
- On the small part of CIFAR-10 all searches that start in the middle of every range have a lower mean validation
  error than the paper's settings, and the paper's algorithm from there (`middle`) is among them: at this scale it
  counts more where a search starts than how it goes on. Between those that start there five seeds show no difference.
- On both data the schedule is better than no augmentation. That it is better than a random policy, which is where the
  search begins, is shown on neither. Earlier tables showed it, with networks that started from the weights that the
  schedule was searched on; what of the difference was due to that, and what to other seeds, is not told apart.
- Its own curves handed to other operations have the lower mean on both, with intervals across zero, now that they are
  made as strong as the schedule: which operation has which curve is not shown to count. Without that,
  in earlier tables, they were weaker and worse.
- RandAugment is better than the schedule on CIFAR-10 by an interval above zero, before it is allowed for that it was
  picked as the best of four; on digits no difference is shown.
- One step is not a whole training. On CIFAR-10 searches lower AutoContrast and Equalize, whatever the seed, but
  trainings without these two had the highest error of those that leave operations out; and they leave rotations and
  shears where they were, but trainings without these had the lowest. Five seeds settle none of these differences.
  Rewards along ten to forty unrolled steps changed little about it, in trials by hand that no command here repeats.
- RandAugment changes every image by two operations. A policy of this space leaves a fifth of the images as they are
  and takes at most one operation for three tenths of them, wherever a search ends: that part of the paper's policy is
  not searched.
- No response of the hypernetwork is best in all closed forms. A centered one starts slowly, because it begins at zero
  and is learnt from the noise alone; an affine one depends on where lambda is.

Not measured, for want of a GPU: the full CIFAR-10 copy, and Reduced CIFAR-10 with WRN-40-2.
"""

VERDICT_TEXT = f"""## The verdict

Fresh networks, trained on as many images as the search trained on, for as many epochs, and measured on the test split
after the last one: mean ± standard deviation over seeds. Row `{DEFAULT}` trains with the schedule that the default
search found, `{PAPER}` with what the paper's found, each seed with the schedule of the search of the same seed, and so
do other candidates (`--rows`); the others are those of `hba evaluate --against`. The difference is the one with the
same seed, mean and 95 % t-interval: where it lies below zero, the default search is better than the row. Intervals are
over seeds of search and training, not over other test images. `trivialaugment` shifts by up to 32 pixels whatever the
images' size, too far for these. All seeds share one split. The sentence allows for picking the best of all rows by the
same numbers (Bonferroni), the aims above do not. Evaluations have seeds of their own: no network starts from the
weights that its schedule was searched on, as those of earlier tables did. `shuffled` is as strong as the schedule: it
moves the training images by as many grey levels on average. The numbers of seeds, 10 and 6, were fixed before any of
these results was looked at.
"""

CONFIRMING_TEXT = f"""The seeds from {CONFIRMING_FROM} on by themselves. The first five had been looked at before
the next five were run, and these before the rest; the number of the rest was fixed beforehand, and that they should
show a difference to `random` and `shuffled`.
"""

CLOSED_FORMS_TEXT = """## Closed forms

Where the best response of the weights to lambda, and the best lambda, are known exactly: ridge regression whose penalty
comes about by augmentation (Delta-STN, section 5.1), with the tool's own hypernetwork and updates. The relative error
of the learnt Jacobian, with lambda held and weights at the best response, and while lambda is searched; how far lambda
ends from the best; mean (least to most) over seeds. `limit` is the error that stays for ever, as the noise is not
small.
Command: `python benchmarks/closed_forms.py`.

![The learnt response and lambda against the exact ones](closed-forms.png)
"""

COST_TEXT = """## What a step costs

Seconds per training step with its share of the lambda steps, measured in turns, one thread; ratios within a round. The
floor is plain training without augmentation, with a forward pass on a validation batch after every second step.
"""

PLANTED_TEXT = f"""## Planted answers

Validation images went through one operation, or a pair, and training images did not. By problem: searches that have
every planted operation among the first {RECOVERED_WITHIN} of all by probability at the end, of all searches, with the
95 % Wilson interval. `elsewhere`: how often an operation is there in a search where not it, but that of another problem
of the table was planted; a ranking at random has one given operation of 15 there in 20 %. Mean rank and `by strength`
(probability times how far the magnitude is from doing nothing) are those of the planted operations, 1 being the
largest; `planted p` and `others p` are mean end probabilities; the validation error is that of the search network, mean
over all runs; `s` are seconds, the median, with whatever else the machine did.
"""

HELD_OUT_TEXT = """### Problems that the default was not chosen by

The same, for problems that were first run when the default stood.
"""

PAIRS_TEXT = """### Pairs

The same where two operations were planted one after the other: both have to be among the first.
"""

SEARCHES_TEXT = f"""## The search's own network

Validation error of the search network after the last epoch: mean ± standard deviation over seeds, and the mean
difference to `{PAPER}` with the same seed, with its 95 % t-interval. A search also fits its policy to these
images, so that the next section counts for more. Seconds are with whatever else the machine did.
"""

_RIVALS_TEXT = " ".join(f"`{name}`: {what}." for name, what in RIVALS.items())

TRAININGS_TEXT = f"""## Fresh networks, trained with what was found

Trained on the search's training images with the schedule that the search of the same seed found, and measured on its
validation images, which the schedule was searched with. Runs of commits before `7a14bbf` start from the first weights
of the search of their seed; evaluations have seeds of their own since.
{_RIVALS_TEXT}
"""

LEFT_OUT_TEXT = f"""## What operations are worth over a whole training

A random policy with and without some operations, on validation images, beside the mean probability that these
operations have at the end of `{DEFAULT}`, which starts at 0.5; mean ± standard deviation over searches. The difference
is the one with the same seed, mean and 95 % t-interval: above zero, a training is better with the operations than with
more of all others in their place. Brightness, Color, Contrast and Sharpness do nothing at the middle of their range,
and are part of such a policy in name only.
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
    parts = [HEAD, *_aims_texts(results), *_verdict_texts(results)]
    planted = records_in(results / "planted")
    sections = (
        Section(PLANTED_TEXT, "planted.py", rate_rows, [one for one in planted if _kind(one) == "single"]),
        Section(HELD_OUT_TEXT, "planted.py", rate_rows, [one for one in planted if _kind(one) == "held out"]),
        Section(PAIRS_TEXT, "planted.py", rate_rows, [one for one in planted if _kind(one) == "pair"]),
        Section(SEARCHES_TEXT, "search_quality.py candidates", _error_table, _of_all_data(results, "searches")),
        Section(TRAININGS_TEXT, "search_quality.py retrain", _error_table, _of_all_data(results, "trainings")),
    )
    parts.append(_candidates_text())
    for section in sections:
        parts += [section.text, *(_suite_texts(section) or [NOT_RUN])]
    parts += [*_left_out_texts(results), *_cost_texts(results), *_closed_form_texts(results)]
    (docs / "search-quality.md").write_text("\n".join(parts), encoding="utf-8")


def _kind(record: tuple[str, Kept]) -> str:
    """Of a planted problem."""
    run = record[1].run
    return "pair" if len(run["planted"]) > 1 else "held out" if run["problem"] in HELD_OUT else "single"


def _aims_texts(results: Path) -> list[str]:
    verdicts = {_images_text(records): verdict_differences(records) for records in _verdict_records(results)}
    rows = aim_rows(records_in(results / "planted"), verdicts)
    return ["## What was aimed at\n", as_markdown(AIM_HEADINGS, rows) + "\n", EVIDENCE_TEXT]


def _verdict_records(results: Path) -> list[list[tuple[str, Kept]]]:
    """All rows, by dataset, epochs and number of training images."""
    groups: dict[tuple[str, int, int], list[tuple[str, Kept]]] = {}
    for folder in sorted(results.glob("*/verdict")):
        for name in ROWS:
            for kept in Book(folder / f"{name}.json").all():
                if _is_of(DEFAULT if name in OF_DEFAULT else name, kept):
                    key = (folder.parent.name, kept.shared["settings"]["epochs"], kept.run["training_images"])
                    groups.setdefault(key, []).append((name, kept))
    return [records for _, records in sorted(groups.items())]


def _images_text(records: Records) -> str:
    kept = records[0][1]
    epochs = kept.shared["settings"]["epochs"]
    return f"{kept.shared['dataset']}, {kept.run['training_images']} training images, {epochs} epochs"


def _verdict_texts(results: Path) -> list[str]:
    """The table of each choice of images, and its sentence."""
    texts = [VERDICT_TEXT]
    for records in _verdict_records(results):
        texts += [
            f"Data: {_images_text(records)}, {records[0][1].shared['settings']['model']}. {_origin(records)} "
            f"Command: {command_of_verdict(records)}.\n",
            as_markdown(VERDICT_HEADINGS, verdict_rows(records)) + "\n",
            f"{_verdict_of(records)}\n",
        ]
        if confirming := confirming_rows(records):
            texts += [CONFIRMING_TEXT, as_markdown(CONFIRMING_HEADINGS, confirming) + "\n"]
    return texts if len(texts) > 1 else [*texts, NOT_RUN]


def _verdict_of(records: Records) -> str:
    """The sentence that the command prints."""
    standard = [(name, kept) for name, kept in records if name in STANDARD_ROWS]
    return str(verdict(verdict_differences(standard)) or f"No verdict: `{DEFAULT}` has not been run.")


def _left_out_texts(results: Path) -> list[str]:
    """A table for each choice of images, and epochs of search and training."""
    texts = [LEFT_OUT_TEXT]
    of_interest = (DEFAULT, RANDOM, *LEFT_OUT)
    trainings = [(name, kept) for name, kept in _of_all_data(results, "trainings") if name in of_interest]
    searches = [(name, kept) for name, kept in _of_all_data(results, "searches") if name == DEFAULT]
    for key, trained in sorted(_grouped(trainings).items()):
        dataset, epochs, training_epochs = key
        found = _grouped(searches).get((dataset, epochs, 0), [])
        if rows := left_out_rows(trained, found):
            command = command_of_suite("search_quality.py retrain", [*trained, *found])
            texts += [
                f"Data: {dataset}, {training_epochs} epochs. {_origin([*trained, *found])} Command: {command}.\n",
                as_markdown(LEFT_OUT_HEADINGS, rows) + "\n",
            ]
    return texts if len(texts) > 1 else [*texts, NOT_RUN]


def _cost_texts(results: Path) -> list[str]:
    texts = [COST_TEXT]
    for path in sorted(results.glob("*/cost.json")):
        measured = json.loads(path.read_text(encoding="utf-8"))
        texts += [
            f"Data: {measured['dataset']}. Hardware: {hardware_of(measured)}. Commit: `{measured['commit']}`. "
            f"Command: {_cost_command(measured)}.\n",
            as_markdown(COST_HEADINGS, cost_rows(measured)) + "\n",
        ]
    return texts if len(texts) > 1 else [*texts, NOT_RUN]


def _cost_command(measured: Mapping[str, Any]) -> str:
    seconds = measured["seconds_per_step"]
    return command_of_cost(measured["dataset"], [name for name in seconds if name in CANDIDATES], len(seconds[PAPER]))


def _closed_form_texts(results: Path) -> list[str]:
    path = results / "closed-forms" / "closed_forms.json"
    if not path.exists():
        return [CLOSED_FORMS_TEXT, NOT_RUN]
    records = json.loads(path.read_text(encoding="utf-8"))
    return [CLOSED_FORMS_TEXT, as_markdown(closed_forms.HEADINGS, closed_forms.table_rows(records)) + "\n"]


def _origin(records: Records) -> str:
    """Hardware and commits."""
    hardware = "; ".join(sorted({hardware_of(kept.shared) for _, kept in records}))
    commits = ", ".join(sorted({f"`{kept.shared['commit']}`" for _, kept in records}))
    return f"Hardware: {hardware}. Commit: {commits}."


def records_in(folder: Path) -> list[tuple[str, Kept]]:
    """Each candidate's and rival's runs, as far as they had the settings that it has now; the last of equal ones."""
    found = []
    for name in (*CANDIDATES, *RIVALS):
        latest: dict[str, Kept] = {}
        for kept in Book(folder / f"{name}.json").all():
            if _is_of(name, kept):
                key = json.dumps([kept.shared["dataset"], kept.shared["settings"]["epochs"], kept.run], sort_keys=True)
                latest[key] = kept
        found += [(name, kept) for kept in latest.values()]
    return found


def _is_of(name: str, kept: Kept) -> bool:
    """Whether the run had the settings that the candidate has now; what is no candidate has none of its own."""
    if name not in CANDIDATES:
        return True
    # Through JSON, which knows no tuples.
    settings = json.loads(json.dumps({**PAPER_SETTINGS, **CANDIDATES[name].settings}))
    return same_settings(kept.shared["settings"], settings)


def _of_all_data(results: Path, kind: str) -> list[tuple[str, Kept]]:
    return [record for folder in sorted(results.glob(f"*/{kind}")) for record in records_in(folder)]


def _suite_texts(section: Section) -> list[str]:
    """A text and a table for each choice of images and epochs."""
    texts = []
    for key, records in sorted(_grouped(section.records).items()):
        command = command_of_suite(section.command, records)
        texts.append(f"Data: {key[0]}. {_origin(records)} Command: {command}.\n")
        texts.append(as_markdown(*section.table(records)) + "\n")
    return texts


def _grouped(records: Records) -> dict[tuple[str, int, int], list[tuple[str, Kept]]]:
    """By dataset, epochs of the search and epochs of the training, 0 without one."""
    groups: dict[tuple[str, int, int], list[tuple[str, Kept]]] = {}
    for name, kept in records:
        key = (kept.shared["dataset"], kept.shared["settings"]["epochs"], kept.run.get("training_epochs", 0))
        groups.setdefault(key, []).append((name, kept))
    return groups


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
