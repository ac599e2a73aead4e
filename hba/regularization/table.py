"""The table of regularizers in the documentation: `python -m hba.regularization.table` prints it."""

from collections.abc import Iterator

from hba.regularization.groups import REGULARIZERS
from hba.regularization.hyperparameter import Hyperparameter
from hba.regularization.in_network import DROPOUT, INITIAL_RATE, LARGEST_RATE

HEADINGS = ("`--tune`", "hyperparameter", "range", "begins at", "acts on")
PLACES = {
    "pixels": "the image in [0, 1]",
    "inputs": "the network's input",
    "network": "the network",
    "loss": "the loss",
}


def table() -> str:
    """Markdown, a line for each hyperparameter of hba's own regularizers, but those of language models."""
    lines = [HEADINGS, ("---",) * len(HEADINGS), *_rows()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _rows() -> Iterator[tuple[str, ...]]:
    of_dropout = Hyperparameter(f"{DROPOUT}.<module>", 0.0, LARGEST_RATE, INITIAL_RATE)
    for regularizer in (one for one in REGULARIZERS.values() if one.place in PLACES):
        for number, one in enumerate(regularizer.hyperparameters or (of_dropout,)):
            group = "" if number else f"`{regularizer.tuned_as}`"
            yield (group, f"`{one.name}`", _range(one), f"{one.initial:g}", PLACES[regularizer.place])


def _range(one: Hyperparameter) -> str:
    notes = [note for note, holds in (("log", one.scale == "log"), ("whole", one.whole), (one.unit, one.unit)) if holds]
    return f"{one.low:g} to {one.high:g}" + (f" ({', '.join(map(str, notes))})" if notes else "")


if __name__ == "__main__":
    print(table())
