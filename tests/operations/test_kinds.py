"""Kinds of operations: which are computed together, and that a new kind needs no change elsewhere."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import pytest
import torch
from mixed_draws import BILINEAR, OWN, TWO_INTERPOLATIONS, fill_of, mixed_draw
from random_inputs import random_images
from torch import Tensor

from hba.operations import OPERATIONS, Operation
from hba.operations.operation import FunctionKernel, Kernel, Selection, Step
from hba.policy.draw import apply_operations
from hba.policy.space import SearchSpace

SHARED = ("hba.operations.resample.warp", "hba.operations.point.look_up", "hba.operations.enhance.blend")
N_IMAGES = 150


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each of SHARED is called, and the table's functions that are computed by themselves."""
    counted: Counter[str] = Counter()

    def count(path: str) -> None:
        module, _, name = path.rpartition(".")
        original = getattr(__import__(module, fromlist=[name]), name)

        def counting(*arguments: object) -> Tensor:
            counted[name] += 1
            return original(*arguments)

        monkeypatch.setattr(path, counting)

    for path in SHARED:
        count(path)
    return counted


def apply_as_on_a_gpu(operations: Sequence[Operation], monkeypatch: pytest.MonkeyPatch) -> None:
    space = SearchSpace(tuple(operations), count_probabilities=(0.2, 0.8))
    images = random_images((N_IMAGES, 3, 9, 11), seed=1)
    draw = mixed_draw(space, N_IMAGES, seed=2)
    with monkeypatch.context() as patched:
        patched.setattr(torch.compiler, "is_compiling", lambda: True)
        apply_operations(space, draw, images, fill_of(images))


@pytest.mark.parametrize(
    ("operations", "n_warps", "n_look_ups", "n_blends"),
    [
        (tuple(OPERATIONS.values()), 1, 1, 1),
        (BILINEAR, 1, 1, 1),
        (TWO_INTERPOLATIONS, 2, 1, 1),
        (OWN, 0, 0, 0),
        ((OPERATIONS["Cutout"], OPERATIONS["Equalize"], OWN[0], OPERATIONS["Solarize"]), 0, 1, 0),
    ],
    ids=["nearest", "bilinear", "both", "own", "mixed"],
)
def test_a_step_computes_each_group_once(
    operations: tuple[Operation, ...],
    n_warps: int,
    n_look_ups: int,
    n_blends: int,
    calls: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    apply_as_on_a_gpu(operations, monkeypatch)
    assert (calls["warp"], calls["look_up"], calls["blend"]) == (n_warps, n_look_ups, n_blends)


def test_a_plain_function_is_computed_by_itself() -> None:
    for operation in (*OWN, OPERATIONS["Cutout"]):
        assert operation.kernel == FunctionKernel(operation.function)
        assert operation.kernel.batch_group is None
        assert operation.kernel.subset_group is None
        assert operation.interpolation is None


def test_a_kind_is_the_function_of_its_operation() -> None:
    for operation in OPERATIONS.values():
        if operation.name != "Cutout":
            assert operation.kernel is operation.function


@dataclass(frozen=True)
class Shift(Kernel):
    """Adds a number, once for all operations of this kind. How many images each call got is noted."""

    by: float
    noted: tuple[list[int], list[int]] = field(compare=False)

    def __call__(self, images: Tensor) -> Tensor:
        return images + self.by

    @property
    def batch_group(self) -> Hashable:
        return Shift

    def on_subset(self, operation: Operation, images: Tensor, step: Step, fill: Tensor) -> Tensor:
        self.noted[0].append(len(images))
        return self(images)

    def on_batch(self, picks: "Sequence[Selection[Shift]]", images: Tensor, step: Step, fill: Tensor) -> Tensor:
        self.noted[1].append(len(images))
        by = sum((pick.images * pick.kernel.by for pick in picks), torch.zeros(len(images)))
        return images + by[:, None, None, None]


def test_a_new_kind_is_computed_together_on_both_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: tuple[list[int], list[int]] = ([], [])
    shifts = {name: Operation(name, Shift(by, noted)) for name, by in (("Up", 0.25), ("Down", -0.25), ("Stay", 0.0))}
    space = SearchSpace((*shifts.values(), OPERATIONS["Invert"]), count_probabilities=(0.2, 0.8))
    images = random_images((N_IMAGES, 3, 4, 4), seed=3)
    draw = mixed_draw(space, N_IMAGES, seed=4)
    own = apply_operations(space, draw, images, fill_of(images))
    with monkeypatch.context() as patched:
        patched.setattr(torch.compiler, "is_compiling", lambda: True)
        fixed = apply_operations(space, draw, images, fill_of(images))
    assert torch.equal(own, fixed)
    chosen = (draw.slots[:, 0] // space.copies).tolist()
    names = [operation.name for operation in space.operations]
    for image, result, index in zip(images, own, chosen, strict=True):
        if index >= 0 and names[index] in ("Up", "Down"):
            assert torch.equal(result, image + (0.25 if names[index] == "Up" else -0.25))
    assert sorted(noted[0]) == sorted(chosen.count(index) for index in range(3))
    assert noted[1] == [N_IMAGES]
