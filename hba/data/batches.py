"""Batches for training."""

from collections.abc import Generator
from typing import Any

import torch
from torch import Tensor

from hba.data.images import Batch, Images
from hba.distributed.collectives import check_divides, own
from hba.distributed.process_info import size
from hba.errors import DataError


class BatchStream:
    """Endless batches (images float in [0, 1], labels): whole passes in a new random order each, last part dropped.

    A pass has len(data) // batch_size batches; a batch never has more images than there are. Where several processes
    share a batch, each gets its own images of it, and batch_size is that of all. The place in the stream can be saved
    and restored. setting: what the batch size is called.
    """

    def __init__(self, data: Images, batch_size: int, seed: int, setting: str = "batch_size") -> None:
        if not len(data):
            raise DataError("there must be at least one image to make batches of")
        self.data = data
        self.batch_size = min(batch_size, len(data))
        check_divides(setting, self.batch_size)
        self.generator = torch.Generator(data.device).manual_seed(seed)
        self.order = self._new_order()
        self.position = 0
        self._rest_of_pass: Generator[Batch] | None = None

    @property
    def batches_per_pass(self) -> int:
        return len(self.data) // self.batch_size

    def next(self) -> Batch:
        if self.position == self.batches_per_pass:
            if self._rest_of_pass is not None:
                # Its end, and a Ctrl-C meanwhile, must not be left to a finalizer, which would swallow the latter.
                next(self._rest_of_pass, None)
            self.order, self.position, self._rest_of_pass = self._new_order(), 0, None
        if self._rest_of_pass is None:
            self._rest_of_pass = self.data.batches(self._own_order(), self.batch_size // size(), self.position)
        images, labels = next(self._rest_of_pass)
        self.position += 1
        return as_floats(images), labels

    def _own_order(self) -> Tensor:
        """Of every batch of the pass, the images of this process."""
        if size() == 1:
            return self.order
        whole = self.order[: self.batches_per_pass * self.batch_size]
        return own(whole.view(-1, self.batch_size), dim=1).flatten()

    def _new_order(self) -> Tensor:
        return torch.randperm(len(self.data), generator=self.generator, device=self.data.device)

    def state_dict(self) -> dict[str, Any]:
        return {"generator": self.generator.get_state(), "order": self.order, "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"].cpu())
        self.order, self.position = state["order"].to(self.data.device), state["position"]
        self._rest_of_pass = None


def as_floats(images: Tensor) -> Tensor:
    """uint8 to floats in [0, 1], of PyTorch's default type, which is float32."""
    return images.to(torch.get_default_dtype()) / 255
