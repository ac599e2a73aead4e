"""Records are saved whole: no kind of field and no algorithm's state leaves anything
out.
"""

import copy
import dataclasses
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from random_inputs import seeded
from search_problems import small_data
from search_steps import assert_same, begun, step
from torch import Tensor, nn
from torch.optim import SGD

from hba.algorithms import ALGORITHMS
from hba.data.loader import BatchStream
from hba.utils.snapshot import restore, snapshot


@dataclass
class Inner:
    tensor: Tensor
    number: float


@dataclass
class Record:
    tensor: Tensor
    leaf: Tensor
    by_name: dict[str, Tensor]
    generator: torch.Generator
    module: nn.Module
    optimizer: SGD
    stream: BatchStream
    inner: Inner
    flag: bool
    count: int
    share: float
    word: str
    nothing: float | None
    rows: list[list[float]]
    metrics: list[dict[str, float | None]]


def record_of(seed: int) -> Record:
    """All fields depend on the seed, and all that has a past has one."""
    generator = seeded(seed)
    torch.rand(seed, generator=generator)
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    optimizer = SGD(module.parameters(), lr=0.1 * seed, momentum=0.9)
    for _ in range(seed):
        optimizer.zero_grad()
        module(torch.rand(4, 3, generator=generator)).square().sum().backward()
        optimizer.step()
    stream = BatchStream(small_data().train, 8, seed)
    for _ in range(seed):
        stream.next()
    return Record(
        tensor=torch.rand(3, generator=generator),
        leaf=torch.rand(2, generator=generator).requires_grad_(),
        by_name={name: torch.rand(2, generator=generator) for name in ("a", "b")},
        generator=generator,
        module=module,
        optimizer=optimizer,
        stream=stream,
        inner=Inner(torch.rand(2, generator=generator), 0.5 * seed),
        flag=seed % 2 == 0,
        count=seed,
        share=seed / 3,
        word=f"word {seed}",
        nothing=None if seed % 2 else 1.0,
        rows=[[1.0 * seed, 2.0]] * seed,
        metrics=[{"loss": 0.1 * seed, "error": None}],
    )


def through_a_file(saved: Mapping[str, Any]) -> dict[str, Any]:
    """As a checkpoint is written and read."""
    buffer = io.BytesIO()
    torch.save(saved, buffer)
    buffer.seek(0)
    read: dict[str, Any] = torch.load(buffer, weights_only=True)
    return read


def test_a_record_with_every_kind_of_field_comes_back_whole() -> None:
    record = record_of(3)
    other = record_of(1)
    saved = through_a_file(snapshot(record))
    assert list(saved) == [field.name for field in dataclasses.fields(Record)]
    restore(other, saved)
    assert_same(snapshot(other), snapshot(record))
    for field in ("flag", "count", "share", "word", "nothing", "rows", "metrics"):
        assert getattr(other, field) == getattr(record, field)
    assert torch.equal(other.inner.tensor, record.inner.tensor)
    assert other.inner.number == record.inner.number
    assert torch.equal(
        torch.rand(5, generator=other.generator),
        torch.rand(5, generator=record.generator),
    )
    for tensor, expected in zip(other.stream.next(), record.stream.next(), strict=True):
        assert torch.equal(tensor, expected)
    for compared in (record, other):
        for parameter in compared.module.parameters():
            parameter.grad = torch.ones_like(parameter)
        compared.optimizer.step()
    assert_same(other.module.state_dict(), record.module.state_dict())


def test_a_field_that_cannot_be_saved_is_an_error_that_names_it() -> None:
    @dataclass
    class Odd:
        plain: float
        strange_one: Any

    values: tuple[Any, ...] = (
        (1.0, 2.0),
        {1, 2},
        object(),
        [object()],
        [torch.ones(2)],
        {"inside": object()},
    )
    for value in values:
        name = r"strange_one\['inside'\]" if isinstance(value, dict) else "strange_one"
        with pytest.raises(
            TypeError, match=rf"^{name} is of a type that cannot be saved: \w+$"
        ):
            snapshot(Odd(1.0, value))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_restored_state_continues_bit_for_bit(algorithm: str) -> None:
    problem, state = begun(algorithm=algorithm)
    step(problem, state, 3)
    saved = through_a_file(snapshot(state))
    same_task, other = begun(algorithm=algorithm)
    restore(other, saved)
    before = copy.deepcopy(snapshot(other))
    assert_same(before, saved)
    for _ in range(2):
        step(problem, state, 2)
        step(same_task, other, 2)
        assert_same(snapshot(other), snapshot(state))
        if algorithm != "race":
            assert not torch.equal(other.lam, before["lam"])
