"""Splits: sizes, shares of the classes, and independence of the test split."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hba.data.pool import FileItems, Pool, Source
from hba.data.splits import Splits, split, take_training
from hba.errors import DataError

EXAMPLES = settings(max_examples=60)
COUNTS = st.lists(st.integers(3, 40), min_size=1, max_size=8)
SEEDS = st.integers(0, 2**32 - 1)


def pool_of(counts: list[int]) -> Pool:
    labels = np.repeat(np.arange(len(counts)), counts)
    labels = np.random.default_rng(0).permutation(labels)
    return Pool(FileItems(Path(), labels), labels, np.arange(len(labels)))


def source_of(
    counts: list[int],
    *,
    val: list[int] | None = None,
    own_test: bool = False,
    test_size: int | None = None,
) -> Source:
    return Source(
        name="pictures",
        class_names=tuple(f"class {label}" for label in range(len(counts))),
        train=pool_of(counts),
        val=None if val is None else pool_of(val),
        test=(lambda: pool_of(counts)) if own_test else None,
        test_size=test_size,
    )


def counts_in(source: Source, pool: Pool) -> np.ndarray:
    assert np.array_equal(pool.labels, source.train.labels[pool.numbers])
    return np.bincount(pool.labels, minlength=len(source.class_names))


def parts_of(splits: Splits) -> list[Pool]:
    return [splits.train, splits.val, splits.test()]


def numbers_of(*parts: Pool) -> list[int]:
    return [number for pool in parts for number in pool.numbers.tolist()]


@st.composite
def sources_with_sizes(draw: st.DrawFn) -> tuple[Source, int, int]:
    """A source without its own pools for validation and test, and sizes that fit it."""
    source = source_of(draw(COUNTS))
    n_classes = len(source.class_names)
    n_available = len(split(source, None, None, 0).available)
    val_size = draw(st.integers(n_classes, n_available - n_classes))
    return source, draw(st.integers(n_classes, n_available - val_size)), val_size


@EXAMPLES
@given(sources_with_sizes(), SEEDS)
def test_parts_are_disjoint_exact_in_size_and_hold_every_class(
    case: tuple[Source, int, int], seed: int
) -> None:
    source, train_size, val_size = case
    splits = split(source, train_size, val_size, seed)
    assert (len(splits.train), len(splits.val)) == (train_size, val_size)
    together = numbers_of(*parts_of(splits))
    assert len(set(together)) == len(together)
    assert set(together) <= set(range(len(source.train)))
    assert all(counts_in(source, pool).min() >= 1 for pool in parts_of(splits))


@EXAMPLES
@given(COUNTS, SEEDS, st.booleans())
def test_by_default_a_fifth_is_test_a_fifth_of_the_rest_validation_the_rest_training(
    counts: list[int], seed: int, own_test: bool
) -> None:
    source = source_of(counts, own_test=own_test)
    splits = split(source, None, None, seed)
    n_images = sum(counts)
    n_classes = len(counts)
    n_test = 0 if own_test else max(n_classes, round(n_images / 5))
    n_val = max(n_classes, round((n_images - n_test) / 5))
    parts = [splits.train, splits.val] if own_test else parts_of(splits)
    assert [len(pool) for pool in parts] == [n_images - n_test - n_val, n_val, n_test][
        : len(parts)
    ]
    assert sorted(numbers_of(*parts)) == list(range(n_images))


@EXAMPLES
@given(sources_with_sizes(), SEEDS)
def test_the_test_split_is_the_same_whatever_the_other_sizes_are(
    case: tuple[Source, int, int], seed: int
) -> None:
    """And no evaluation trains on it."""
    source, train_size, val_size = case
    first = split(source, None, None, seed)
    second = split(source, train_size, val_size, seed)
    assert numbers_of(first.test()) == numbers_of(second.test())
    assert numbers_of(first.available) == numbers_of(second.available)
    assert sorted(numbers_of(first.available, first.test())) == list(
        range(len(source.train))
    )
    training = take_training(source, first.available, train_size, seed)
    assert len(training) == train_size
    assert counts_in(source, training).min() >= 1
    assert set(numbers_of(training)) <= set(numbers_of(first.available))


@pytest.mark.parametrize(
    ("counts", "train_size", "val_size"),
    [
        ([100] * 10, 200, 500),
        ([60, 60, 60], 50, 70),
        ([400, 300, 200, 100], 371, 129),
        # The classes of SVHN, a tenth of each.
        ([495, 1386, 1058, 850, 746, 688, 573, 560, 505, 466], 400, 1000),
    ],
)
def test_every_part_has_the_classes_in_their_shares_to_within_one_image(
    counts: list[int], train_size: int, val_size: int
) -> None:
    source = source_of(counts)
    shares = np.array(counts) / sum(counts)
    splits = split(source, train_size, val_size, 3)
    for pool in parts_of(splits):
        assert np.abs(counts_in(source, pool) - len(pool) * shares).max() <= 1


def test_a_class_with_too_few_images_is_named_with_what_it_has_and_needs() -> None:
    for val, own_test, parts in (
        (None, False, ["train", "val", "test"]),
        (None, True, ["train", "val"]),
        ([3, 3, 3], False, ["train", "test"]),
        ([3, 3, 3], True, ["train"]),
    ):
        n_too_few = len(parts) - 1
        with pytest.raises(DataError, match=r"class 1.*pictures") as raised:
            split(
                source_of([9, n_too_few, 8], val=val, own_test=own_test), None, None, 0
            )
        assert re.findall("train|val|test", str(raised.value)) == parts


def test_sizes_that_do_not_fit_are_refused_with_what_there_is() -> None:
    for train_size, val_size, named in (
        (50, 31, "train_size .* 49"),
        (None, 79, "val_size .* 78"),
        (1, None, "got 1"),
    ):
        with pytest.raises(DataError, match=named) as raised:
            split(source_of([50, 50]), train_size, val_size, 0)
        assert len(str(raised.value).splitlines()) == 1
