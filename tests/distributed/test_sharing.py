"""Rows of a batch among processes: nothing is drawn twice, lost or out of order."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from search_problems import seeded, small_images
from several_processes import shared_by
from torch import Tensor, nn
from torch.autograd import forward_ad

from hba.data.loader import BatchStream
from hba.distributed import collectives
from hba.distributed.collectives import (
    broadcast_from_rank0,
    check_alike,
    local_device,
    rank0_first,
    rank0_only,
    share_tensors,
    stop_requested_on_rank0,
)
from hba.distributed.process_info import ProcessInfo, is_first, override_rank, rank
from hba.distributed.whole_batch import all_sum, whole_batch_layers
from hba.errors import HbaError, RunError, SettingsError
from hba.schedule.mixing import Mixing
from hba.training.mixing import mix

N_PROCESSES = 2
ROWS = torch.arange(24.0).view(12, 2)


def each(of: Callable[[], Tensor]) -> list[Tensor]:
    """What every one of three processes has, without starting any."""
    found = []
    for number in range(3):
        with override_rank(ProcessInfo(number, 3)):
            found.append(of())
    return found


def test_rows_of_all_processes_are_those_of_the_batch() -> None:
    for n_repeats in (1, 2, 4):
        with collectives.n_repeats(n_repeats):
            parts = each(lambda: collectives.local_shard(ROWS))
        # First one copy of every image, then the next of every image.
        put_together = torch.stack(
            [part.view(n_repeats, -1, 2) for part in parts], dim=1
        ).view(12, 2)
        assert torch.equal(put_together, ROWS)
    assert torch.equal(
        torch.cat(each(lambda: collectives.local_shard(ROWS.T, dim=1)), dim=1), ROWS.T
    )


def test_draws_of_all_processes_are_those_of_one() -> None:
    def drawn(n: int) -> Tensor:
        generator = seeded(3)
        return collectives.draw_then_shard(
            n, lambda n: torch.rand(n, 5, generator=generator)
        )

    assert torch.equal(torch.cat(each(lambda: drawn(2))), drawn(6))


def test_batches_of_all_processes_are_those_of_one() -> None:
    def batches() -> Tensor:
        stream = BatchStream(small_images(20, seed=0), 6, seed=5)
        return torch.stack([stream.next()[0] for _ in range(7)])

    parts = each(batches)
    assert torch.equal(torch.cat(parts, dim=1), batches())


def refused() -> int:
    raise RunError("no")


def normalized(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Output and running statistics, of a layer in training mode."""
    mean, variance = torch.full((2, 3), 2.0, dtype=x.dtype)
    return (
        F.batch_norm(
            x, mean, variance, weight, weight + 1, training=True, momentum=0.3
        ),
        mean,
        variance,
    )


def of_batch_norm() -> dict[str, Tensor]:
    """Values, gradients, a tangent, and the gradient of what comes of a tangent, of all
    rows of a batch.
    """
    whole = torch.randn(8, 3, 2, 2, generator=seeded(1), dtype=torch.float64)
    direction, seen = (
        torch.randn(whole.shape, generator=seeded(n), dtype=torch.float64)
        for n in (2, 3)
    )
    x, along, seen = (
        collectives.local_shard(one).clone() for one in (whole, direction, seen)
    )
    weight = torch.tensor([0.5, 1.0, -2.0], dtype=torch.float64).requires_grad_()
    x.requires_grad_()
    along.requires_grad_()
    with whole_batch_layers():
        y, mean, variance = normalized(x, weight)
        of_x, of_weight = torch.autograd.grad((y * seen).square().sum(), [x, weight])
        with forward_ad.dual_level():
            tangent = forward_ad.unpack_dual(
                normalized(forward_ad.make_dual(x, along), weight)[0]
            ).tangent
        # Not with respect to x: there, what PyTorch 2.15 gives for its own batch_norm
        # is not the derivative.
    (of_tangent,) = torch.autograd.grad((tangent * seen).sum(), [along])
    return {
        "y": collectives.all_gather(y),
        "mean": mean,
        "variance": variance,
        "of_x": collectives.all_gather(of_x),
        "of_weight": collectives.total(of_weight),
        "tangent": collectives.all_gather(tangent),
        "of_tangent": collectives.all_gather(of_tangent),
    }


def dropped() -> Tensor:
    torch.manual_seed(7)
    x = collectives.local_shard(torch.ones(6, 50, dtype=torch.float64))
    with whole_batch_layers():
        # What drops nothing, or all, draws nothing.
        return collectives.all_gather(
            nn.Dropout(0.4)(nn.Dropout(0.0)(x))
            + nn.Dropout(1.0)(x)
            + nn.Dropout(0.7)(x)
        )


def mixed() -> list[Tensor]:
    """Images, and labels of both kinds, of a batch that all processes mix."""
    whole = torch.randn(6, 1, 5, 5, generator=seeded(2), dtype=torch.float64)
    several = torch.randint(2, (6, 3), generator=seeded(3)) > 0
    generator = seeded(4)
    found = []
    for labels in (torch.arange(6), several):
        images = collectives.local_shard(whole)
        own = collectives.local_shard(labels)
        images, both = mix(images, own, Mixing(0.5, 1.0, 1.0, 1.0), generator)
        found += [
            *map(collectives.all_gather, (images, both.labels, both.partners)),
            both.share,
        ]
    return found


def all_of_it() -> dict[str, Any]:
    """What the processes of one group find."""
    parameter = nn.Parameter(torch.zeros(2))
    parameter.grad = torch.tensor([1.0, 10.0]) * (rank() + 1)
    collectives.average_gradients([parameter, nn.Parameter(torch.zeros(1))])
    # Asked before steps 0, 8 and 16.
    answers = iter([False, False, is_first()])
    steps = 0
    while not stop_requested_on_rank0(lambda: next(answers), steps):
        steps += 1
    with collectives.n_repeats(2):
        draw_then_shard = collectives.all_gather(collectives.local_shard(ROWS))
    errors = []
    inputs = {"images": "these", "network": "wrn-10-1" if is_first() else "wrn-16-2"}
    for attempt in (
        lambda: broadcast_from_rank0(refused),
        lambda: rank0_only(_refusing()).__enter__(),
        lambda: check_alike(inputs),
    ):
        try:
            attempt()
        except HbaError as error:
            errors.append(str(error))
    unlike = torch.full((3,), float(rank()))
    share_tensors([unlike])
    return {
        "gathered": draw_then_shard,
        "shared": unlike,
        "mean": collectives.mean(torch.tensor(float(rank()))),
        "means": collectives.means(
            [torch.full((2,), float(rank())), torch.tensor(2.0 * rank())]
        ),
        "gradient": parameter.grad,
        "broadcast_from_rank0": broadcast_from_rank0(lambda: f"made by {rank()}"),
        "rank0_first": rank0_first(lambda: f"made by {rank()}"),
        "errors": errors,
        "steps": steps,
        "sum": all_sum(torch.tensor([rank() + 1.0])),
        "batch_norm": of_batch_norm(),
        "dropped": dropped(),
        "mixed": mixed(),
    }


class _refusing:
    def __enter__(self) -> None:
        refused()

    def __exit__(self, *error: object) -> None:
        """Never begun."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return shared_by(N_PROCESSES, all_of_it, tmp_path_factory.mktemp("rows") / "two")


def test_collectives_return_what_all_processes_have(
    found: list[dict[str, Any]],
) -> None:
    for one in found:
        assert torch.equal(one["gathered"], ROWS)
        assert one["mean"] == 0.5
        assert [mean.tolist() for mean in one["means"]] == [[0.5, 0.5], 1.0]
        assert one["gradient"].tolist() == [1.5, 15.0]
        assert one["sum"].tolist() == [3.0]
        assert one["shared"].tolist() == [0.0] * 3
        assert one["broadcast_from_rank0"] == "made by 0"
        assert one["errors"][:2] == ["no", "no"]
        assert one["errors"][2].startswith(
            "the network must be the same in all processes, but differs between"
            " process 1"
        )
    assert [one["rank0_first"] for one in found] == ["made by 0", "made by 1"]


def test_batch_norm_and_dropout_are_those_of_the_whole_batch(
    found: list[dict[str, Any]],
) -> None:
    alone = of_batch_norm()
    for one in found:
        for name, value in one["batch_norm"].items():
            torch.testing.assert_close(value, alone[name], msg=name)
        assert torch.equal(one["dropped"], dropped())


def test_a_batch_is_mixed_as_one_process_mixes_it(found: list[dict[str, Any]]) -> None:
    for one in found:
        assert all(map(torch.equal, one["mixed"], mixed()))


def test_what_several_processes_cannot_share_is_refused() -> None:
    with (
        override_rank(ProcessInfo(0, 3)),
        pytest.raises(SettingsError, match="3 processes, got 4"),
    ):
        BatchStream(small_images(20, seed=0), 4, seed=0)
    with override_rank(ProcessInfo(1, 2)):
        with pytest.raises(SettingsError, match="cuda:1"):
            local_device("cuda:1")
        assert local_device("cpu") == torch.device("cpu")


def test_an_error_of_the_others_is_one_line_that_names_the_reason() -> None:
    def fails() -> None:
        raise dist.DistBackendError(
            "NCCL error in: x.cpp:5\nncclInvalidUsage\nDuplicate GPU detected : rank 1"
        )

    with pytest.raises(
        RunError, match=r"^another process .*Duplicate GPU detected : rank 1\)"
    ):
        collectives.collective(fails)


def test_all_stop_before_the_same_step(found: list[dict[str, Any]]) -> None:
    assert [one["steps"] for one in found] == [16, 16]
