"""A dataset with some of its classes: what a list may say, what is kept, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
from in_memory import in_memory
from PIL import Image

from hba.config.evaluation import EvaluationConfig
from hba.data import load_evaluation_data, load_search_data
from hba.data.classes import keep_classes, shipped_class_lists
from hba.data.config import DataConfig, resolved_data
from hba.data.images import ArrayPool, Source
from hba.errors import DataError
from hba.policy_search.config import SearchConfig

NAMES = ("ant", "bee", "c#", "dog")


def pool_of(n_per_class: int) -> ArrayPool:
    """Every image has its label in its pixels."""
    labels = np.tile(np.arange(len(NAMES)), n_per_class)
    images = torch.from_numpy(labels)[:, None, None, None].repeat(1, 1, 4, 4).to(torch.uint8)
    return ArrayPool(images, labels)


SOURCE = Source("animals", NAMES, train=pool_of(10), val=pool_of(3), test=lambda: pool_of(2))


def kept(tmp_path: Path, text: str, source: Source = SOURCE) -> Source:
    (tmp_path / "list.txt").write_text(text, encoding="utf-8")
    return keep_classes(source, str(tmp_path / "list.txt"))


@pytest.mark.parametrize(
    "text",
    ["bee\ndog\n", "1\n3", "3\nbee\n", "# two of them\n\n  dog  # the other\nbee\t# buzz\n", "dog\r\nbee\r\n"],
)
def test_names_and_numbers_are_kept_in_the_old_order_and_renumbered(tmp_path: Path, text: str) -> None:
    source = kept(tmp_path, text)
    assert source.class_names == ("bee", "dog")
    assert source.val is not None
    assert source.test is not None
    for pool, n in ((source.train, 10), (source.val, 3), (source.test(), 2)):
        data = pool.read(np.arange(len(pool.labels)), 4)
        assert pool.labels.tolist() == data.labels.tolist() == [0, 1] * n
        assert data.images[:, 0, 0, 0].tolist() == [1, 3] * n


def test_a_name_may_hold_a_hash_and_goes_before_a_number(tmp_path: Path) -> None:
    assert kept(tmp_path, "c#\nant").class_names == ("ant", "c#")
    digits = Source("digits", ("3", "0", "1"), train=pool_of(1))
    assert kept(tmp_path, "3\n0\n", digits).class_names == ("3", "0")


def test_the_test_pool_is_not_opened_by_keeping_classes(tmp_path: Path) -> None:
    def refuse() -> ArrayPool:
        raise AssertionError("opened")

    assert kept(tmp_path, "ant\nbee", Source("animals", NAMES, train=pool_of(2), test=refuse)).test is not None


def test_the_test_size_of_the_source_shrinks_with_its_images(tmp_path: Path) -> None:
    assert kept(tmp_path, "ant\nbee", Source("animals", NAMES, train=pool_of(10), test_size=24)).test_size == 12


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ant\ncat\n", ["'cat'", "'ant'", "from 0 to 3"]),
        ("ant\n4\n", ["'4'", "from 0 to 3"]),
        ("ant\n-1\n", ["'-1'", "from 0 to 3"]),
        ("ant\n1.0\n", ["'1.0'"]),
        ("bee\n1\n", ["'bee'", "twice", "'1'"]),
        ("bee\nbee\nant\n", ["'bee'", "twice"]),
        ("dog\n", ["at least two classes", "got 1"]),
        ("# nothing\n", ["at least two classes", "got 0"]),
    ],
)
def test_what_is_no_list_of_classes_is_one_line(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(DataError) as raised:
        kept(tmp_path, text)
    message = str(raised.value)
    assert len(message.splitlines()) == 1
    assert all(word in message for word in [*words, "list.txt"]), message


def test_classes_without_any_image_for_validation_or_test_are_one_line(tmp_path: Path) -> None:
    only_ants = ArrayPool(torch.zeros(2, 1, 4, 4, dtype=torch.uint8), np.zeros(2, dtype=int))
    with pytest.raises(DataError, match=r"animals has no validation images of these classes; add others"):
        kept(tmp_path, "bee\ndog", Source("animals", NAMES, train=pool_of(3), val=only_ants))
    test = kept(tmp_path, "bee\ndog", Source("animals", NAMES, train=pool_of(3), test=lambda: only_ants)).test
    assert test is not None
    with pytest.raises(DataError, match=r"animals has no test images of these classes; add others"):
        test()


def test_a_list_that_cannot_be_read_is_one_line_with_the_shipped_ones(tmp_path: Path) -> None:
    (tmp_path / "picture.txt").write_bytes(b"\xff\xfe\xfa")
    for name in ("missing.txt", "picture.txt", "."):
        with pytest.raises(DataError, match=r"cannot read the list of classes .*imagenet-120") as raised:
            keep_classes(SOURCE, str(tmp_path / name))
        assert len(str(raised.value).splitlines()) == 1


def test_the_shipped_list_is_the_120_of_fast_autoaugment() -> None:
    assert shipped_class_lists() == ["imagenet-120"]
    names = tuple(f"n{number:08}" for number in range(1000))
    source = keep_classes(
        Source("imagenet", names, train=ArrayPool(torch.zeros(1000), np.arange(1000))), "imagenet-120"
    )
    numbers = [int(name[1:]) for name in source.class_names]
    assert (len(numbers), numbers[:5], numbers[-5:]) == (120, [16, 23, 52, 57, 76], [940, 941, 944, 949, 959])
    assert sum(numbers) == 64587
    assert numbers == sorted(set(numbers))


def test_a_list_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolved_data({"classes": "list.txt"}) == {"classes": str(tmp_path.resolve() / "list.txt")}
    assert resolved_data({"classes": "imagenet-120"}) == {"classes": "imagenet-120"}
    assert SearchConfig.from_preset({"classes": "list.txt"}).classes == str(tmp_path.resolve() / "list.txt")


def test_an_evaluation_takes_the_classes_of_the_search_on_the_same_images_only() -> None:
    searched = SearchConfig(data="cifar10", classes="some.txt").flat()
    assert EvaluationConfig.like_search(searched, {}).classes == "some.txt"
    assert EvaluationConfig.like_search(searched, {"data": "svhn"}).classes is None


def test_search_and_evaluation_see_the_classes_of_the_list_alone(tmp_path: Path) -> None:
    for label, name in enumerate(("ant", "bee", "cow")):
        for part, n in (("train", 10), ("val", 3), ("test", 2)):
            (tmp_path / "images" / part / name).mkdir(parents=True)
            for index in range(n):
                Image.new("RGB", (8, 8), (40 * label, 0, 0)).save(tmp_path / "images" / part / name / f"{index:02}.png")
    (tmp_path / "list.txt").write_text("cow\n0\n")
    config = DataConfig(data=str(tmp_path / "images"), image_size=8, classes=str(tmp_path / "list.txt"))
    search, evaluation = load_search_data(config), load_evaluation_data(config)
    assert search.class_names == evaluation.class_names == ("ant", "cow")
    assert [len(part) for part in (search.train, search.val, evaluation.test)] == [20, 6, 4]
    assert in_memory(search.train).images[:, 0, 0, 0].tolist() == [0] * 10 + [80] * 10
    assert search.train.labels.tolist() == [0] * 10 + [1] * 10


def test_digits_can_be_limited_too(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("3\n8\n")
    search = load_search_data(DataConfig(classes=str(tmp_path / "list.txt")))
    assert search.class_names == ("3", "8")
    assert set(search.train.labels.tolist()) == set(search.val.labels.tolist()) == {0, 1}
