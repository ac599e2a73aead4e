"""Seeds: streams that repeat with the seed and differ between purposes."""

import pytest
import torch

from hba.utils.seeding import (
    default_generator_state,
    default_generators,
    derived_seed,
    restore_default_generators,
)

CPU = torch.device("cpu")
PURPOSES = (
    "weights",
    "augmentation",
    "training batches",
    "validation batches",
    "default generators",
    "",
)


def test_seeds_of_all_purposes_and_runs_differ_and_are_the_same_everywhere() -> None:
    seeds = [derived_seed(seed, purpose) for seed in range(300) for purpose in PURPOSES]
    assert len(set(seeds)) == len(seeds)
    # Python's own hash() of a text would be another one in each process.
    assert (derived_seed(3, "weights"), derived_seed(2**40, "λ")) == (
        4_236_375_326,
        2_264_711_170,
    )


def test_restored_default_generators_draw_the_same_again() -> None:
    torch.manual_seed(7)
    torch.rand(3)
    state = default_generator_state(CPU)
    first = torch.rand(100), torch.nn.functional.dropout(torch.ones(100))
    assert not torch.equal(torch.rand(100), first[0])
    restore_default_generators(state, CPU)
    assert torch.equal(torch.rand(100), first[0])
    assert torch.equal(torch.nn.functional.dropout(torch.ones(100)), first[1])


def test_default_generators_are_seeded_for_a_while_and_other_devices_are_not_touched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(seed: int) -> None:
        raise AssertionError("all GPUs")

    torch.manual_seed(3)
    expected = torch.rand(5)
    torch.manual_seed(7)
    before = torch.get_rng_state()
    monkeypatch.setattr(torch.cuda, "manual_seed_all", fail)
    with default_generators(CPU, 3):
        assert torch.equal(torch.rand(5), expected)
    assert torch.equal(torch.get_rng_state(), before)
    with default_generators(CPU):
        torch.rand(5)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.gpu
def test_the_generator_of_a_gpu_is_seeded_for_a_while() -> None:
    gpu = torch.device("cuda")
    before = torch.cuda.get_rng_state(gpu)
    drawn = []
    for _ in range(2):
        with default_generators(gpu, 3):
            drawn.append(torch.rand(5, device=gpu))
    assert torch.equal(*drawn)
    assert torch.equal(torch.cuda.get_rng_state(gpu), before)
