"""What the parts of the default are worth: candidates that are the default before with one part exchanged."""

from collections.abc import Sequence

from common.records import Record
from common.tables import difference, frame_of

from quality.aims import is_shown_to_be_worse
from quality.candidates import FORMER
from quality.error_tables import ERROR
from quality.kept import grouped


def are_the_worse_parts(trainings: Sequence[Record], dataset: str, names: Sequence[str]) -> bool | None:
    """Whether just these exchanges are shown to be worse than the default before on a bed's validation images; None
    without any training of an exchange there.
    """
    worse, tried = set(), set()
    for group in grouped(one for one in trainings if one.run.dataset == dataset):
        runs = frame_of(group)
        exchanges = {name for name in runs["name"] if name.startswith(f"{FORMER}-")}
        found = {name: difference(runs, name, FORMER, ERROR) for name in exchanges}
        tried |= exchanges
        worse |= {name for name, one in found.items() if one is not None and is_shown_to_be_worse(one)}
    return worse == set(names) if tried else None
