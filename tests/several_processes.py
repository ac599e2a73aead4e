"""Work that one process does, and several processes share, in double precision."""

import faulthandler
import multiprocessing
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.distributed as dist
from search_problems import WithDropout, small_data, small_images, small_settings
from torch import Tensor, nn
from torch.multiprocessing.spawn import start_processes

import hba
from hba.data import EvaluationData, LabelledImages, SearchData
from hba.data.images import Images
from hba.distributed.collectives import SECONDS_TO_LET_GO, joined
from hba.distributed.process_info import rank
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule
from hba.training.augmentation import Augment
from hba.utils import tensors

SECONDS_AT_MOST = 1200
"""For the work of one process."""
Work = Callable[[], Any]
Found = dict[str, Tensor]


def larger_data() -> SearchData:
    """Of 16x16 pixels, of which random crops are resized."""

    def larger(found: LabelledImages) -> LabelledImages:
        return replace(found, images=found.images.repeat(1, 1, 2, 2))

    return SearchData(
        "small",
        ("left", "right"),
        larger(small_images(24, seed=0)),
        larger(small_images(16, seed=1)),
    )


EVALUATION = "an evaluation"
COLORFUL = {
    "flip": True,
    "crop_padding": 1,
    "cutout_size": 3,
    "color_jitter": 0.4,
    "pca_jitter": 0.1,
}
TUNED = {"tune": "augmentation,dropout,weight-decay,input-dropout,label-smoothing"}
CASES: Mapping[str, Mapping[str, Any]] = {
    "lookahead": {},
    "lookahead-one-draw": {"reward_draws": 1, **COLORFUL},
    "lookahead-resized-crops": {"data": larger_data, "random_resized_crop": True},
    "lookahead-dropout": {"network": WithDropout},
    "hba": {"algorithm": "hba"},
    "hba-centered": {
        "algorithm": "hba",
        "response": "centered",
        "sharing": "conv+bn",
        "sigma_entropy": 0.01,
    },
    "hba-separate": {"algorithm": "hba", "response": "separate"},
    "joint": {"algorithm": "joint", **TUNED},
    "stn": {
        "algorithm": "stn",
        "tune": "augmentation,dropout",
        "space": "stn",
        "model": "mlp-8",
    },
    "delta-stn": {
        "algorithm": "delta-stn",
        "tune": "dropout,weight-decay,input-dropout",
        "model": "mlp-8",
    },
}
"""By name, settings of small searches; network is a class of one, data a function that
makes the images.
"""


def searched(case: str) -> Found:
    """Everything that a search comes to, by name."""
    settings = dict(CASES[case])
    network: type[nn.Module] | None = settings.pop("network", None)
    data: SearchData = settings.pop("data", small_data)()
    # The first process's weights count.
    torch.manual_seed(rank())
    own = None if network is None else network()
    result = hba.search(data, network=own, **small_settings(epochs=2, **settings))
    assert result.schedule is not None
    metrics = [
        [value for name, value in row.items() if name != "seconds"]
        for row in result.metrics
    ]
    return {
        "values": torch.tensor(result.schedule.values),
        "lam": result.lam,
        "metrics": torch.tensor(
            [[0.0 if value is None else value for value in row] for row in metrics]
        ),
        **{
            name: tensor.double()
            for name, tensor in result.network.state_dict().items()
        },
    }


def evaluated() -> Found:
    """Test losses of an evaluation, row by row, and what its confusions count."""
    space = SearchSpace((OPERATIONS["Rotate"], OPERATIONS["Solarize"]))
    middle = space.decode(torch.zeros(space.n)).double().numpy()
    schedule = Schedule(
        space, np.stack([middle, middle / 2]), spread=np.full((2, space.n), 0.5)
    )
    data = EvaluationData(
        "tiny", ("left", "right"), small_images(24, seed=0), small_images(90, seed=1)
    )
    found = hba.evaluate(
        schedule,
        data,
        against=["none", "static", "trivialaugment", "randaugment", Noise()],
        model="wrn-10-1",
        image_size=8,
        epochs=2,
        batch_size=8,
        seeds=2,
        device="cpu",
        **cast(Any, COLORFUL),
    )
    losses = torch.tensor([row.test_loss for row in found.rows], dtype=torch.float64)
    return {
        "losses": losses,
        "errors": torch.tensor([row.test_error_percent for row in found.rows]),
    }


class Noise:
    """An augmentation that knows nothing of processes."""

    definition = "noise"

    def by_epoch(self, epochs: int, train: Images) -> Sequence[Augment]:
        return [self._add] * epochs

    def _add(self, images: Tensor, generator: torch.Generator) -> Tensor:
        return (images + 0.1 * torch.randn(images.shape, generator=generator)).clamp(
            0, 1
        )


def all_cases() -> dict[str, Found]:
    return {**{case: searched(case) for case in CASES}, EVALUATION: evaluated()}


def start(n_processes: int, function: Callable[..., None], *arguments: Any) -> None:
    """Call the function in so many new processes, with the number of each before the
    arguments, until all have ended.

    They are quick where they can be, as in conftest.py.
    """
    quick = (
        "forkserver"
        if "forkserver" in multiprocessing.get_all_start_methods()
        else "spawn"
    )
    start_processes(function, arguments, n_processes, start_method=quick)


def shared_by(n_processes: int, work: Work, folder: Path) -> list[Any]:
    """What each process makes of the work that they share. folder: a new one."""
    folder.mkdir()
    start(n_processes, _work, n_processes, work, folder)
    return [
        pickle.loads((folder / f"{rank}.pickle").read_bytes())
        for rank in range(n_processes)
    ]


def _work(number: int, n_processes: int, work: Work, folder: Path) -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    tensors.PRECISION = "float64"
    # What waits for ever says where.
    faulthandler.dump_traceback_later(SECONDS_AT_MOST, exit=True)
    store = f"file://{folder / 'store'}"
    dist.init_process_group(
        "gloo", init_method=store, rank=number, world_size=n_processes
    )
    with joined():
        (folder / f"{number}.pickle").write_bytes(pickle.dumps(work()))
    time.sleep(SECONDS_TO_LET_GO)
    dist.destroy_process_group()
