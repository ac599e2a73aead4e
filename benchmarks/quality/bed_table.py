"""How much augmentation matters on a bed: from none to RandAugment, before any search is looked at."""

from collections.abc import Iterable, Sequence

import pandas as pd
from common.records import Record
from common.tables import difference, difference_text, frame_of, spread_text

from quality.beds import BEDS
from quality.error_tables import ERROR
from quality.kept import grouped
from quality.tasks import NONE, RANDAUGMENT, RANGE


def of_range(records: Iterable[Record]) -> list[list[Record]]:
    """By bed and length, those of trainings that need no search, as far as all of them are there."""
    groups = grouped(record for record in records if record.run.name in RANGE)
    return [group for group in groups if {record.run.name for record in group} == set(RANGE)]


def bed_table(groups: Iterable[Sequence[Record]]) -> pd.DataFrame:
    """A row for each bed, in the order of BEDS: validation errors, and none's minus RandAugment's with equal seed."""
    order = list(BEDS)
    known = [group for group in groups if group[0].run.dataset in BEDS]
    return pd.DataFrame(
        _row(group) for group in sorted(known, key=lambda group: order.index(group[0].run.dataset))
    )  # fmt: skip


def _row(group: Sequence[Record]) -> dict[str, str]:
    runs, bed = frame_of(group), BEDS[group[0].run.dataset]
    errors = {name: own[ERROR] for name, own in runs.groupby("name")}
    found = difference(runs, NONE, RANDAUGMENT, ERROR)
    return {
        "bed": bed.name,
        "what it is": bed.text,
        "epochs": str(group[0].run.further["training_epochs"]),
        **{f"{name} (%)": spread_text(errors[name]) for name in RANGE},
        "range": difference_text(found),
        "seeds": str(0 if found is None else found.n_pairs),
    }
