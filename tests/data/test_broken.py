"""Images that cannot be read: a few are left out and listed, more are refused with
their number and the first three.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from in_memory import config_of, in_memory
from streamed_folders import SIZE, write_folder

import hba
from hba.data import load_evaluation_data, load_search_data, prepare
from hba.data.folder import folder_source
from hba.data.pool import most_left_out
from hba.errors import DataError


def spoil(folder: Path, n_broken: int) -> list[Path]:
    """Cut off the ends of n_broken images, evenly spread."""
    files = sorted(folder.rglob("*.png"))
    chosen = files[:: len(files) // n_broken][:n_broken]
    for path in chosen:
        path.write_bytes(path.read_bytes()[:50])
    return chosen


def refusal(read: Callable[[], object]) -> str:
    with pytest.raises(DataError) as raised:
        read()
    assert len(str(raised.value).splitlines()) == 1
    return str(raised.value)


def test_how_many_may_be_left_out() -> None:
    assert [most_left_out(n_images, None) for n_images in (1, 20, 599, 600, 1000)] == [
        5,
        5,
        5,
        6,
        10,
    ]
    assert [most_left_out(20, skip_broken) for skip_broken in (True, False)] == [20, 0]


@pytest.mark.parametrize(("n_images", "n_broken"), [(20, 1), (60, 2)])
@pytest.mark.parametrize("stream", [False, True])
def test_few_broken_images_are_left_out_and_listed(
    tmp_path: Path, n_images: int, n_broken: int, stream: bool
) -> None:
    folder = write_folder(tmp_path / "images", n_images // 2)
    before = load_search_data(config_of(folder))
    broken = spoil(folder, n_broken)
    config = config_of(folder, stream=stream, workers=0)
    search = load_search_data(config)
    evaluation = load_evaluation_data(config)
    tested = evaluation.test.opened()
    assert len(evaluation.train) + len(tested) == n_images - n_broken
    assert {Path(item.path) for item in evaluation.left_out} == {*broken}
    assert {Path(item.path) for item in search.left_out} <= {*broken}
    assert len(search.train) + len(search.val) == len(before.train) + len(
        before.val
    ) - len(search.left_out)
    read_once = prepare(folder, tmp_path / "prepared", image_size=SIZE)
    assert {Path(item.path) for item in read_once.left_out} == {*broken}
    assert load_search_data(config_of(read_once.folder)).left_out == search.left_out
    config = config_of(folder, stream=stream, workers=0, skip_broken=False)
    message = refusal(lambda: list(load_evaluation_data(config).train.once(10)))
    assert any(f"{path} (" in message for path in broken)


def test_more_are_refused_with_their_number_and_the_first_three(tmp_path: Path) -> None:
    """3 % of 400, of which 320 are for training and validation."""
    folder = write_folder(tmp_path / "images", 200)
    broken = spoil(folder, 12)
    pool = replace(folder_source(folder).train, image_size=SIZE, most_broken=5)
    message = refusal(pool.read)
    assert re.match(r"cannot read 6 of the first \d+ of 400 images: ", message)
    assert [str(path) in message for path in broken[:4]] == [True, True, True, False]
    assert "and 3 more; mend or remove them, or use --skip-broken" in message
    for read in (
        lambda: load_search_data(config_of(folder)),
        lambda: load_evaluation_data(config_of(folder)),
        lambda: load_evaluation_data(config_of(folder, stream=True)),
        lambda: prepare(folder, tmp_path / "prepared", image_size=SIZE),
    ):
        assert re.match(
            r"cannot read \d+ of .* images: .*[.]png .* more; mend", refusal(read)
        )
    assert [
        Path(item.path) for item in replace(pool, most_broken=12).read().left_out
    ] == broken


def test_a_class_or_a_split_without_an_image_is_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "images", 4)
    pool = replace(folder_source(folder).train, image_size=SIZE, most_broken=8)
    spoil(folder / "dog", 4)
    assert re.search(
        r"no image of the class of .*dog/000.png could be read", refusal(pool.read)
    )
    spoil(folder, 8)
    assert "none of 8 images could be read" in refusal(pool.read)


def test_files_that_vanish_after_they_were_listed_are_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where their sizes and contents are hashed."""
    folder = write_folder(tmp_path / "images", 20)
    check_levels = hba.data.pool.Pool.check_levels

    def vanish(pool: Any) -> None:
        check_levels(pool)
        gone.unlink(missing_ok=True)

    monkeypatch.setattr(hba.data.pool.Pool, "check_levels", vanish)
    gone = folder / "cat" / "003.png"
    settings: Any = {
        "model": "wrn-10-1",
        "epochs": 1,
        "batch_size": 8,
        "device": "cpu",
        "image_size": SIZE,
    }
    result = hba.search(folder, out=tmp_path / "run", algorithm="joint", **settings)
    assert result.schedule is not None
    assert result.schedule.provenance["skipped_images"] == 1
    assert str(gone) in (tmp_path / "run" / "left_out.csv").read_text()
    evaluation = load_evaluation_data(config_of(folder))
    assert evaluation.listing is not None
    (tested,) = evaluation.listing
    gone = Path(tested.items.name(tested.numbers[0]))
    gone.unlink()
    assert [Path(item.path) for item in in_memory(evaluation.test).left_out] == [gone]
    with pytest.raises(DataError, match="the images change while they are used"):
        replace(tested, image_size=SIZE).items.fingerprint(tested.numbers, SIZE)
