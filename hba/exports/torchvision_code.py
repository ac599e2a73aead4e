"""The code of an exported file for torchvision, which needs torchvision, PyTorch and
Pillow, but not hba.

hba/exports/python_file.py writes the source of this module's names into the file,
beside hba's functions on PIL images and its draw for one image. So it must also write
all that they use. OPERATIONS, TABLES and FILL are the file's own.
"""

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from numpy.polynomial.hermite_e import hermegauss
from PIL import Image
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as TF

from hba.policy.single_image import OpSample, PlainRow, PlainSlot, draw_for_one
from hba.utils.shared_number import SharedNumber
from hba.utils.tensors import usual_types

if TYPE_CHECKING:
    OPERATIONS: Mapping[str, "Operation"]
    TABLES: "Tables"
    FILL: Mapping[int, tuple[float, ...]]


class Operation(NamedTuple):
    """One image operation: its function on a PIL image, and the arguments that follow
    the image.

    on_batches: the function takes images (1, C, H, W), float in [0, 1], instead.
    signed: the magnitude is negated with probability 0.5. resampling: PIL's filter, if
    pixels are moved.
    """

    function: Callable[..., Any]
    on_batches: bool = False
    moves_pixels: bool = False
    has_magnitude: bool = False
    signed: bool = False
    uses_fill: bool = False
    n_uniforms: int = 0
    resampling: Image.Resampling | None = None

    def apply_to_pil(
        self,
        image: Image.Image,
        magnitude: float,
        fill: tuple[float, ...],
        position: tuple[float, ...],
    ) -> Image.Image:
        """A new image. fill: in [0, 1], one number per channel. position: random
        numbers in [0, 1).
        """
        if self.on_batches:
            precision = torch.float64 if self.moves_pixels else torch.float32
            numbers = (
                torch.tensor([magnitude], dtype=precision),
                torch.tensor(fill),
                torch.tensor([position]),
            )
            changed = self.function(
                TF.pil_to_tensor(image)[None] / 255, *self._taken(*numbers)
            )[0]
            return TF.to_pil_image(
                changed.mul(255).round().clamp(0, 255).byte(), mode=image.mode
            )
        taken = self._taken(
            magnitude, tuple(round(255 * one) for one in fill), position
        )
        return self.function(
            image, *taken, *([] if self.resampling is None else [self.resampling])
        )

    def _taken(self, magnitude: Any, fill: Any, position: Any) -> list[Any]:
        takes = (
            (magnitude, self.has_magnitude),
            (fill, self.uses_fill),
            (position, self.n_uniforms > 0),
        )
        return [argument for argument, is_taken in takes if is_taken]


class Tables(NamedTuple):
    """A schedule in plain numbers: a row for each epoch, with a number for each slot in
    probabilities and magnitudes.

    slots: the name of an operation, and the range from low to high of its magnitude.
    probabilities: that a slot fires. magnitudes: 0 for an operation without one.
    counts: the probability that an image that may get k - 1 operations may get k, for k
    = 1, 2, ... The spreads are the standard deviations, from image to image, of the
    logits of these three. A table of a single row holds for all epochs. walk: the first
    slot of which an image gets only some, and the one after the last. n_uniforms:
    random numbers of a step of the walk, and of another step.
    """

    epochs: int
    slots: list[tuple[str, float, float]]
    walk: tuple[int, int]
    n_uniforms: tuple[int, int]
    probabilities: list[list[float]]
    probability_spread: list[list[float]]
    magnitudes: list[list[float]]
    magnitude_spread: list[list[float]]
    counts: list[list[float]]
    count_spread: list[list[float]]


def mean_probabilities(probabilities: Tensor, spread: Tensor) -> Tensor:
    """The means over images of sigmoid(logit(p) + spread epsilon), by Gauss-Hermite
    quadrature.
    """
    at, share = hermegauss(40)
    nodes, weights = torch.tensor(at).float(), torch.tensor(share / share.sum()).float()
    means = (
        (probabilities.logit()[..., None] + spread[..., None] * nodes).sigmoid()
        * weights
    ).sum(dim=-1)
    return torch.where(spread > 0, means, probabilities)


def row_at(operations: Mapping[str, Any], tables: Tables, position: float) -> PlainRow:
    """The policy at a row number that may be fractional, linear between two rows."""

    def at(rows: list[list[float]]) -> Tensor:
        before = min(int(position), len(rows) - 1)
        after = min(before + 1, len(rows) - 1)
        share = position - int(position)
        pairs = zip(rows[before], rows[after], strict=True)
        return torch.tensor([start + (end - start) * share for start, end in pairs])

    probabilities, probability_spread, magnitudes, widths, counts, count_spread = (
        tables[4:]
    )
    row, spreads = (
        at(magnitudes),
        [at(rows) for rows in (probability_spread, widths, count_spread)],
    )
    low, high = torch.tensor([ends for _, *ends in tables.slots]).unbind(1)
    logits = (
        ((row - low) / torch.where(high == low, 1.0, high - low)).clamp(0, 1).logit()
    )
    numbers = torch.stack([row, low, high, logits, spreads[1]], dim=1).tolist()
    return PlainRow(
        probabilities=mean_probabilities(at(probabilities), spreads[0]).tolist(),
        limits=(1 - mean_probabilities(at(counts), spreads[2]).cumprod(dim=0)).tolist(),
        # The draw uses only whether an operation is signed.
        slots=[
            PlainSlot(operations[name], *own)
            for (name, _, _), own in zip(tables.slots, numbers, strict=True)
        ],
        is_spread=any(bool(one.any()) for one in spreads),
        walk=slice(*tables.walk),
        n_uniforms=tables.n_uniforms,
    )


def is_image_tensor(given: Any) -> bool:
    """Whether it is a plain tensor with the dimensions of an image; labels and vectors
    have fewer.
    """
    return (
        isinstance(given, Tensor)
        and not isinstance(given, tv_tensors.TVTensor)
        and given.ndim >= 3
    )


class Place:
    """The place in the schedule at which images are augmented; until it is chosen, the
    last epoch.
    """

    def begin(
        self, operations: Mapping[str, Any], tables: Tables, fill: Mapping[Any, Any]
    ) -> None:
        self.operations, self.tables, self.fill = operations, tables, fill
        # A row number. Worker processes hold copies of this object, but see the same
        # number.
        self._position = SharedNumber(tables.epochs - 1.0)
        self._last: tuple[float, PlainRow] | None = None

    def row(self) -> PlainRow:
        """The policy at the current place; made again when the place changes."""
        position = self._position.value
        if self._last is None or self._last[0] != position:
            self._last = (position, row_at(self.operations, self.tables, position))
        return self._last[1]

    def extra_repr(self) -> str:
        return (
            f"operations={len(self.operations)}, epochs={self.tables.epochs},"
            f" position={self._position.value:g}"
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy that shares the place: set_epoch of one of them moves both."""
        return copy.copy(self)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is kept from one call to the next, so that a pickle does not
        depend on calls.
        """
        return {**vars(self), "_last": None}

    def set_epoch(self, epoch: int, epochs: int) -> None:
        """Use the policy of an epoch, counted from 0, in a training of `epochs` epochs."""
        if not 0 <= epoch < epochs:
            raise ValueError(f"epoch must lie in [0, {epochs - 1}], got {epoch}")
        self.set_progress(epoch / (epochs - 1) if epochs > 1 else 0.5)

    def set_progress(self, fraction: float) -> None:
        """Use the place at a fraction in [0, 1] of the schedule, linear between epochs."""
        if not 0 <= fraction <= 1:
            raise ValueError(
                f"the fraction of the training must lie in [0, 1], got {fraction}"
            )
        self._position.value = fraction * (self.tables.epochs - 1)


class ScheduleTransform(Place, v2.Transform):  # type: ignore[misc]
    """Augments one image by the policy of the current place in the schedule; returns it
    in the same form.

    fill: for each number of channels, the colour in [0, 1] of areas that operations
    uncover.

    Takes a PIL image of mode L or RGB, or a uint8 tensor (C, H, W) with C 1 or 3, alone
    or in a sample with labels, which pass through. Place it before the normalisation.
    Boxes, masks, keypoints and videos are refused: they would no longer fit their
    image. Every image gets a draw of its own, by torch's default generator.
    """

    _transformed_types = (Image.Image, tv_tensors.Image, is_image_tensor)

    def __init__(
        self,
        operations: Mapping[str, Operation],
        tables: Tables,
        fill: Mapping[int, tuple[float, ...]],
    ) -> None:
        super().__init__()
        self.begin(operations, tables, fill)

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        for given in flat_inputs:
            if isinstance(given, tv_tensors.TVTensor) and not isinstance(
                given, tv_tensors.Image
            ):
                raise TypeError(
                    "this policy augments images for classification, got"
                    f" {type(given).__name__}"
                )
        images = [
            given
            for given in flat_inputs
            if isinstance(given, Image.Image | tv_tensors.Image)
        ]
        if not images and not any(map(is_image_tensor, flat_inputs)):
            raise TypeError(
                "found no PIL image and no tensor (C, H, W) in the sample; turn arrays"
                " into PIL images"
            )
        if len(images) > 1:
            raise TypeError(
                "found more than one image in the sample, and one may be a mask; give"
                " the image alone"
            )

    @usual_types()
    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"drawn": draw_for_one(self.row())}

    @usual_types()
    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if isinstance(inpt, Tensor):
            if (
                inpt.dtype != torch.uint8
                or inpt.ndim != 3
                or inpt.shape[0] not in (1, 3)
            ):
                rule = (
                    f"a tensor must be uint8 (C, H, W) with C 1 or 3, got {inpt.dtype}"
                    f" {tuple(inpt.shape)}"
                )
                raise TypeError(
                    f"{rule}; place the policy before ToDtype and before images become"
                    " a batch"
                )
            image = self._augmented(TF.to_pil_image(inpt), params["drawn"])
            return tv_tensors.wrap(TF.pil_to_tensor(image).to(inpt.device), like=inpt)
        if inpt.mode not in ("L", "RGB"):
            # PIL's convert() clips more than 8 bits.
            remedy = (
                "scale it to 8 bits, mode L"
                if inpt.mode[0] in "IF"
                else "use .convert('RGB')"
            )
            raise TypeError(
                f"a PIL image must be of mode L or RGB, got {inpt.mode}; {remedy}"
            )
        return self._augmented(inpt, params["drawn"])

    # Their names before torchvision 0.21.
    _check_inputs, _get_params, _transform = check_inputs, make_params, transform

    def _augmented(self, image: Image.Image, drawn: list[OpSample]) -> Image.Image:
        result = image.copy()
        if 0 in image.size:
            return result
        for operation, magnitude, position in drawn:
            fill, uniforms = (
                self.fill[len(image.getbands())],
                position[: operation.n_uniforms],
            )
            result = operation.apply_to_pil(result, magnitude, fill, uniforms)
        return result


def transform() -> ScheduleTransform:
    """The schedule as a transform, in its last epoch until you call set_epoch or
    set_progress.
    """
    return ScheduleTransform(OPERATIONS, TABLES, FILL)  # noqa: F821
