"""The augmentation policy A(x; values) as a PyTorch module."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from hba.errors import SettingsError
from hba.operations.apply import Candidates, fill_for
from hba.operations.operation import check_images
from hba.policy.draw import (
    BatchSample,
    apply_operations,
    draw_with_trace,
    mean_probabilities,
    move_masks,
)
from hba.policy.space import SearchSpace
from hba.utils.graphs import CudaRecorder, StepGraphs, may_record
from hba.utils.seeding import default_generator_of
from hba.utils.settings import number
from hba.utils.tensors import usual_types

GRAY = (0.5, 0.5, 0.5)
PLAUSIBLE_RANGE = (-0.5, 1.5)
"""Floating point images with values outside have been normalised. Resizing overshoots
[0, 1] a little.
"""
MOST_GRAPHS = 8
"""Of a policy on a device; each holds memory, and images may come in any size."""


@functools.cache
def compiled_application() -> Callable[..., Tensor]:
    """apply_operations as a program of torch.compile; one for all policies, because
    similar ones share programs.
    """
    program: Callable[..., Tensor] = torch.compile(apply_operations, fullgraph=True)
    return program


def check_range(images: Tensor, checked: set[torch.device]) -> None:
    """Raise SettingsError for floating point images with values that are not finite or
    outside PLAUSIBLE_RANGE.

    On a CPU every batch is checked. On other devices, only the first is, because the
    host waits for the device to read values. checked: the devices that have checked a
    batch; the function adds the current one.
    """
    device = images.device
    if (
        device in checked
        or device.type == "meta"
        or not images.is_floating_point()
        or not images.numel()
    ):
        return
    lowest, highest = torch.stack(
        [images.detach().min(), images.detach().max()]
    ).tolist()
    low, high = PLAUSIBLE_RANGE
    if not (lowest >= low and highest <= high):
        text = (
            f"floating point images must lie in [0, 1], got [{lowest:g}, {highest:g}]"
        )
        raise SettingsError(f"{text}; place the policy before the normalisation")
    if device.type != "cpu":
        checked.add(device)


class Policy(nn.Module):
    """Augments batches (B, C, H, W), float in [0, 1] or uint8, by the policy A(x;
    values).

    It returns new images of the same type. On a CPU, with Numba installed, uint8 images
    are several times as fast.

    values: (n,) for all images, or (B, n) with one row per image, in natural units as
    SearchSpace.decode returns them. spread: of the shape of values, the standard
    deviation of images around them, in logits; None is 0. fill: the colour, in [0, 1],
    of pixels that geometric operations and Cutout uncover. Raises SettingsError for
    images that have been normalised: it checks every batch on a CPU, the first on
    another device, and none in a compiled program.

    With `masks` (B, H, W) or (B, N, H, W) of any dtype, a call returns images and
    masks, moved by the same draw. mask_fill: the value of pixels of masks that
    operations uncover.

    With `labels`, int64 (B,), it also returns the labels of the moved images, as the
    last value. Without them, a policy whose symmetries hold only for some classes
    applies only the moves that keep every class.

    compiled: apply drawn operations by a program of torch.compile. The draw stays the
    same. The first call takes up to two minutes; floats are the same to rounding, and
    uint8 images are not PIL's. graph: on a GPU, run calls with images alone as CUDA
    graphs from the sixth batch of a size on, for the first
    MOST_GRAPHS sizes. A graph holds memory for its batch; recording and checking it
    make the host wait. All calls must come from one thread and one stream.
    """

    values: Tensor
    spread: Tensor | None
    _means: Tensor | None

    def __init__(
        self,
        space: SearchSpace,
        values: Tensor,
        fill: tuple[float, ...] = (0.5,),
        spread: Tensor | None = None,
        mask_fill: float = 0,
        *,
        graph: bool = False,
        compiled: bool = False,
    ) -> None:
        super().__init__()
        if values.ndim not in (1, 2) or values.shape[-1] != space.n:
            raise SettingsError(
                f"values must be of shape ({space.n},) or (B, {space.n}), got"
                f" {tuple(values.shape)}"
            )
        if spread is not None and spread.shape != values.shape:
            raise SettingsError(
                f"spread must be of the shape of values, {(*values.shape,)}, got"
                f" {(*spread.shape,)}"
            )
        self.space = space
        self.fill = fill
        self.mask_fill = number("mask_fill", mask_fill)
        self.graph = graph
        self.compiled = compiled
        # None draws faster than zeros, and takes fewer random numbers.
        around = spread if spread is not None and spread.any() else None
        means = None if around is None else mean_probabilities(space, values, around)
        for name, buffer in (("values", values), ("spread", around), ("_means", means)):
            # A module with a policy can load its checkpoint before it has the policy.
            self.register_buffer(name, buffer, persistent=False)
        self._checked: set[torch.device] = set()
        # If the host knows which operations are never used, they are not computed.
        self.candidates: Candidates = None
        self._graphs: dict[torch.device, StepGraphs] = {}

    def draw(
        self,
        batch_size: int,
        generator: torch.Generator | None = None,
        labels: Tensor | None = None,
    ) -> BatchSample:
        """Draw the operations for each image of a batch. generator: None uses torch's
        default one. labels: as in a call.
        """
        if self.values.ndim == 2 and len(self.values) != batch_size:
            raise SettingsError(
                f"values have rows for {len(self.values)} images, got a batch of"
                f" {batch_size} images"
            )
        rows = self.values if self._means is None else self._means
        sample, _ = draw_with_trace(
            self.space, rows, batch_size, generator, self.spread, labels
        )
        return sample

    def replay(
        self, images: Tensor, sample: BatchSample, candidates: Candidates = None
    ) -> Tensor:
        """Apply a sample. The same sample gives the same pixels. candidates: as
        apply_operations takes them.
        """
        check_images(images, or_bytes=True)
        # A compiled program cannot read values.
        if not torch.compiler.is_compiling():
            check_range(images, self._checked)
        is_program = self.compiled and not torch.compiler.is_compiling()
        apply = compiled_application() if is_program else apply_operations
        return apply(
            self.space, sample, images, fill_for(images, self.fill), candidates
        )

    def replay_masks(self, masks: Tensor, sample: BatchSample) -> Tensor:
        """Move masks (B, H, W) or (B, N, H, W) by a sample, as `replay` moves the
        images.

        Raises SettingsError for other shapes and for a dtype that cannot hold
        mask_fill, and TypeError if an operation, such as Elastic, does not say where
        pixels move.
        """
        if masks.ndim not in (3, 4) or len(masks) != len(sample):
            rule = (
                f"masks must be of shape (B, H, W) or (B, N, H, W) with B {len(sample)}"
            )
            raise SettingsError(f"{rule}, got {tuple(masks.shape)}")
        planes = masks[:, None] if masks.ndim == 3 else masks
        return move_masks(self.space, sample, planes, self.mask_fill).view(masks.shape)

    def forward(
        self,
        images: Tensor,
        generator: torch.Generator | None = None,
        masks: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        if masks is not None and masks.shape[-2:] != images.shape[-2:]:
            rule = "masks must be as high and wide as the images"
            raise SettingsError(
                f"{rule}, got {tuple(masks.shape)} for {tuple(images.shape)}"
            )
        # A compiler cannot enter the context.
        with (
            contextlib.nullcontext() if torch.compiler.is_compiling() else usual_types()
        ):
            is_plain = generator is None and masks is None and labels is None
            if (
                self.graph
                and is_plain
                and not images.requires_grad
                and may_record(images)
            ):
                return self._replay_graph(images)
            sample = self.draw(len(images), generator, labels)
            results = [self.replay(images, sample, self.candidates)]
            if masks is not None:
                results.append(self.replay_masks(masks, sample))
            if sample.labels is not None:
                results.append(sample.labels)
            return results[0] if len(results) == 1 else tuple(results)

    def _replay_graph(self, images: Tensor) -> Tensor:
        """Augment images by a CUDA graph, which may be recorded first."""

        def augmented(images: Tensor) -> Tensor:
            return self.replay(images, self.draw(len(images)), self.candidates)

        # A graph reads values where they were when it was recorded.
        values = tuple((buffer.data_ptr(), buffer.shape) for buffer in self.buffers())
        key = values, self.fill, str(self.candidates)
        return self._graphs_on(images.device).run(key, augmented, images).clone()

    def _graphs_on(self, device: torch.device) -> StepGraphs:
        if device not in self._graphs:
            generators = [default_generator_of(device)]
            self._graphs[device] = StepGraphs(
                CudaRecorder(device), generators=generators, most_recordings=MOST_GRAPHS
            )
        return self._graphs[device]

    def __getstate__(self) -> dict[str, Any]:
        """A copy, or another process, records its own graphs."""
        return {**self.__dict__, "_graphs": {}}

    def extra_repr(self) -> str:
        return (
            f"operations={len(self.space.operations)}, copies={self.space.copies},"
            f" values={tuple(self.values.shape)}"
        )
