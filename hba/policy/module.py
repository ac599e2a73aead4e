"""The augmentation policy A(x; values) as a module of PyTorch."""

import torch
from torch import Tensor, nn

from hba.errors import SettingsError
from hba.operations import check_images, fill_for
from hba.policy.draw import Draw, apply_operations, draw_by_means, means_of
from hba.policy.image_range import RangeCheck
from hba.policy.space import SearchSpace

GRAY = (0.5, 0.5, 0.5)


class Policy(nn.Module):
    """A(x; values) as a module on batches (B, C, H, W), float in [0, 1] or uint8, C as the operations take it.

    It returns new images of that type. On a CPU, and with Numba installed, uint8 images are several times as fast.

    values: (n,) for all images, or (B, n) with one row per image, in natural units as SearchSpace.decode gives them.
    spread: of the shape of values, the standard deviation in logits by which images differ from them; None is 0.
    fill: the colour, in [0, 1], of what geometric operations and Cutout uncover. Raises SettingsError for images that
    have been normalised, seen in every batch on a CPU and in the first on another device, but not where compiled.
    """

    values: Tensor
    spread: Tensor | None
    _means: Tensor | None

    def __init__(
        self, space: SearchSpace, values: Tensor, fill: tuple[float, ...] = (0.5,), spread: Tensor | None = None
    ) -> None:
        super().__init__()
        if values.ndim not in (1, 2) or values.shape[-1] != space.n:
            raise SettingsError(f"values must be of shape ({space.n},) or (B, {space.n}), got {tuple(values.shape)}")
        if spread is not None and spread.shape != values.shape:
            raise SettingsError(
                f"spread must be of the shape of values, {tuple(values.shape)}, got {tuple(spread.shape)}"
            )
        self.space = space
        self.fill = fill
        self.register_buffer("values", values)
        # None draws faster than zeros, and as it did before there was a spread.
        self.register_buffer("spread", spread if spread is not None and spread.any() else None)
        means = None if self.spread is None else means_of(space, values, self.spread)
        self.register_buffer("_means", means, persistent=False)
        self.register_load_state_dict_post_hook(_renew_means)
        self._check_range = RangeCheck()

    def draw(self, batch_size: int, generator: torch.Generator | None = None) -> Draw:
        """What to do to each image of a batch; None draws from torch's default generator."""
        if self.values.ndim == 2 and len(self.values) != batch_size:
            raise SettingsError(f"values have one row for each of {len(self.values)} images, got {batch_size} images")
        rows = self.values if self._means is None else self._means
        return draw_by_means(self.space, rows.detach(), batch_size, generator, self.spread)[0]

    def replay(self, images: Tensor, draw: Draw) -> Tensor:
        """Do what was drawn; the same draw gives the same pixels."""
        check_images(images, or_bytes=True)
        # A program that is compiled as a whole cannot read values.
        if not torch.compiler.is_compiling() and images.is_floating_point():
            self._check_range(images)
        return apply_operations(self.space, draw, images, fill_for(images, self.fill))

    def forward(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self.replay(images, self.draw(len(images), generator))

    def extra_repr(self) -> str:
        return f"operations={len(self.space.operations)}, copies={self.space.copies}, values={tuple(self.values.shape)}"


def _renew_means(policy: Policy, _: object) -> None:
    """Other values have been loaded."""
    if policy.spread is not None:
        policy._means = means_of(policy.space, policy.values, policy.spread)
