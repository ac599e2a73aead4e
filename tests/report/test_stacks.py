"""Stacked areas: their heights are the shares, and many operations stay readable."""

import itertools
import re

import numpy as np
import pytest

import hba
from hba.operations import OPERATIONS, Operation
from hba.policy.space import SearchSpace
from hba.report.figures import Layer, Stack
from hba.report.stacks import LABEL_GAP, MOST_LAYERS, N_COLORED, numbers_stack, operations_stack
from hba.schedule.schedule import Schedule
from hba.schedule.summary import applied_per_image, numbers_applied


def ends_of(layer: Layer, at: float) -> tuple[float, float]:
    """Where the area begins and ends at this place, from the bottom, in per cent."""
    points = [(float(x), float(y)) for x, y in re.findall(r"([\d.]+),([\d.]+)", layer.area)]
    top, bottom = (100 - y for x, y in points if x == at)
    return bottom, top


def check_heights(stack: Stack, shares: dict[str, float], at: float) -> None:
    below = 0.0
    for layer in stack.layers:
        bottom, top = ends_of(layer, at)
        assert bottom == pytest.approx(below, abs=0.02)
        assert top - bottom == pytest.approx(100 * shares[layer.name], abs=0.02)
        below = top
    assert below == pytest.approx(100, abs=0.02)


@pytest.mark.parametrize(("epoch", "at"), [(0, 0), (299, 100)])
def test_the_areas_are_as_high_as_the_shares(epoch: int, at: float) -> None:
    schedule = hba.load_policy("digits")
    applied = applied_per_image(schedule, epoch)
    shares = {name: count / sum(applied.values()) for name, count in applied.items()}
    check_heights(operations_stack(schedule), shares, at)
    numbers = dict(zip(("none", "1", "2", "3"), numbers_applied(schedule, epoch), strict=False))
    check_heights(numbers_stack(schedule), numbers, at)


def test_those_in_colour_changed_most_and_labels_stand_apart() -> None:
    schedule = hba.load_policy("digits")
    first, last = (applied_per_image(schedule, epoch) for epoch in (0, 299))
    moved = {name: abs(last[name] / sum(last.values()) - first[name] / sum(first.values())) for name in first}
    stack = operations_stack(schedule)
    colored = {layer.style: layer.name for layer in stack.layers if layer.style.startswith("c")}
    assert [colored[f"c{rank}"] for rank in range(N_COLORED)] == sorted(moved, key=lambda name: -moved[name])[
        :N_COLORED
    ]
    places = sorted(layer.label_at for layer in stack.layers)
    assert all(after - before >= LABEL_GAP - 0.02 for before, after in itertools.pairwise(places))


def test_the_smallest_of_many_operations_become_one() -> None:
    operations = tuple(Operation(f"Op{n}", lambda images: images) for n in range(30))
    space = SearchSpace(operations, copies=1)
    schedule = Schedule(space, np.array([np.linspace(0.1, 0.9, 30)]))
    stack = operations_stack(schedule)
    assert len(stack.layers) == MOST_LAYERS
    assert stack.layers[-1].name == f"{30 - MOST_LAYERS + 1} others"
    applied = applied_per_image(schedule, 0)
    rest = sum(sorted(applied.values())[: 30 - MOST_LAYERS + 1]) / sum(applied.values())
    assert stack.layers[-1].value == f"{100 * rest:.1f} %"


def test_a_policy_that_does_nothing_is_drawn_without_height() -> None:
    space = SearchSpace((OPERATIONS["Invert"], OPERATIONS["Equalize"]), copies=1)
    stack = operations_stack(Schedule(space, np.zeros((2, 2))))
    assert [layer.value for layer in stack.layers] == ["0.0 %", "0.0 %"]
    assert numbers_stack(Schedule(space, np.zeros((2, 2)))).layers[0].value == "100.0 %"
