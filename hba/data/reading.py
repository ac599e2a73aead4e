"""What images that stay in their files have in common, whether they are decoded or copied."""

import weakref
from collections.abc import Generator

import numpy as np

from hba.data.images import Batch, Colors, mean_and_std

COLOR_SAMPLE = 2000
SUM_BATCH_SIZE = 100


def color_sample(n_images: int) -> np.ndarray:
    """Which of so many images mean and deviation of the colours are taken of, ascending; drawn by a fixed seed."""
    if n_images <= COLOR_SAMPLE:
        return np.arange(n_images)
    return np.sort(np.random.default_rng(0).choice(n_images, COLOR_SAMPLE, replace=False))


class ReadFromFiles:
    """_colors: mean and deviation, once they are known. _reading: what reads at present; it ends when it is closed."""

    _colors: list[tuple[Colors, Colors]]
    _reading: "weakref.WeakSet[Generator[Batch]]"

    def __len__(self) -> int:
        raise NotImplementedError

    def read_in_order(self, indices: np.ndarray, batch_size: int) -> Generator[Batch]:
        """The images at the indices, in batches."""
        raise NotImplementedError

    def close(self) -> None:
        for reading in list(self._reading):
            reading.close()

    def mean_color(self) -> Colors:
        return self._mean_and_std()[0]

    def std_color(self) -> Colors:
        return self._mean_and_std()[1]

    def _mean_and_std(self) -> tuple[Colors, Colors]:
        if not self._colors:
            reading = self._registered(self.read_in_order(color_sample(len(self)), SUM_BATCH_SIZE))
            self._colors.append(mean_and_std(images for images, _ in reading))
        return self._colors[0]

    def _registered(self, reading: Generator[Batch]) -> Generator[Batch]:
        self._reading.add(reading)
        return reading
