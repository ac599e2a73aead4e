"""What is done to a batch: in each step every image gets one operation, or none."""

from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from hba.operations.kind import Kind
from hba.operations.operation import Operation
from hba.operations.resample import Maps

KindT = TypeVar("KindT", bound=Kind, covariant=True)


class Step(NamedTuple):
    """One operation for each of B images.

    chosen (B,): index into the operations, -1 for none. magnitude (B,): of that operation, with its sign. position
    (B, 2): where an operation that needs a place puts it, in [0, 1) of width and height. maps: see resample.Maps; of
    an operation that moves pixels, the identity for the others.
    """

    chosen: Tensor
    magnitude: Tensor
    position: Tensor
    exact_maps: Tensor
    fixed_point_maps: Tensor

    @property
    def maps(self) -> Maps:
        return Maps(self.exact_maps, self.fixed_point_maps)

    def select(self, images: Tensor) -> "Step":
        """The step for some of the images, in the order of their numbers (N,)."""
        return Step(*(values.index_select(0, images) for values in self))

    def split(self, counts: int | list[int]) -> "list[Step]":
        """The step for the first so many images, for the next so many, ...; a single count is that of each part."""
        return [Step(*parts) for parts in zip(*(values.split(counts) for values in self), strict=True)]


class Pick(NamedTuple, Generic[KindT]):
    """An operation of a step: which images get it (B,), and the magnitude (B,) of whatever an image gets."""

    operation: Operation
    kind: KindT
    images: Tensor
    magnitude: Tensor

    def own_magnitude(self) -> Tensor | None:
        """The magnitude, in this operation's range also for images that get another: it may not cope with others."""
        if self.operation.magnitude_range is None:
            return None
        return torch.where(self.images, self.magnitude, self.operation.magnitude_range[0])
