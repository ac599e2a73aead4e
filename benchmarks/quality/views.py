"""What a bed does to images after they are read, in memory, so that the files stay as they are."""

import dataclasses
from dataclasses import asdict, dataclass
from typing import Any

import torch
from common.images import SPLIT_SEED
from torchvision.transforms.v2 import functional as TF

from hba.data import EvaluationData, LabelledImages, SearchData
from hba.data.images import Images
from hba.data.lazy_split import LazySplit
from hba.errors import DataError
from hba.utils.seeding import generator_for
from quality.shift import Shift

CPU = torch.device("cpu")


@dataclass(frozen=True)
class View:
    """grey: of all images, three equal channels by their luma. shift: of validation and test images, always the same.
    test_size: as many test images, stratified, always the same ones; None keeps all. label_noise: the share of training
    images that have a random label in the place of their own, always the same; 0 for none.

    Images have to be in memory and on the CPU, so that a shift is the same on every machine.
    """

    grey: bool = False
    shift: Shift | None = None
    test_size: int | None = None
    label_noise: float = 0.0

    def of_search(self, data: SearchData) -> SearchData:
        val = self._shifted(self._colored(data.val), "validation")
        train = self._noisy(self._colored(data.train), len(data.class_names))
        return dataclasses.replace(data, train=train, val=val)

    def of_training(self, data: EvaluationData) -> EvaluationData:
        """It reads the test images."""
        test = data.test.opened() if isinstance(data.test, LazySplit) else data.test
        test = self._shifted(self._colored(self._part(_in_memory(test))), "test")
        train = self._noisy(self._colored(data.train), len(data.class_names))
        return dataclasses.replace(data, train=train, test=test)

    def as_json(self) -> dict[str, Any]:
        """What of it is not off; part of a record, so that it decides what a run is compared with."""
        return {name: value for name, value in asdict(self).items() if value}

    def _colored(self, images: Images) -> LabelledImages:
        kept = _in_memory(images)
        return dataclasses.replace(kept, images=TF.rgb_to_grayscale(kept.images, 3)) if self.grey else kept

    def _noisy(self, images: LabelledImages, n_classes: int) -> LabelledImages:
        """A random label may be the right one."""
        if not self.label_noise:
            return images
        generator = generator_for(0, "noise of training labels", CPU)
        is_noisy = torch.rand(len(images), generator=generator) < self.label_noise
        random = torch.randint(0, n_classes, (len(images),), generator=generator)
        return dataclasses.replace(images, labels=torch.where(is_noisy, random, images.labels))

    def _shifted(self, images: LabelledImages, part: str) -> LabelledImages:
        if self.shift is None:
            return images
        generator = generator_for(0, f"shift of {part} images", CPU)
        return dataclasses.replace(images, images=self.shift(images.images, generator))

    def _part(self, images: LabelledImages) -> LabelledImages:
        from sklearn.model_selection import train_test_split

        if self.test_size is None or self.test_size == len(images):
            return images
        if self.test_size > len(images):
            raise DataError(f"the bed takes {self.test_size} test images, but there are {len(images)}")
        numbers = torch.arange(len(images)).numpy()
        chosen, _ = train_test_split(
            numbers, train_size=self.test_size, stratify=images.labels.numpy(), random_state=SPLIT_SEED
        )
        chosen = torch.from_numpy(chosen).sort().values
        return dataclasses.replace(images, images=images.images[chosen], labels=images.labels[chosen])


def _in_memory(images: Images) -> LabelledImages:
    if not isinstance(images, LabelledImages):
        raise DataError("a bed needs images that are in memory")
    return images
