"""Pictures: files that can be read, with what should be in them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from random_inputs import seeded
from search_steps import space_of
from torch import Tensor
from tuned_schedules import NAMES, OTHERS, alone, both, random_schedule, staged

from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.schedule.pictures import augmented_copies, draw_augmented, draw_schedule
from hba.schedule.schedule import Schedule

PNG_START = b"\x89PNG\r\n\x1a\n"


def inverting(probability: float) -> Schedule:
    space = SearchSpace(
        (OPERATIONS["Invert"],), copies=1, count_probabilities=(0.0, 1.0)
    )
    return Schedule(space, np.array([[1 - probability], [probability]]))


def picture(path: Path) -> Image.Image:
    """The file's picture, read whole."""
    assert path.read_bytes().startswith(PNG_START)
    image = Image.open(path)
    image.load()
    return image.convert("RGB")


def colors_of(image: Image.Image) -> set[tuple[int, ...]]:
    return {
        tuple(color)
        for color in np.unique(np.asarray(image).reshape(-1, 3), axis=0).tolist()
    }


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that are saved from now on."""
    from matplotlib.figure import Figure

    saved: list[Any] = []
    save = Figure.savefig

    def save_and_keep(figure: Figure, *arguments: Any, **options: Any) -> None:
        saved.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", save_and_keep)
    return saved


def lines_of(axes: Any) -> list[tuple[list[float], list[float]]]:
    return [
        (line.get_xdata().tolist(), line.get_ydata().tolist())
        for line in axes.get_lines()
    ]


@pytest.mark.parametrize("copies", [1, 6])
def test_every_operation_has_a_panel_with_the_numbers_of_each_copy(
    tmp_path: Path, figures: list[Any], copies: int
) -> None:
    schedule = random_schedule(space_of("Rotate", "Invert", copies=copies), 3)
    draw_schedule(schedule, tmp_path / "new" / "a.png")
    assert picture(tmp_path / "new" / "a.png").width > 800
    (figure,) = figures
    panels = {axes.get_title(): axes for axes in figure.axes if axes.get_title()}
    assert list(panels) == ["Rotate", "Invert"]
    columns = dict(zip(schedule.space.names, schedule.values.T.tolist(), strict=True))
    (magnitudes,) = [axes for axes in figure.axes if axes.get_ylabel() == "degrees"]
    for axes, prefix, quantity in (
        (panels["Rotate"], "Rotate", "probability"),
        (magnitudes, "Rotate", "magnitude"),
        (panels["Invert"], "Invert", "probability"),
    ):
        expected = [
            ([1, 2, 3], columns[f"{prefix}.{copy}.{quantity}"])
            for copy in range(1, copies + 1)
        ]
        assert lines_of(axes) == expected


def test_panels_outside_the_walk_have_their_stage_and_one_line(
    tmp_path: Path, figures: list[Any]
) -> None:
    draw_schedule(staged(), tmp_path / "a.png")
    titles = [axes.get_title() for axes in figures[0].axes if axes.get_title()]
    stages = {
        "HorizontalFlip": "symmetry",
        "ResizedCrop": "crop",
        "Rotate": "walk",
        "Mixup": "mixing",
    }
    assert titles == [
        f"{name} ({stage})" for name, stage in {**stages, "CutMix": "mixing"}.items()
    ]
    assert lines_of(figures[0].axes[0]) == [([1, 2], [0.5, 0.25])]
    (area,) = [
        axes
        for axes in figures[0].axes
        if axes.get_ylabel() == "least share of the area"
    ]
    assert lines_of(area) == [([1, 2], [0.75, 0.5])]


RED = (200, 30, 20)
GREEN = (10, 180, 40)


def plain(color: tuple[int, int, int], height: int = 16, width: int = 16) -> Tensor:
    return (
        torch.tensor(color, dtype=torch.uint8)[:, None, None]
        .expand(3, height, width)
        .contiguous()
    )


def cells_of(
    figure: Any, n_columns: int
) -> list[list[tuple[str, tuple[int, int, int]]]]:
    """Caption and colour of each cell, row by row; the cells are of one colour each."""
    cells = []
    for axes in figure.axes:
        levels = np.asarray(axes.get_images()[0].get_array()).astype(int)
        (color,) = np.unique(levels.reshape(-1, 3), axis=0).tolist()
        cells.append((axes.get_title(), tuple(color)))
    return [
        cells[start : start + n_columns] for start in range(0, len(cells), n_columns)
    ]


def test_each_image_is_shown_as_it_is_and_beside_it_its_copies(
    tmp_path: Path, figures: list[Any]
) -> None:
    path = tmp_path / "a.png"
    draw_augmented(
        inverting(1.0),
        [plain(RED), plain(GREEN, 20, 12)],
        path,
        epoch=1,
        n_copies=3,
        seed=0,
    )
    assert cells_of(figures[0], 4) == [
        [("original", RED)] + [("Invert", (55, 225, 235))] * 3,
        [("original", GREEN)] + [("Invert", (245, 75, 215))] * 3,
    ]
    assert figures[0].get_suptitle() == "Policy of epoch 2 of 2"
    image = picture(path)
    assert 400 <= image.width <= 1200
    assert 250 <= image.height <= 1000
    assert {RED, GREEN, (55, 225, 235), (245, 75, 215)} <= colors_of(image)


def test_each_axis_has_the_numbers_of_its_regularizers(
    tmp_path: Path, figures: list[Any]
) -> None:
    for schedule in (both(), alone()):
        draw_schedule(schedule, tmp_path / "a.png")
    for figure in figures:
        drawn = {axes.get_title(): axes for axes in figure.axes if axes.lines}
        for name, values in zip(NAMES, np.array(OTHERS).T, strict=True):
            assert lines_of(drawn[name]) == [([1, 2, 3], values.tolist())]
        assert drawn["weight_decay"].get_yscale() == "log"
        assert drawn["weight_decay"].get_ylim() == pytest.approx((1e-6, 0.1))


def test_copies_show_operations_as_without_regularizers() -> None:
    image = torch.randint(0, 256, (3, 20, 20), generator=seeded(0)).to(torch.uint8)
    schedules = (both(), both().without_regularizers())
    (shown,), (other,) = (
        list(augmented_copies(each, [image], epoch=2, n_copies=9, seed=3))
        for each in schedules
    )
    assert all(torch.equal(a[0], b[0]) for a, b in zip(shown, other, strict=True))


def test_the_data_of_a_schedule_may_have_a_name_that_is_no_text(tmp_path: Path) -> None:
    schedule = inverting(0.5)
    named = Schedule(
        schedule.space, schedule.values, provenance={"dataset": "/caf\udce9"}
    )
    draw_schedule(named, tmp_path / "schedule.png")
    assert picture(tmp_path / "schedule.png").width > 0
