"""Trainings on a Ray cluster of two machines, each a process of this one: the numbers of one after the other."""

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from ray_machines import Machines
from small_trainings import one_operation, tiny_data
from test_processes import N_STEPS, SETTINGS, Events, write_folder
from torch import Tensor, nn

import hba
from hba.distributed.cluster import Cluster, Machine, Needs, Room, connected, do_alike, versions
from hba.distributed.together import _check_can_begin_again
from hba.errors import DivergedError, HbaError, RunError, SettingsError
from hba.operations.registration import load_operations_file
from hba.policy_evaluation import on_cluster
from hba.policy_evaluation.workplace import OnCluster
from hba.policy_search.repeated import repeated_search

INVERT = one_operation("Invert", [[0.0], [1.0]])


class Brightened:
    """An augmentation of one's own, of a module that no other machine has."""

    definition = "brightened"

    def by_epoch(self, epochs: int, train: Any) -> list[Callable[[Tensor, torch.Generator], Tensor]]:
        return [lambda images, generator: (images + 0.1).clamp(0, 1)] * epochs


@pytest.mark.slow
@pytest.mark.usefixtures("registered")
def test_two_machines_find_what_one_process_finds(
    machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    folder, events = write_folder(tmp_path / "images"), Events()
    against: list[Any] = ["none", "randaugment", Brightened()]
    alone = hba.evaluate(INVERT, folder, against=against, seeds=2, **SETTINGS)
    events.record_files(monkeypatch)
    settings: dict[str, Any] = {**SETTINGS, "against": against, "seeds": 2, "out": tmp_path / "out"}
    result = hba.evaluate(INVERT, folder, cluster=machines.address, callback=events, **settings)
    assert result.rows == alone.rows
    assert len({error for row in alone.rows for error in row.test_error_percent}) > 1, "the numbers can differ"
    made_by = {name: result.environment[name] for name in ("jobs", "n_threads", "machines")}
    assert made_by == {"jobs": 2, "n_threads": 1, "machines": 2}
    counts = {event: events.seen.count(event) for event in ("train", "test", "step", "done")}
    assert counts == {"train": 24, "test": 12, "step": 8 * N_STEPS, "done": 8}
    assert events.seen.index("done") > events.seen.index("test") > events.seen.index("step")
    assert json.loads((tmp_path / "out" / "results.json").read_text())["machines"] == 2

    del settings["model"]
    own_network = {**settings, "out": None, "against": [], "network": nn.Sequential(nn.Flatten(), nn.Linear(192, 2))}
    on_two = hba.evaluate(INVERT, tiny_data(), cluster=machines.address, **own_network)
    assert on_two.rows == hba.evaluate(INVERT, tiny_data(), **own_network).rows

    text = """
import hba

def gamma_of_a_file(images, exponent):
    return images ** exponent[:, None, None, None]

hba.register_operation(
    hba.Operation("Gamma", gamma_of_a_file, magnitude_range=(0.5, 2.0), unit="exponent", identity=1.0)
)
"""
    (tmp_path / "operations_for_the_cluster.py").write_text(text, encoding="utf-8")
    (gamma,) = load_operations_file(tmp_path / "operations_for_the_cluster.py")
    space = hba.SearchSpace((gamma, hba.OPERATIONS["Invert"]), copies=1)
    schedule = hba.Schedule(space, [[0.5, 1.5, 0.5]])  # type: ignore[arg-type]
    with pytest.raises(DivergedError, match=r"^\w+, seed 0: the loss of epoch 1 is not finite"):
        hba.evaluate(schedule, tiny_data(), cluster=machines.address, learning_rate=1e30, seeds=1, **SETTINGS)


@pytest.mark.slow
def test_what_a_lost_machine_was_training_is_trained_again(machines: Machines, tmp_path: Path) -> None:
    settings: dict[str, Any] = {**SETTINGS, "batch_size": 20, "epochs": 40, "seeds": 3}
    lost: list[str] = []

    def lose_one() -> None:
        if not lost:
            lost.append("one")
            machines.lose_one()

    result = hba.evaluate(
        INVERT, tiny_data(), cluster=machines.address, out=tmp_path / "out", callback=Events(lose_one), **settings
    )
    assert lost
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert result.rows == hba.evaluate(INVERT, tiny_data(), **settings).rows
    finally:
        torch.set_num_threads(before)
    assert not (tmp_path / "out" / "trainings").exists()
    again = hba.evaluate(INVERT, tiny_data(), cluster="nowhere:1", out=tmp_path / "out", resume=True, **settings)
    assert again.rows == result.rows, "what is whole needs no cluster"


@pytest.mark.slow
def test_two_machines_share_a_training_and_begin_it_again_where_one_is_lost(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun_again: list[Exception] = []

    def check(cluster: Cluster, error: Exception, n_lost: int) -> None:
        begun_again.append(error)
        _check_can_begin_again(cluster, error, n_lost)

    monkeypatch.setattr("hba.distributed.together._check_can_begin_again", check)
    settings: dict[str, Any] = {**SETTINGS, "batch_size": 20, "epochs": 20, "seeds": 2}
    steps: list[int] = []

    class LosesOne(hba.EvaluationCallback):
        def step_done(self) -> None:
            steps.append(1)
            if len(steps) == 5:
                # Both take part, so a training is lost.
                machines.lose_one()
                machines.all.add_node(num_cpus=1, object_store_memory=80_000_000)

    shared: dict[str, Any] = {"cluster": machines.address, "gpus_per_training": 2, "callback": LosesOne()}
    result = hba.evaluate(INVERT, tiny_data(), **shared, **settings)
    assert len(begun_again) == 1
    assert (result.environment["n_processes"], result.environment["jobs"]) == (2, 1)
    alone = hba.evaluate(INVERT, tiny_data(), **settings)
    for row, of_one in zip(result.rows, alone.rows, strict=True):
        assert row.test_loss == pytest.approx(of_one.test_loss, rel=1e-2), "but for the order of sums"
        assert row.test_loss != of_one.test_loss, "sums were in another order"
    with pytest.raises(DivergedError, match=r"^schedule, seed 0: the loss of epoch 1 is not finite"):
        hba.evaluate(INVERT, tiny_data(), cluster=machines.address, gpus_per_training=2, learning_rate=1e30, **settings)
    with pytest.raises(SettingsError, match="gpus_per_training must be at most 2, as many as the cluster has room for"):
        hba.evaluate(INVERT, tiny_data(), cluster=machines.address, gpus_per_training=3, **settings)


@pytest.mark.parametrize(
    ("machines_there", "device", "expected", "places"),
    [
        ([(16, 0), (4, 0)], "auto", Needs(1, 0), 20),
        ([(16, 8), (4, 0)], "auto", Needs(2, 1), 8),
        ([(16, 8), (12, 2)], "cuda", Needs(2, 1), 10),
        ([(16, 8), (4, 0)], "cpu", Needs(1, 0), 20),
        ([(1, 4)], "auto", Needs(1, 1), 1),
    ],
)
def test_a_training_has_a_gpu_and_its_share_of_the_cpus(
    monkeypatch: pytest.MonkeyPatch,
    machines_there: list[tuple[int, int]],
    device: str,
    expected: Needs,
    places: int,
) -> None:
    found = tuple(Machine("one", *size) for size in machines_there)
    monkeypatch.setattr(Cluster, "machines", lambda self: found)
    cluster: Any = Cluster(None)  # type: ignore[arg-type]
    assert cluster.needs(device) == expected
    assert cluster.places(expected) == places


@pytest.mark.parametrize(
    ("machines_there", "device", "message"),
    [
        ([(4, 0)], "cuda", "no machine of the cluster has a GPU, of 1; omit device, or add one"),
        ([(4, 1)], "cuda:0", "device must be auto, cpu or cuda on a cluster, which chooses the GPU, got 'cuda:0'"),
        ([(0, 0)], "auto", "no machine of the cluster has a CPU"),
    ],
)
def test_a_device_that_no_machine_has_is_refused(
    monkeypatch: pytest.MonkeyPatch, machines_there: list[tuple[int, int]], device: str, message: str
) -> None:
    found = tuple(Machine("one", *size) for size in machines_there)
    monkeypatch.setattr(Cluster, "machines", lambda self: found)
    with pytest.raises(SettingsError, match=message):
        Cluster(None).needs(device)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("n_processes", "left", "message"),
    [
        (
            1,
            [(4, 0)],
            "the cluster does not have 2 CPUs and 1 GPU now; waiting for a machine, and what has",
        ),
        (3, [(4, 2)], "the cluster does not have 3 times 2 CPUs and 1 GPU now; waiting for a machine"),
        (3, [(4, 2), (4, 1)], ""),
    ],
)
def test_what_waits_for_a_lost_machine_says_so_once(
    monkeypatch: pytest.MonkeyPatch, n_processes: int, left: list[tuple[int, int]], message: str
) -> None:
    monkeypatch.setattr(Cluster, "machines", lambda self: tuple(Machine("one", *size) for size in left))
    room = Room(Cluster(None), Needs(2, 1), n_processes)  # type: ignore[arg-type]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        room.look()
        room.look()
    assert [str(one.message)[: len(message)] for one in said] == ([message] if message else [])


def test_a_processor_without_bfloat16_is_told_of_where_it_is_a_machine_of_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Cluster, "results", lambda self, function, tasks, needs: iter([(0, function(*tasks[0]))]))
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    monkeypatch.setattr(on_cluster, "slow_note", lambda device: f"fast: this {device} is slow")
    assert OnCluster(Cluster(None), Needs(1, 0), 1).slow_note() == "fast: this cpu is slow"  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="the machine that asks must have no GPU")
def test_the_machine_that_asks_needs_no_gpu_itself(machines: Machines, tmp_path: Path) -> None:
    """One that joins says it has one. That it has none is found by a training there, not by who asks."""
    on_gpus: dict[str, Any] = {"device": "cuda", "cluster": machines.address}
    with pytest.raises(SettingsError, match="no machine of the cluster has a GPU, of 2"):
        hba.evaluate(INVERT, tiny_data(), **{**SETTINGS, **on_gpus})
    machines.all.add_node(num_cpus=1, num_gpus=1, object_store_memory=80_000_000)
    with pytest.raises(SettingsError, match="device 'cuda' cannot be used"):
        hba.evaluate(INVERT, tiny_data(), **{**SETTINGS, **on_gpus})
    with pytest.raises(SettingsError, match="device 'cuda' cannot be used"):
        repeated_search("digits", seeds=2, out=tmp_path / "found", epochs=1, **on_gpus)
    assert not list((tmp_path / "found").glob("*")), "nothing is left where nothing was found"


def test_two_workplaces_at_once_are_refused_before_anything_is_read() -> None:
    with pytest.raises(SettingsError, match="omit jobs, got 2"):
        hba.evaluate(INVERT, "no/such/folder", jobs=2, cluster="auto")


def test_processes_of_a_training_are_for_a_cluster() -> None:
    with pytest.raises(SettingsError, match=r"^gpus_per_training is for a cluster; .* start hba evaluate by"):
        hba.evaluate(INVERT, "no/such/folder", gpus_per_training=2)
    with pytest.raises(SettingsError, match="gpus_per_training must be at least 1, got 0"):
        hba.evaluate(INVERT, "no/such/folder", cluster="auto", gpus_per_training=0)


def test_machines_with_another_version_are_refused() -> None:
    assert do_alike(max, versions(), 1, 2) == 2
    with pytest.raises(RunError, match=r"^all machines of a cluster need the same versions, but .* has hba-augment"):
        do_alike(max, {**versions(), "hba-augment": "0.0.1"}, 1, 2)


def test_devices_of_two_kinds_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    class Rays:
        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: self

    trainings: Any = [type("T", (), {"contender": None})()] * 2
    monkeypatch.setattr(on_cluster, "packed_training", lambda *_: b"")
    monkeypatch.setattr(on_cluster, "_on_this_machine", lambda _: None)
    monkeypatch.setattr(Cluster, "results", lambda *_: iter([(0, ("a", "H100")), (1, ("b", "A100"))]))
    rays: Any = Rays()
    monkeypatch.setattr(Rays, "remote", lambda self, *_, **__: lambda *_: self, raising=False)
    found: Any = on_cluster.over_machines(
        Cluster(rays),
        Needs(1, 0),
        1,
        trainings,
        tiny_data(),
        lambda: None,
        lambda _: None,  # type: ignore
    )
    with pytest.warns(UserWarning, match=r"different kinds of devices \(H100, A100\)"):
        assert [ended for _, ended in found] == ["a", "b"]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", r"^no Ray cluster answers at 127.0.0.1:1 \(Connection refused\); start one by `ray start"),
        ("head", r"^cluster must be auto, or the address HOST:PORT of a Ray cluster, got 'head'$"),
    ],
)
def test_no_cluster_at_the_address_is_one_line(address: str, message: str) -> None:
    pytest.importorskip("ray", reason="needs the extra cluster")
    with pytest.raises(HbaError, match=message), connected(address):
        pass


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(SettingsError, match=r"^a cluster needs ray: pip install 'hba-augment\[cluster\]'$"),
        connected("auto"),
    ):
        pass
