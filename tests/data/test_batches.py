"""Batches: order, drop-last, state; standardisation."""

import torch
from torch import Tensor

from hba.data.images import LabelledImages
from hba.data.loader import BatchStream


def numbered_images(n_images: int) -> LabelledImages:
    """Image i is i in all its pixels, its label i + 1000."""
    images = (
        torch.arange(n_images, dtype=torch.uint8)[:, None, None, None]
        .expand(n_images, 3, 2, 2)
        .clone()
    )
    return LabelledImages(images, torch.arange(n_images) + 1000)


def numbers(batch: tuple[Tensor, Tensor]) -> list[int]:
    images, labels = batch
    expected = (labels - 1000).float() / 255
    torch.testing.assert_close(images, expected[:, None, None, None].expand_as(images))
    return (labels - 1000).tolist()


def one_pass(stream: BatchStream) -> list[list[int]]:
    return [numbers(stream.next()) for _ in range(stream.batches_per_pass)]


def test_every_image_comes_once_per_pass_with_its_label() -> None:
    for n_images, batch_size in ((12, 4), (12, 1), (7, 7)):
        stream = BatchStream(numbered_images(n_images), batch_size, seed=0)
        for _ in range(3):
            batches = one_pass(stream)
            assert [len(batch) for batch in batches] == [batch_size] * (
                n_images // batch_size
            )
            assert sorted(number for batch in batches for number in batch) == list(
                range(n_images)
            )


def test_the_part_that_fills_no_batch_is_dropped_and_another_one_each_pass() -> None:
    stream = BatchStream(numbered_images(11), 4, seed=0)
    assert stream.batches_per_pass == 2
    dropped: set[int] = set()
    for _ in range(30):
        seen = [number for batch in one_pass(stream) for number in batch]
        assert len(set(seen)) == 8
        dropped |= set(range(11)) - set(seen)
    assert dropped == set(range(11))


def test_the_seed_alone_decides_the_order() -> None:
    torch.manual_seed(1)
    stream = BatchStream(numbered_images(50), 10, seed=3)
    first = one_pass(stream)
    assert one_pass(stream) != first
    torch.manual_seed(2)
    before = torch.get_rng_state()
    assert one_pass(BatchStream(numbered_images(50), 10, seed=3)) == first
    assert torch.equal(torch.get_rng_state(), before)
    assert one_pass(BatchStream(numbered_images(50), 10, seed=4)) != first
