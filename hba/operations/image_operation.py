"""ImageOperation: what applying an operation to images needs. Operation adds what a
search, a file and other libraries need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from hba.operations.color import KERNELS
from hba.operations.drawing import FIXED, draw_magnitude
from hba.operations.geometric import affine_maps, warp

if TYPE_CHECKING:
    from torch import Tensor

# Exported files contain the rest of this module.

INTERPOLATIONS = ("nearest", "bilinear")


@dataclass(frozen=True)
class ImageOperation:
    """An image operation: the functions that compute it, and their arguments.

    Attributes:
        name: A word that identifies it in spaces and files.
        function: Takes images (B, C, H, W), float in [0, 1], and then, if it uses them,
            a magnitude for each image (B,), a colour (C,) and random numbers
            (B, n_uniforms). It returns new images of the same shape, type and range,
            and does not change its input. Operations of the stage `mixing` have none:
            hba/training/mixing.py.
        magnitude_range: (low, high) of the policy's magnitude in `unit`; None without
            magnitude. It may descend: a search starts near its first end.
        unit: Of the policy's magnitude.
        identity: The magnitude with which the function changes no image, which may lie
            outside the range; None if there is none.
        drawing: How the magnitude of an image is drawn from that of the policy, one of
            DRAWINGS (drawing.py).
        on_pil: The operation on a PIL image, with arguments as in on_pil.py. Without
            it, `function` gets a batch of one image.
        on_annotation: The operation on boxes, a mask or keypoints, with arguments as
            in distortion.py, if it moves pixels in another way than by an affine map.
        uses_fill: Whether the function takes a colour.
        n_moves: Number of different moves of a symmetry, among which its first random
            number chooses.
        n_uniforms: How many random numbers, uniform in [0, 1), the function takes for
            each image, such as a place in width and height. They are drawn outside, so
            that a draw can be replayed.
        moves_pixels: Whether content can move to other pixels, and boxes, masks and
            keypoints with it; None if unknown.
        kernel: `function` for the function above. Functions of other kernels compute
            only what several operations can share in a batch: an affine map, resampled
            by the `nearest` pixel or `bilinear` (geometric.py); new grey levels by a
            formula, `curve`, or by a table from each channel, `stretch`; a version of
            the image to `blend` with (color.py).
    """

    name: str
    function: Callable[..., Any]
    magnitude_range: tuple[float, float] | None = None
    unit: str | None = None
    identity: float | None = None
    _: KW_ONLY
    drawing: str = FIXED
    on_pil: Callable[..., Any] | None = None
    on_annotation: Callable[..., Any] | None = None
    uses_fill: bool = False
    n_moves: int = 1
    n_uniforms: int = 0
    moves_pixels: bool | None = None
    kernel: str = "function"

    @property
    def interpolation(self) -> str | None:
        """Interpolation between pixels: nearest or bilinear; None for an operation
        without an affine map.
        """
        return self.kernel if self.kernel in INTERPOLATIONS else None

    def draw_magnitude(self, magnitude: float, number: float) -> float:
        """The magnitude of an image, from that of the policy and a number in [0, 1)."""
        return draw_magnitude(self.drawing, self.identity or 0.0, magnitude, number)

    def compute(
        self, images: Tensor, magnitude: Tensor | None, fill: Tensor, position: Tensor
    ) -> Tensor:
        """Apply it without checks, to images with at least one pixel; position may have
        further columns.
        """
        position = position[:, : self.n_uniforms]
        if self.interpolation:
            magnitude = (
                position.new_zeros(len(images)) if magnitude is None else magnitude
            )
            return warp(
                images,
                affine_maps(self, magnitude, position, *images.shape[2:]),
                fill,
                self.interpolation,
            )
        arguments = self.arguments(magnitude, fill, position)
        if self.kernel in KERNELS:
            return KERNELS[self.kernel](self.function, images, *arguments)
        return self.function(images, *arguments)

    def arguments(self, magnitude: Any, fill: Any, position: Any) -> list[Any]:
        """Those of the three arguments that the function takes after the images, in
        this order.
        """
        takes = (
            (magnitude, self.magnitude_range is not None),
            (fill, self.uses_fill),
            (position, self.n_uniforms > 0),
        )
        return [argument for argument, is_taken in takes if is_taken]
