"""What operations are worth over a whole training, beside what the default search made of them."""

import statistics

from hba.policy_evaluation.paired import PairedDifference
from quality.candidates import DEFAULT
from quality.ends import PROBABILITY
from quality.error_tables import ERROR, difference_text, spread_text
from quality.planted_tables import Records
from quality.whole_search import LEFT_OUT, RANDOM

LEFT_OUT_HEADINGS = ("operations", f"probability at the end of {DEFAULT}", "error without them minus that with them")


def left_out_rows(trainings: Records, searches: Records) -> list[list[str]]:
    """One row for each group of operations that was left out of a random policy; those that were not run are not there.

    trainings, searches: of one dataset and length. The difference is of validation errors with the same seed, mean and
    95 % t-interval: above zero, the operations help.
    """
    errors: dict[str, dict[int, float]] = {}
    for name, kept in trainings:
        errors.setdefault(name, {})[kept.run["seed"]] = kept.results[ERROR]
    ends = [kept.results["end"] for name, kept in searches if name == DEFAULT and "end" in kept.results]
    rows = []
    for name, operations in LEFT_OUT.items():
        if name in errors:
            difference = PairedDifference.of(errors[name], minus=errors.get(RANDOM, {}))
            found = [statistics.mean(end[operation][PROBABILITY] for operation in operations) for end in ends]
            rows.append([", ".join(operations), spread_text(found) if found else "-", difference_text(difference)])
    return rows
