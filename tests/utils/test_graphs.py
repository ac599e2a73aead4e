"""Steps as graphs: recorded steps do what eager ones do, and steps that cannot be recorded run eagerly."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import numpy as np
import pytest
import torch
from each import each
from recorded_steps import TracingRecorder
from search_problems import small_config, small_data, small_settings
from search_steps import algorithm_of, assert_same, begun
from small_trainings import EPOCHS, STEPS, tiny_data
from torch import Tensor, nn

import hba
from hba.config.evaluation import EvaluationConfig
from hba.data.look import Look
from hba.errors import HbaWarning
from hba.policy.module import Policy
from hba.policy.space import SearchSpace
from hba.policy.spaces import SPACES
from hba.policy_search.budget import measured
from hba.policy_search.context import ImageSearchContext
from hba.policy_search.training_size import BESIDE, Rung, StepTimer
from hba.schedule.library import load_policy
from hba.schedule.schedule import Schedule
from hba.training.augmentation import ScheduleAugmentation
from hba.training.metrics import totals
from hba.training.trainer import Trained, train
from hba.utils.graphs import WARM_UP_RUNS, StepCounts, StepGraphs
from hba.utils.snapshot import snapshot

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")


@pytest.fixture
def fixed_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations as on a GPU, where the host does not read which ones were drawn."""
    monkeypatch.setattr("hba.operations.apply.needs_fixed_shapes", lambda images: True)
    monkeypatch.setattr("hba.packed.images.can_run", lambda images: False)


@pytest.mark.usefixtures("fixed_shapes")
@each("algorithm", ["lookahead", "hba", "stn", "joint", "fixed-noise"])
def test_recorded_steps_of_a_search_do_what_eager_ones_do(algorithm: str) -> None:
    (task, eager), (_, recorded) = (begun(algorithm=algorithm, learning_rate_schedule="constant") for _ in range(2))
    recorded.graphs = StepGraphs(TracingRecorder())
    for _ in range((WARM_UP_RUNS + 2) * algorithm_of(task).train_steps):
        for state in (eager, recorded):
            algorithm_of(task).step(task, state)
    assert recorded.graphs.reason is None
    assert recorded.graphs.n_replayed > recorded.graphs.n_eager
    assert_same(snapshot(recorded), snapshot(eager))


@pytest.mark.usefixtures("fixed_shapes")
def test_recorded_legs_of_a_race_and_measurements_do_what_eager_ones_do() -> None:
    """Each leg is a step of its own, because its weights come back and its operations are others."""
    states = []
    for recorder in (None, TracingRecorder()):
        task, state = begun(SPACES["recipe"], algorithm="race", learning_rate_schedule="constant", epochs=8)
        state.graphs, found = StepGraphs(recorder), []
        while not state.ended[3]:
            algorithm_of(task).step(task, state)
            measured = totals(
                state.learner.network.eval(), task.data.val, task.preprocessing.measure, None, state.graphs
            )
            found.append(measured.tolist())
        states.append((snapshot(state), found))
    assert state.graphs.reason is None
    assert state.graphs.n_replayed > 2 * WARM_UP_RUNS
    measurements = [one.outputs for (key, _), one in state.graphs.recordings.items() if key == "measure"]
    assert not any(logits.requires_grad for logits in measurements)
    assert_same(*(one for one, _ in states))
    assert states[0][1] == states[1][1]


@contextmanager
def recording() -> Iterator[list[StepGraphs]]:
    """Trainings record their steps; yields what they record with."""
    made: list[StepGraphs] = []

    def of(network: nn.Module, optimizer: torch.optim.Optimizer, *_: object, **__: object) -> StepGraphs:
        made.append(StepGraphs(TracingRecorder(), optimizer))
        return made[-1]

    with mock.patch.object(StepGraphs, "of", of):
        yield made


@pytest.mark.usefixtures("fixed_shapes")
def test_recorded_steps_of_a_training_do_what_eager_ones_do_while_policy_and_learning_rate_change() -> None:
    """AdamW, which takes learning rates as tensors on a CPU too; a policy that mixes, with a row for each epoch."""
    space = SearchSpace((*load_policy("timm").space.operations[-4:], *load_policy("timm").space.operations[:2]))
    start, end = (space.decode(space.initial(share)).numpy() for share in (0.3, 0.6))
    rows = np.linspace(start, end, EPOCHS)
    settings = {"model": "wrn-10-1", "epochs": EPOCHS, "batch_size": 4, "optimizer": "adamw", "device": "cpu"}
    config = EvaluationConfig.make({**settings, "data": "digits", "learning_rate_warm_up_epochs": 1})

    def trained() -> Trained:
        return train(config, tiny_data(), ScheduleAugmentation(Schedule(space, rows)), seed=0)

    eager = trained()
    with recording() as made:
        recorded = trained()
    assert made[0].counts == StepCounts(5 * STEPS - WARM_UP_RUNS, WARM_UP_RUNS)
    # A learning rate is rounded to a float32 in a tensor.
    assert [one.loss for one in recorded.epochs] == pytest.approx([one.loss for one in eager.epochs], rel=1e-5)
    assert len({one.loss for one in eager.epochs}) == EPOCHS


@pytest.mark.usefixtures("fixed_shapes")
def test_a_budget_and_a_plan_count_on_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """By this clock, a step takes a second, and one as a graph a tenth of it."""
    graphs = StepGraphs(TracingRecorder())

    def clock() -> float:
        return graphs.n_eager + 0.1 * graphs.n_replayed

    monkeypatch.setattr("hba.policy_search.budget.graphs_for", lambda state, config: graphs)
    context = ImageSearchContext.of(
        small_config(algorithm="lookahead", learning_rate_schedule="constant"), small_data()
    )
    # Two steps and the gradient of lambda.
    assert measured(context, 10.0, clock)[0] == pytest.approx(0.3 / 2)
    graphs = StepGraphs(TracingRecorder())
    monkeypatch.setattr(StepGraphs, "of", lambda *_, **__: graphs)
    monkeypatch.setattr("time.perf_counter", clock)
    timer = StepTimer(Look("d", ("a", "b"), 8, 0, 2, False, (4, 4), False, 8, False), 4, torch.device("cpu"), 1, {})
    assert timer._timed(Rung("wrn-10-1", 8), is_fast=False) == pytest.approx(BESIDE * 0.1 / 4)
    assert graphs.reason is None


@each(
    "step",
    [
        lambda x: x * x.sum().item(),
        lambda x: x[x > 0],
        lambda x: x.nonzero(),
        lambda x: x.unique(),
        lambda x: x.masked_select(x > 0),
        lambda x: x if bool((x > 0).all()) else -x,
        lambda x: x * random.random(),
        lambda x: x * float(np.random.rand()),
        lambda x: x * torch.rand(()),
    ],
)
def test_a_step_that_needs_the_host_runs_eagerly_and_one_line_says_why(step: Callable[[Tensor], Tensor]) -> None:
    graphs, x = StepGraphs(TracingRecorder()), torch.tensor([1.0, -2.0, 3.0])

    def seeded() -> None:
        torch.manual_seed(0)
        np.random.seed(0)
        random.seed(0)

    seeded()
    with pytest.warns(HbaWarning) as warned:
        found = [graphs.run("step", step, x) for _ in range(2 * WARM_UP_RUNS)]
    seeded()
    for own in found:
        assert torch.equal(own, step(x))
    assert len(warned) == 1
    assert graphs.counts == StepCounts(0, 2 * WARM_UP_RUNS, graphs.reason)


def test_every_key_and_every_shape_is_a_step_of_its_own() -> None:
    graphs = StepGraphs(TracingRecorder())
    for number in range(2 * WARM_UP_RUNS):
        for factor in (2.0, 3.0):
            for length in (1, 4):
                x = torch.full((length,), float(number))
                assert torch.equal(graphs.run(factor, lambda x, factor=factor: x * factor, x), x * factor)
    assert graphs.counts == StepCounts(4 * WARM_UP_RUNS, 4 * WARM_UP_RUNS)


@pytest.mark.gpu
@each("algorithm", ["lookahead", "hba", "stn", "delta-stn", "joint", "race"])
def test_on_a_gpu_a_search_with_graphs_finds_what_one_without_finds(algorithm: str) -> None:
    epochs = 40 if algorithm == "race" else 8
    eager, recorded = (
        # The legs of a race are short, and each records its own steps.
        hba.search(small_data(), **small_settings(algorithm=algorithm, device="cuda", epochs=epochs, graph=graph))
        for graph in (False, True)
    )
    assert eager.steps is None
    assert recorded.steps is not None
    assert recorded.steps.reason is None
    assert recorded.steps.replayed > recorded.steps.eager > 0
    assert recorded.schedule is not None
    assert eager.schedule is not None
    np.testing.assert_allclose(recorded.schedule.values, eager.schedule.values, rtol=1e-3, atol=1e-3)


@pytest.mark.gpu
@each("fast", [False, True])
def test_on_a_gpu_a_training_with_graphs_ends_where_one_without_ends(fast: bool) -> None:
    losses, data = [], tiny_data().to(torch.device("cuda"))
    for graph in (False, True):
        settings = {"model": "wrn-10-1", "epochs": 4, "batch_size": 4, "device": "cuda", "data": "digits"}
        config = EvaluationConfig.make({**settings, "fast": fast, "graph": graph})
        found = train(config, data, ScheduleAugmentation(load_policy("timm")), seed=0)
        losses.append([one.loss for one in found.epochs])
        assert (found.steps is not None and found.steps.replayed > found.steps.eager) == graph
    assert losses[1] == pytest.approx(losses[0], rel=1e-2 if fast else 1e-4)


@pytest.mark.gpu
def test_on_a_gpu_a_recorded_policy_draws_as_an_eager_one_and_its_results_last() -> None:
    schedule = load_policy("photo")
    policies = [Policy(schedule.space, torch.tensor(schedule.values[0]).float()).cuda() for _ in range(2)]
    images, found = torch.rand(16, 3, 24, 24, device="cuda"), list[list[Tensor]]()
    for policy, recorded in zip(policies, (True, False), strict=True):
        torch.manual_seed(0)
        with mock.patch("hba.policy.module.may_record", side_effect=lambda images, recorded=recorded: recorded):
            found.append([policy(images) for _ in range(2 * WARM_UP_RUNS)])
    for own, expected in zip(*found, strict=True):
        assert torch.equal(own, expected)
    assert [one.counts for one in policies[0]._graphs.values()] == [StepCounts(WARM_UP_RUNS, WARM_UP_RUNS)]
    assert not policies[1]._graphs
