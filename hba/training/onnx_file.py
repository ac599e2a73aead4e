"""network.onnx: a saved network in the format ONNX, if the packages onnx and onnxscript
are installed.
"""

import contextlib
import functools
import io
import warnings
from importlib.util import find_spec
from pathlib import Path

import torch

from hba.training.trained_network import NETWORK_NAME, load_network
from hba.utils.files import reason_of, write_atomically

ONNX_NAME = "network.onnx"
TOLERANCE = 1e-5
"""Largest difference of a probability, or of a number in standard deviations."""


@functools.cache
def can_write_onnx() -> bool:
    """Whether the packages that write network.onnx are installed."""
    return find_spec("onnx") is not None and find_spec("onnxscript") is not None


def write_onnx(folder: str | Path) -> str | None:
    """Write network.onnx next to network.pt, which takes about 20 seconds; return why
    if that is not possible.

    It takes images uint8 (N, C, S, S) for any N, and returns what network.pt returns.
    It is checked on two images of noise.

    Args:
        folder: The folder of a run, which contains network.pt.
    """
    if not can_write_onnx():
        return f"No {ONNX_NAME}: it needs the packages onnx and onnxscript"
    folder = Path(folder)
    from onnx.reference import ReferenceEvaluator

    try:
        network = load_network(folder)
        info = network.info
        # PyTorch prints its progress.
        with (
            contextlib.redirect_stdout(io.StringIO()),
            warnings.catch_warnings(),
            torch.no_grad(),
        ):
            warnings.simplefilter("ignore")
            with (folder / NETWORK_NAME).open("rb") as file:
                program = torch.export.load(file)
            onnx_program = torch.onnx.export(program, dynamo=True, verbose=False)
            assert onnx_program is not None
            model = onnx_program.model_proto
            shape = (2, info.channels, info.image_size, info.image_size)
            images = torch.randint(
                0,
                256,
                shape,
                dtype=torch.uint8,
                generator=torch.Generator().manual_seed(0),
            )
            (logits,) = ReferenceEvaluator(model).run(
                None, {model.graph.input[0].name: images.numpy()}
            )
            actual = network.task.probabilities(torch.from_numpy(logits))
            expected = network.task.probabilities(program.module()(images))
        difference = float((actual - expected).abs().max()) / info.scale.std
        # Numbers are rounded to single precision.
        rounding = 2 * torch.finfo().eps * abs(info.scale.mean) / info.scale.std
        if difference > TOLERANCE + rounding:
            raise ValueError(f"its answers differ by {difference:.1e}")
        write_atomically(
            folder / ONNX_NAME, lambda file: file.write(model.SerializeToString())
        )
    except Exception as error:
        # PyTorch raises errors of many kinds for what it cannot export.
        return f"No {ONNX_NAME}: {reason_of(error)}"
    return None
