"""Steps as graphs: recorded steps do what eager ones do, and steps that cannot be
recorded run eagerly.
"""

import functools
import gc
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from random_inputs import seeded
from recorded_steps import TracingRecorder, tracing_graphs
from search_problems import WithDropout, small_config, small_data, small_settings
from search_steps import algorithm_of, assert_same, begun
from small_trainings import EPOCHS, N_TRAIN, tiny_data
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.optim import Optimizer
from torch.torch_version import TorchVersion

import hba
from hba.config.evaluation import EvaluationConfig
from hba.errors import HbaWarning
from hba.models import build_model
from hba.operations import Operation
from hba.policy.space import SearchSpace
from hba.policy.spaces import SPACES
from hba.policy_search.context import ImageSearchContext
from hba.policy_search.timing import Rung, StepTimer, time_search
from hba.policy_search.trainer import graphs_for
from hba.regularization.groups import REGULARIZERS
from hba.regularization.regularizer import Hyperparameter, Regularizer
from hba.schedule.library import load_policy
from hba.schedule.schedule import Schedule
from hba.training.augmentation import ScheduleAugmentation
from hba.training.custom_network import CustomNetwork
from hba.training.metrics import Measured, measure, totals
from hba.training.trainer import Trained, train
from hba.utils.graph_checks import StepState, first_own
from hba.utils.graphs import (
    EAGER_RUNS,
    LEAST_PYTORCH,
    CudaRecorder,
    StepCounts,
    StepGraphs,
    Tensors,
    may_record,
)
from hba.utils.seeding import default_generator_of
from hba.utils.snapshot import snapshot

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")


@pytest.fixture
def fixed_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations as on a GPU, where the host does not read which ones were drawn."""
    monkeypatch.setattr("hba.operations.apply.needs_fixed_shapes", lambda images: True)
    monkeypatch.setattr("hba.packed.images.can_run", lambda images: False)


@pytest.mark.slow
@pytest.mark.usefixtures("fixed_shapes")
@pytest.mark.parametrize("algorithm", ["lookahead", "stn", "joint", "fixed-noise"])
def test_recorded_steps_of_a_search_do_what_eager_ones_do(algorithm: str) -> None:
    (problem, eager), (_, recorded) = (
        begun(algorithm=algorithm, learning_rate_schedule="constant") for _ in range(2)
    )
    recorded.graphs = tracing_graphs(recorded, recorded.generator)
    for _ in range((EAGER_RUNS + 1) * algorithm_of(problem).train_steps):
        for state in (eager, recorded):
            algorithm_of(problem).step(problem, state)
    assert recorded.graphs.reason is None
    # Steps on the weights, and one on lambda.
    assert recorded.graphs.n_eager == 2 * EAGER_RUNS
    assert recorded.graphs.n_replayed > 1
    assert_same(snapshot(recorded), snapshot(eager))


@pytest.mark.slow
@pytest.mark.usefixtures("fixed_shapes")
def test_recorded_legs_of_a_race_and_measurements_do_what_eager_ones_do() -> None:
    """Each leg is a step of its own, because its weights come back and its operations
    are others.
    """
    states = []
    for is_recorded in (False, True):
        problem, state = begun(
            SPACES["recipe"],
            algorithm="race",
            learning_rate_schedule="constant",
            epochs=12,
        )
        state.graphs = (
            tracing_graphs(state, state.generator) if is_recorded else StepGraphs()
        )
        results = list[Any]()
        while not state.ended[3]:
            algorithm_of(problem).step(problem, state)
            measured = totals(
                state.learner.network.eval(),
                problem.data.val,
                problem.preprocessing.measure,
                None,
                state.graphs,
            )
            results.append([tensor.tolist() for tensor in measured])
        states.append((snapshot(state), results))
    assert state.graphs.reason is None
    assert state.graphs.n_replayed > 2 * EAGER_RUNS
    measurements = [
        record.outputs
        for (key, _), record in state.graphs.recordings.items()
        if key == "measure"
    ]
    assert not any(logits.requires_grad for logits in measurements)
    assert_same(*(state for state, _ in states))
    assert states[0][1] == states[1][1]


@contextmanager
def recording() -> Iterator[list[tuple[StepGraphs, list[Any]]]]:
    """Trainings and searches record their steps; yields what they record with, and the
    parts of their steps.
    """
    recordings: list[tuple[StepGraphs, list[Any]]] = []

    def of(
        parts: Iterable[Any],
        optimizer: Optimizer,
        generator: torch.Generator,
        state: Any,
        **_: object,
    ) -> StepGraphs:
        recordings.append((tracing_graphs(state, generator, optimizer), list(parts)))
        return recordings[-1][0]

    with mock.patch.object(StepGraphs, "of", of):
        yield recordings


@pytest.mark.usefixtures("fixed_shapes", "double_precision")
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_recorded_steps_do_what_eager_ones_do_while_policy_and_learning_rate_change(
    optimizer: str,
) -> None:
    """A policy that mixes, with a row for each epoch."""
    space = SearchSpace(
        (
            *load_policy("timm").space.operations[-4:],
            *load_policy("timm").space.operations[:2],
        )
    )
    start, end = (space.decode(space.initial(share)).numpy() for share in (0.3, 0.6))
    rows = np.linspace(start, end, EPOCHS)
    settings = {
        "model": "simple-cnn-4",
        "epochs": EPOCHS,
        "batch_size": 10,
        "optimizer": optimizer,
        "device": "cpu",
    }
    config = EvaluationConfig.make(
        {**settings, "data": "digits", "learning_rate_warm_up_epochs": 1}
    )
    held_at_the_end: list[bool] = []

    def measured_at_the_end(*arguments: Any) -> Measured:
        held_at_the_end.append(
            any(
                record.replay
                for graphs, _ in recordings
                for record in graphs.recordings.values()
            )
        )
        return measure(*arguments)

    def train_once() -> Trained:
        return train(
            config, tiny_data(), ScheduleAugmentation(Schedule(space, rows)), seed=0
        )

    eager = train_once()
    with (
        recording() as recordings,
        mock.patch("hba.training.trainer.measure", measured_at_the_end),
    ):
        recorded = train_once()
    n_steps = EPOCHS * N_TRAIN // 10
    assert recordings[0][0].counts == StepCounts(n_steps - EAGER_RUNS, EAGER_RUNS)
    # A learning rate is rounded in a tensor.
    assert [epoch.loss for epoch in recorded.epochs] == pytest.approx(
        [epoch.loss for epoch in eager.epochs], rel=1e-5
    )
    assert len({epoch.loss for epoch in eager.epochs}) == EPOCHS
    # Their memory is free for the measurement of the test split.
    assert held_at_the_end == [False]


@pytest.mark.slow
@pytest.mark.usefixtures("fixed_shapes")
def test_a_budget_and_a_plan_count_on_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """By this clock, a step takes a second, and one as a graph a tenth of it."""
    graphs = StepGraphs()

    def clock() -> float:
        return graphs.n_eager + 0.1 * graphs.n_replayed

    def of(
        parts: Any,
        optimizer: Optimizer,
        generator: torch.Generator,
        state: Any,
        **_: object,
    ) -> StepGraphs:
        nonlocal graphs
        graphs = tracing_graphs(state, generator)
        return graphs

    monkeypatch.setattr(StepGraphs, "of", of)
    context = ImageSearchContext.of(
        small_config(algorithm="lookahead", learning_rate_schedule="constant"),
        small_data(),
    )
    # Two steps and the gradient of lambda.
    assert time_search(context, 10.0, clock)[0] == pytest.approx(0.3 / 2)
    monkeypatch.setattr("time.perf_counter", clock)
    timer = StepTimer(2, 4, torch.device("cpu"), 1, {})
    seconds = timer._timed(Rung("wrn-10-1", 8), is_fast=False)
    assert seconds == pytest.approx(0.1 / 4)
    assert graphs.reason is None


@pytest.mark.parametrize(
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
def test_a_step_that_needs_the_host_runs_eagerly_and_one_line_says_why(
    step: Callable[[Tensor], Tensor],
) -> None:
    graphs = tracing_graphs((), torch.Generator())
    x = torch.tensor([1.0, -2.0, 3.0])

    def seed_torch() -> None:
        torch.manual_seed(0)
        np.random.seed(0)
        random.seed(0)

    seed_torch()
    with pytest.warns(HbaWarning) as warned:
        results = [graphs.run("step", step, x) for _ in range(2 * EAGER_RUNS)]
    seed_torch()
    for result in results:
        assert torch.equal(result, step(x))
    assert len(warned) == 1
    assert graphs.counts == StepCounts(0, 2 * EAGER_RUNS, graphs.reason)


def test_every_key_and_every_shape_is_a_step_of_its_own() -> None:
    graphs = tracing_graphs((), torch.Generator())
    for number in range(2 * EAGER_RUNS):
        for factor in (2.0, 3.0):
            for length in (1, 4):
                x = torch.full((length,), float(number))
                assert torch.equal(
                    graphs.run(factor, lambda x, factor=factor: x * factor, x),
                    x * factor,
                )
    assert graphs.counts == StepCounts(4 * EAGER_RUNS, 4 * EAGER_RUNS)


def test_cleared_graphs_are_recorded_anew_with_what_has_changed_since() -> None:
    graphs = tracing_graphs((), torch.Generator())
    for number in range(3 * EAGER_RUNS):
        factor = 2.0 if number < 2 * EAGER_RUNS else 3.0
        if number == 2 * EAGER_RUNS:
            graphs.clear()
            assert not any(
                record.replay or record.inputs for record in graphs.recordings.values()
            )
        x = torch.full((4,), float(number))
        assert torch.equal(
            graphs.run("step", lambda x, factor=factor: x * factor, x), x * factor
        )
    assert graphs.counts == StepCounts(2 * EAGER_RUNS, EAGER_RUNS)


@dataclass
class Training:
    """All that a few steps with dropped inputs and momentum change."""

    network: nn.Module
    optimizer: Optimizer
    generator: torch.Generator
    sums: Tensor

    @staticmethod
    def begun() -> "Training":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network = nn.Sequential(
                nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)
            )
        # As steps run before they are recorded, with a learning rate that is the same
        # as a number and in a tensor.
        optimizer = torch.optim.SGD(
            network.parameters(), 0.125, momentum=0.9, fused=True
        )
        return Training(network, optimizer, seeded(1), torch.zeros(2))

    def step(self, inputs: Tensor, factor: float = 1.0) -> Tensor:
        dropped = (
            inputs * factor * (torch.rand(inputs.shape, generator=self.generator) < 0.7)
        )
        loss = nn.functional.cross_entropy(
            self.network(dropped), (inputs.sum(1) > 0).long()
        )
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.sums += torch.stack([loss.detach(), loss.new_ones(())])
        return loss.detach()

    def batches(self) -> list[Tensor]:
        generator = seeded(2)
        return [torch.randn(16, 6, generator=generator) for _ in range(EAGER_RUNS + 3)]


Replay = Callable[[], object]
Lie = Callable[[Training, Tensors, Replay], Replay]
"""Makes a graph that does not repeat its step of one that does; called when the step is
recorded.
"""


def draws_the_same_again(training: Training, inputs: Tensors, replay: Replay) -> Replay:
    changed = StepState(training, [training.generator])
    recorded = training.generator.get_state()

    def lie() -> None:
        begun = changed.saved()
        replay()
        after = training.generator.get_state()
        changed.restore(begun)
        training.generator.set_state(recorded)
        replay()
        training.generator.set_state(after)

    return lie


def reads_the_recorded_inputs(
    training: Training, inputs: Tensors, replay: Replay
) -> Replay:
    recorded = [tensor.clone() for tensor in inputs]

    def lie() -> None:
        for static, value in zip(inputs, recorded, strict=True):
            static.copy_(value)
        replay()

    return lie


def does_not_write(tensor_of: Callable[[Training], Tensor]) -> Lie:
    def lie_in_graph(training: Training, inputs: Tensors, replay: Replay) -> Replay:
        def lie() -> None:
            before = tensor_of(training).clone()
            replay()
            tensor_of(training).copy_(before)

        return lie

    return lie_in_graph


def draws_once_more(training: Training, inputs: Tensors, replay: Replay) -> Replay:
    def lie() -> None:
        replay()
        torch.rand((), generator=training.generator)

    return lie


LIES: Mapping[str, Lie] = MappingProxyType(
    {
        "same draws": draws_the_same_again,
        "recorded inputs": reads_the_recorded_inputs,
        "no sums": does_not_write(lambda training: training.sums),
        "no running mean": does_not_write(
            lambda training: training.network.get_buffer("1.running_mean")
        ),
        "one draw more": draws_once_more,
    }
)


@pytest.mark.parametrize("lie", [None, *LIES])
def test_a_graph_that_does_not_repeat_its_step_is_never_used(lie: str | None) -> None:
    """And comparing a graph with its step changes nothing."""
    eager = Training.begun()
    recorded = Training.begun()
    graphs = tracing_graphs(recorded, recorded.generator, recorded.optimizer)
    record = graphs.recorder.record

    def lying_record(
        step: Callable[..., Tensor], inputs: Tensors
    ) -> tuple[Tensor, Replay]:
        outputs, replay = record(step, inputs)
        return outputs, replay if lie is None else LIES[lie](recorded, inputs, replay)

    with (
        mock.patch.object(graphs.recorder, "record", lying_record),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        for inputs in eager.batches():
            assert torch.equal(
                graphs.run("step", recorded.step, inputs), eager.step(inputs)
            )
            assert_same(snapshot(recorded), snapshot(eager))
    assert len([warning for warning in caught if warning.category is HbaWarning]) == (
        lie is not None
    )
    assert graphs.n_replayed == (3 if lie is None else 0)


def test_a_step_with_a_state_in_python_runs_eagerly() -> None:
    eager = Training.begun()
    recorded = Training.begun()
    generator = random.Random(0)
    graphs = tracing_graphs(recorded, recorded.generator, recorded.optimizer)
    drawn = list[float]()

    def step(inputs: Tensor) -> None:
        drawn.append(generator.uniform(0.5, 1.5))
        recorded.step(inputs, drawn[-1])

    def run_both() -> None:
        for inputs in eager.batches():
            drawn.clear()
            graphs.run("step", step, inputs)
            eager.step(inputs, drawn[0])
            assert_same(snapshot(recorded), snapshot(eager))

    with pytest.warns(HbaWarning):
        run_both()
    assert graphs.n_replayed == 0


def test_a_failed_comparison_of_a_graph_leaves_the_step_as_if_not_begun() -> None:
    """As when memory is full, because the graph has its own."""
    eager = Training.begun()
    recorded = Training.begun()
    graphs = tracing_graphs(recorded, recorded.generator, recorded.optimizer)
    runs = 0

    def step(inputs: Tensor) -> Tensor:
        nonlocal runs
        runs += 1
        loss = recorded.step(inputs)
        # The second eager run of the comparison, after the runs before it and the
        # recording.
        if runs == EAGER_RUNS + 2:
            raise torch.OutOfMemoryError
        return loss

    def run_both() -> None:
        for inputs in eager.batches():
            assert torch.equal(graphs.run("step", step, inputs), eager.step(inputs))
            assert_same(snapshot(recorded), snapshot(eager))

    with pytest.warns(HbaWarning):
        run_both()
    assert graphs.n_replayed == 0


def brighten(images: Tensor, factor: Tensor) -> Tensor:
    return (images * factor[:, None, None, None]).clamp(0, 1)


own_random = random.Random(0)


def jitter(images: Tensor) -> Tensor:
    return images * own_random.random()


@pytest.mark.usefixtures("fixed_shapes")
def test_an_operation_with_random_numbers_of_its_own_is_caught_in_a_training() -> None:
    """As with `--graph`, which records code of your own."""
    space = SearchSpace(
        (Operation("Jitter", jitter),), copies=1, count_probabilities=(0.0, 1.0)
    )
    schedule = Schedule(space, np.ones((1, space.n)))
    settings = {
        "model": "simple-cnn-4",
        "epochs": 1,
        "batch_size": 4,
        "device": "cpu",
        "data": "digits",
    }
    with recording() as recordings, pytest.warns(HbaWarning):
        train(
            EvaluationConfig.make(settings),
            tiny_data(),
            ScheduleAugmentation(schedule),
            seed=0,
        )
    assert recordings[0][0].counts == StepCounts(0, 10, recordings[0][0].reason)


def mean_logit(logits: Tensor, labels: Tensor, *, weight: Tensor) -> Tensor:
    return weight * logits.mean(dim=1)


def test_your_own_operations_and_regularizers_are_not_recorded_by_default() -> None:
    brightens = Operation("Brighten", brighten, (0.5, 1.5), "factor", 1.0)
    regularizer = Regularizer(
        "mean_logit",
        (Hyperparameter("mean_logit.weight", 0, 1, 0.1),),
        "loss",
        mean_logit,
    )
    config = EvaluationConfig.make(
        {"model": "wrn-10-1", "epochs": 1, "batch_size": 20, "data": "digits"}
    )
    with (
        recording() as recordings,
        mock.patch.dict(REGULARIZERS, {regularizer.name: regularizer}),
    ):
        for space, name in (
            (SearchSpace(), None),
            (SearchSpace((brightens,)), "brighten"),
            (SearchSpace(regularizers=regularizer.hyperparameters), "mean_logit"),
        ):
            problem, state = begun(space, algorithm="joint")
            graphs_for(state, problem)
            assert first_own(recordings[-1][1]) == name
            schedule = Schedule(space, space.decode(space.initial())[None].numpy())
            train(config, tiny_data(), ScheduleAugmentation(schedule), seed=0)
            assert first_own(recordings[-1][1]) == name


@pytest.mark.usefixtures("fixed_shapes")
def test_a_policy_records_only_if_asked_and_a_bounded_number_of_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hba.policy.module.may_record", lambda images: True)
    monkeypatch.setattr(
        "hba.policy.module.CudaRecorder",
        lambda device: TracingRecorder((), [torch.default_generator]),
    )
    monkeypatch.setattr("hba.policy.module.MOST_GRAPHS", 1)
    # Here, the device's default generator is the host's.
    monkeypatch.setattr("hba.utils.graphs.random_states_of_host", lambda: ())
    schedule = load_policy("photo")
    outputs = list[list[Tensor]]()
    policies = [schedule.policy(0, graph=is_graph) for is_graph in (False, True)]
    for policy in policies:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            images = torch.rand(6, 3, 8, 8)
            outputs.append(
                [
                    policy(images[:size])
                    for _ in range(EAGER_RUNS + 2)
                    for size in (6, 3)
                ]
            )
    for output, expected in zip(*outputs, strict=True):
        assert torch.equal(output, expected)
    assert not policies[0]._graphs
    (graphs,) = policies[1]._graphs.values()
    assert graphs.counts == StepCounts(2, 2 * EAGER_RUNS + 2)
    assert not policies[1].__getstate__()["_graphs"]


@pytest.mark.parametrize(
    ("version", "is_wanted", "is_on"),
    [("2.11.0", None, False), ("2.11.0", True, True), ("2.13.0", None, True)],
)
def test_graphs_are_the_default_only_where_a_failed_recording_does_no_harm(
    version: str, is_wanted: bool | None, is_on: bool
) -> None:
    optimizer: Any = SimpleNamespace(param_groups=[])
    generator: Any = SimpleNamespace(device=torch.device("cuda"))
    with (
        mock.patch("torch.__version__", TorchVersion(version)),
        mock.patch("hba.utils.graphs.CudaRecorder", return_value=TracingRecorder()),
        mock.patch(
            "hba.utils.graphs.default_generator_of",
            return_value=torch.default_generator,
        ),
    ):
        graphs = StepGraphs.of([], optimizer, generator, (), wanted=is_wanted)
    assert (graphs.recorder is not None) == is_on
    assert is_on or "--graph" in str(graphs.reason)


@pytest.mark.skipif(torch.cuda.is_available(), reason="tests a machine without a GPU")
def test_tensors_of_a_gpu_without_content_are_not_recorded() -> None:
    with FakeTensorMode():
        assert not may_record(torch.empty(1, device="cuda"))


@pytest.mark.gpu
@pytest.mark.parametrize(
    "algorithm", ["lookahead", "hba", "stn", "delta-stn", "joint", "race"]
)
def test_on_a_gpu_a_search_with_graphs_finds_what_one_without_finds(
    algorithm: str,
) -> None:
    epochs = 40 if algorithm == "race" else 8
    eager, recorded = (
        # The legs of a race are short, and each records its own steps.
        hba.search(
            small_data(),
            **small_settings(
                algorithm=algorithm, device="cuda", epochs=epochs, graph=graph
            ),
        )
        for graph in (False, True)
    )
    assert eager.steps is None
    assert recorded.steps is not None
    assert recorded.steps.reason is None
    assert recorded.steps.replayed > recorded.steps.eager > 0
    assert recorded.schedule is not None
    assert eager.schedule is not None
    np.testing.assert_allclose(
        recorded.schedule.values, eager.schedule.values, rtol=1e-3, atol=1e-3
    )


@pytest.fixture
def inputs_must_live(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay raises if a tensor that its graph reads is gone."""
    if torch.__version__ >= LEAST_PYTORCH:
        monkeypatch.setattr(
            torch.cuda,
            "graph",
            functools.partial(torch.cuda.graph, check_input_liveness=True),
        )


@pytest.mark.gpu
@pytest.mark.usefixtures("inputs_must_live")
@pytest.mark.parametrize("fast", [False, True])
def test_on_a_gpu_a_training_with_graphs_ends_where_one_without_ends(
    fast: bool,
) -> None:
    losses = []
    data = tiny_data().to(torch.device("cuda"))
    for graph in (False, True):
        settings = {
            "model": "wrn-10-1",
            "epochs": 4,
            "batch_size": 4,
            "device": "cuda",
            "data": "digits",
        }
        config = EvaluationConfig.make({**settings, "fast": fast, "graph": graph})
        result = train(config, data, ScheduleAugmentation(load_policy("timm")), seed=0)
        losses.append([epoch.loss for epoch in result.epochs])
        assert (
            result.steps is not None and result.steps.replayed > result.steps.eager
        ) == graph
    assert losses[1] == pytest.approx(losses[0], rel=1e-2 if fast else 1e-4)


@pytest.mark.gpu
def test_on_a_gpu_a_recorded_policy_draws_as_an_eager_one_and_its_results_last() -> (
    None
):
    schedule = load_policy("photo")
    outputs = list[list[Tensor]]()
    policies = [schedule.policy(0, graph=is_graph).cuda() for is_graph in (True, False)]
    images = torch.rand(16, 3, 24, 24, device="cuda")
    for policy in policies:
        torch.manual_seed(0)
        outputs.append([policy(images) for _ in range(2 * EAGER_RUNS)])
    for output, expected in zip(*outputs, strict=True):
        assert torch.equal(output, expected)
    assert [graph.counts for graph in policies[0]._graphs.values()] == [
        StepCounts(EAGER_RUNS, EAGER_RUNS)
    ]
    assert not policies[1]._graphs


def trained_on_gpu(*, graph: bool, device: str = "cuda", **settings: Any) -> Trained:
    """A network with dropout, which draws from PyTorch's default generator."""
    config = EvaluationConfig.make(
        {
            "model": "wrn-10-1",
            "epochs": 4,
            "batch_size": 4,
            "data": "digits",
            "device": device,
        }
        | {**settings, "graph": graph}
    )
    own_network = CustomNetwork(WithDropout())
    data = tiny_data().to(torch.device(device))
    return train(
        config,
        data,
        ScheduleAugmentation(load_policy("timm")),
        seed=0,
        own_network=own_network,
    )


@pytest.mark.gpu
@pytest.mark.skipif(
    torch.__version__ < LEAST_PYTORCH,
    reason="PyTorch does not clean up after a failed recording",
)
def test_on_a_gpu_a_training_after_a_recording_that_failed_ends_as_without() -> None:
    """The mode that warns of waits does not see this one, which invalidates the
    recording.
    """
    expected = trained_on_gpu(graph=False)
    generator = torch.Generator("cuda")
    generators = [generator, default_generator_of(generator.device)]
    graphs = StepGraphs(
        CudaRecorder(generator.device, generator), generators=generators
    )

    def waits(x: Tensor) -> Tensor:
        y = x * torch.rand(x.shape, generator=generator, device=x.device)
        torch.cuda.synchronize()
        return y + torch.rand_like(x)

    with pytest.warns(HbaWarning):
        _ = [
            graphs.run("step", waits, torch.ones(4, device="cuda"))
            for _ in range(2 * EAGER_RUNS)
        ]
    assert graphs.counts == StepCounts(0, 2 * EAGER_RUNS, graphs.reason)
    result = trained_on_gpu(graph=True)
    assert result.steps is not None
    assert result.steps.reason is None
    assert result.test.loss == pytest.approx(expected.test.loss, rel=1e-3)


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_graphs_run_on_another_gpu_than_the_current_one() -> None:
    result, expected = (
        trained_on_gpu(graph=graph, device="cuda:1") for graph in (True, False)
    )
    assert torch.cuda.current_device() == 0
    assert result.steps is not None
    assert result.steps.replayed > result.steps.eager
    assert result.test.loss == pytest.approx(expected.test.loss, rel=1e-3)


@pytest.mark.gpu
def test_on_a_gpu_adamw_runs_as_graphs_without_a_warning_of_runs_outside_of_them() -> (
    None
):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*capturable")
        settings: dict[str, Any] = {"optimizer": "adamw", "learning_rate": 0.001}
        result, expected = (
            trained_on_gpu(graph=graph, **settings) for graph in (True, False)
        )
    assert result.steps is not None
    assert result.steps.replayed > result.steps.eager
    assert result.test.loss == pytest.approx(expected.test.loss, rel=1e-3)


@pytest.mark.gpu
def test_on_a_gpu_graphs_take_little_more_memory_and_return_it() -> None:
    """While a graph is compared, it holds one set of activations, and the eager run
    another.
    """
    peaks = []
    images = torch.rand(64, 3, 32, 32, device="cuda")
    labels = torch.arange(64, device="cuda") % 2

    def step_of(network: nn.Module, optimizer: Optimizer) -> Callable[[Tensor], None]:
        def step(images: Tensor) -> None:
            nn.functional.cross_entropy(network(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    for graph in (False, True):
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        network = build_model("wrn-28-2", 2, 0, 32).cuda()
        generator = torch.Generator("cuda")
        optimizer = torch.optim.SGD(network.parameters(), 0.01, momentum=0.9)
        state = {"network": network, "optimizer": optimizer}
        graphs = StepGraphs.of([network], optimizer, generator, state, wanted=graph)
        for _ in range(2 * EAGER_RUNS):
            graphs.run("step", step_of(network, optimizer), images)
        peaks.append(torch.cuda.max_memory_allocated() - before)
        assert graphs.reason is None
        assert (graphs.n_replayed > 0) == graph
        graphs.clear()
        gc.collect()
        # Weights and momentum are left.
        assert torch.cuda.memory_allocated() - before < 0.3 * peaks[0]
    assert peaks[1] < 2.5 * peaks[0]
