"""The augmentation policy A(x; values) as a PyTorch module."""

import torch
from torch import Tensor, nn

from hba.errors import SettingsError
from hba.operations.apply import Candidates, fill_for
from hba.operations.operation import check_images
from hba.policy.draw import BatchSample, apply_operations, draw_with_trace, mean_probabilities
from hba.policy.space import SearchSpace

GRAY = (0.5, 0.5, 0.5)
PLAUSIBLE_RANGE = (-0.5, 1.5)
"""Beyond it, floating point images have been normalised; resizing overshoots [0, 1] a little."""


def check_range(images: Tensor, checked: set[torch.device]) -> None:
    """Raise SettingsError for floating point images with values beyond PLAUSIBLE_RANGE or not finite.

    On a CPU every batch is checked, elsewhere only the first on each device, because the host would wait for the device
    to read values. checked: the devices on which one was; a device is added.
    """
    device = images.device
    if device in checked or device.type == "meta" or not images.is_floating_point() or not images.numel():
        return
    lowest, highest = torch.stack([images.detach().min(), images.detach().max()]).tolist()
    low, high = PLAUSIBLE_RANGE
    if not (lowest >= low and highest <= high):
        text = f"floating point images must lie in [0, 1], got [{lowest:g}, {highest:g}]"
        raise SettingsError(f"{text}; place the policy before the normalisation")
    if device.type != "cpu":
        checked.add(device)


class Policy(nn.Module):
    """A(x; values) on batches (B, C, H, W), float in [0, 1] or uint8, with C channels as the operations take them.

    It returns new images of that type. On a CPU, with Numba installed, uint8 images are several times as fast.

    values: (n,) for all images, or (B, n) with one row per image, in natural units as SearchSpace.decode gives them.
    spread: of the shape of values, the standard deviation in logits by which images differ from them; None is 0.
    fill: the colour, in [0, 1], of what geometric operations and Cutout uncover. Raises SettingsError for images that
    have been normalised, in every batch on a CPU, in the first on another device, and not in a compiled program.
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
            raise SettingsError(f"spread must be of the shape of values, {(*values.shape,)}, got {(*spread.shape,)}")
        self.space = space
        self.fill = fill
        self.register_buffer("values", values)
        # None draws faster than zeros, and takes fewer random numbers.
        self.register_buffer("spread", spread if spread is not None and spread.any() else None)
        means = None if self.spread is None else mean_probabilities(space, values, self.spread)
        self.register_buffer("_means", means, persistent=False)
        self.register_load_state_dict_post_hook(_renew_means)
        self._checked: set[torch.device] = set()
        # What is never used is not computed, where that is known on the host.
        self.candidates: Candidates = None

    def draw(self, batch_size: int, generator: torch.Generator | None = None) -> BatchSample:
        """Draw what happens to each image of a batch; None draws from torch's default generator."""
        if self.values.ndim == 2 and len(self.values) != batch_size:
            raise SettingsError(f"values have one row for each of {len(self.values)} images, got {batch_size} images")
        rows = self.values if self._means is None else self._means
        return draw_with_trace(self.space, rows, batch_size, generator, self.spread)[0]

    def replay(self, images: Tensor, sample: BatchSample, candidates: Candidates = None) -> Tensor:
        """Apply a sample; the same sample gives the same pixels. candidates: as apply_operations takes them."""
        check_images(images, or_bytes=True)
        # A program that is compiled as a whole cannot read values.
        if not torch.compiler.is_compiling():
            check_range(images, self._checked)
        return apply_operations(self.space, sample, images, fill_for(images, self.fill), candidates)

    def forward(self, images: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self.replay(images, self.draw(len(images), generator), self.candidates)

    def extra_repr(self) -> str:
        return f"operations={len(self.space.operations)}, copies={self.space.copies}, values={tuple(self.values.shape)}"


def _renew_means(policy: Policy, _: object) -> None:
    """After other values have been loaded."""
    policy.candidates = None
    if policy.spread is not None:
        policy._means = mean_probabilities(policy.space, policy.values, policy.spread)
