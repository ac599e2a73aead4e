"""What joint tuning is tried on: two beds as they are, and one on which regularisation is known to matter."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from common.tasks import SearchTask
from quality.beds import BEDS, Bed, find_bed
from quality.views import View

from hba.policy_search.config import SearchConfig

TUNED = "augmentation,dropout,weight-decay"
SEARCHES: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {"augmentation": {"val_batch_size": None}, "joint": {"tune": TUNED}}
)
"""By the name of a search, its settings over a bed's. `augmentation` is the default search, with whole batches of
validation images as `joint` has them.
"""

NOISY = Bed(
    "digits-noisy",
    "digits at 8x8, 350 training images of which three in ten have a random label, 350 validation images, mlp-128",
    "digits",
    {
        **{"model": "mlp-128", "image_size": 8, "train_size": 350, "val_size": 350, "batch_size": 50},
        **{"learning_rate": 0.05, "weight_decay": 0.0001},
    },
    View(label_noise=0.3),
    "digits",
)
JOINT_BEDS: Mapping[str, Bed] = MappingProxyType({"digits": BEDS["digits"], NOISY.name: NOISY, "cifar": BEDS["cifar"]})


def joint_bed(name: str, data: str | None = None) -> Bed:
    """data: the folder of the CIFAR-10 copy, for the bed of it."""
    return NOISY if name == NOISY.name else find_bed(name, data)


@dataclass(frozen=True)
class Place:
    """A bed, the number of epochs of searches and trainings, and the folder of searches."""

    bed: Bed
    epochs: int
    device: str
    work: Path | None

    def search(self, name: str, seed: int) -> SearchTask:
        """A search by name, of SEARCHES."""
        given = {**self.bed.settings, **SEARCHES[name], "epochs": self.epochs, "device": self.device}
        config = SearchConfig.from_preset({**given, "seed": seed, "data": self.bed.data}, self.bed.preset).resolved()
        view = self.bed.view
        of_bed = {} if view is None else {"bed": self.bed.name, "images": view.as_json()}
        work = None if self.work is None else self.work / "joint"
        return replace(SearchTask(name, self.bed.name, config, work), further=of_bed, view=view)
