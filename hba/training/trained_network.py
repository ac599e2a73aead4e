"""The saved network of a run: network.pt, which needs only PyTorch, and network.json,
which describes it.
"""

import contextlib
import io
import itertools
import json
import logging
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import PIL.Image
import PIL.ImageOps
import pydantic
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hba.config.evaluation import EvaluationConfig
from hba.data.images import UNSCALED, EvaluationData, Scale, checked_images
from hba.data.loader import as_floats
from hba.data.reading import (
    fitted,
    fitted_whole,
    printable,
    read_image,
    upright_size,
    without_margins,
)
from hba.errors import DataError, HbaWarning, RunError, SettingsError
from hba.preprocessing import Baseline, Preprocessing
from hba.schedule.file import problem_of
from hba.tasks import IMAGE_TASKS, ImageTask, task_of
from hba.tasks.task import ImageTaskName
from hba.training.custom_network import CustomNetwork, Given
from hba.training.metrics import Measured, measure_batch_size
from hba.utils.devices import VERSION, version_of
from hba.utils.files import (
    load_tensors,
    read_text,
    reason_of,
    run_of,
    write_atomically,
    write_text,
)

NETWORK_NAME = "network.pt"
INFO_NAME = "network.json"
COLOR = 3
"""Channels of images that are read from files."""


class NetworkInfo(pydantic.BaseModel, frozen=True):
    """The content of network.json, which describes network.pt."""

    format_version: Literal[1] = 1
    format: Literal["export", "state dict"] = "export"
    """`export` for a program of torch.export, `state dict` for the weights of a network
    that it cannot write.
    """
    model: str
    """Its name, or the class of the user's own network."""
    classes: tuple[str, ...]
    """Their names, or one name for what numbers mean."""
    scale: Scale = UNSCALED
    """The scale of numbers as labels."""
    image_size: int
    """Side of images in pixels."""
    input_size: int
    """Side of their center in pixels, which the network takes."""
    channels: int
    mean: tuple[float, ...]
    """By channel, in [0, 1]."""
    std: tuple[float, ...]
    """By channel, in [0, 1]."""
    task: ImageTaskName
    levels: tuple[float, float] | None
    """As in the settings."""
    test_error_percent: float
    test_images: int
    policy: str
    """The row of the evaluation."""
    seed: int
    epochs: int
    hba: str = VERSION
    """Version of hba."""
    torch: str | None = version_of("torch")
    """Version of PyTorch."""


class FromPixels(nn.Module):
    """A network with its standardization.

    It maps images uint8 (N, C, S, S) to logits (N, classes), to (N, classes, S, S) for
    masks, or to numbers (N, 1) in their own unit.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, info: NetworkInfo) -> None:
        super().__init__()
        self.network = network
        self.input_size = info.input_size
        self.scale = info.scale
        self.register_buffer("mean", torch.tensor(info.mean)[None, :, None, None])
        self.register_buffer("std", torch.tensor(info.std)[None, :, None, None])
        # Measuring depends on nothing else: it replaces a random resized crop by a
        # center crop.
        self.baseline = Baseline(random_resized_crop=info.input_size != info.image_size)

    def forward(self, images: Tensor) -> Tensor:
        preprocessing = Preprocessing(
            self.mean, self.std, self.baseline, self.input_size
        )
        logits: Tensor = self.network(preprocessing.measure(as_floats(images)))
        return logits if self.scale == UNSCALED else self.scale.numbers(logits)


class KeptNetwork(NamedTuple):
    """The network of a training, as bytes that any process can write."""

    content: bytes
    """Of network.pt."""
    info: NetworkInfo
    """Of network.json."""
    problem: str = ""
    """Why it is a state dict, if it is one."""

    @staticmethod
    def of(
        network: nn.Module,
        test: Measured,
        data: EvaluationData,
        config: EvaluationConfig,
        **training: Any,
    ) -> "KeptNetwork":
        """Export a network, which is moved to the CPU.

        Args:
            network: The trained network.
            test: Its errors on the test split.
            data: Of the training.
            config: Of the training.
            training: Its model, policy and seed.
        """
        prepared = Preprocessing.of(
            data.train, config.baseline_augmentation(), config.colors_of_network()
        )
        images = data.test.opened()
        info = NetworkInfo(
            classes=tuple(map(printable, data.class_names)),
            scale=data.scale,
            image_size=data.train.image_size,
            input_size=prepared.image_size,
            channels=data.train.n_channels,
            mean=tuple(prepared.mean.flatten().tolist()),
            std=tuple(prepared.std.flatten().tolist()),
            task=task_of(data.train.labels).name,
            levels=config.levels,
            test_error_percent=test.error_percent,
            test_images=len(images),
            epochs=config.epochs,
            **training,
        )
        module = FromPixels(network.cpu(), info).eval().requires_grad_(False)
        ((some, _),) = images.read(
            [torch.arange(min(3, len(images)), device=images.device)]
        )
        try:
            return KeptNetwork(exported(module, some.cpu(), info.scale.std), info)
        except Exception as error:
            # PyTorch raises errors of many kinds for what it cannot export.
            content = io.BytesIO()
            torch.save(network.state_dict(), content)
            return KeptNetwork(
                content.getvalue(),
                info.model_copy(update={"format": "state dict"}),
                reason_of(error),
            )

    def save(self, folder: Path) -> None:
        """Write network.pt and then network.json, each whole or not at all.

        An HbaWarning for a state dict.
        """
        write_atomically(folder / NETWORK_NAME, lambda file: file.write(self.content))
        write_text(
            folder / INFO_NAME, json.dumps(self.info.model_dump(), indent=2) + "\n"
        )
        if self.problem:
            message = (
                f"torch.export cannot write this network ({self.problem});"
                f" {NETWORK_NAME} has its state dict"
            )
            warnings.warn(message, HbaWarning, stacklevel=2)


def is_kept(folder: Path) -> bool:
    return (folder / NETWORK_NAME).is_file() and (folder / INFO_NAME).is_file()


def exported(module: nn.Module, some: Tensor, unit: float = 1.0) -> bytes:
    """Export a module in eval mode on the CPU, for any number of images.

    Raises exceptions of any kind.

    Args:
        module: Maps images uint8 (N, C, S, S) to logits.
        some: A few images uint8 (n, C, S, S), for which the program must compute the
            same.
        unit: Of the outputs: a thousandth of it is no difference.

    Returns:
        The program as torch.export.save writes it.
    """
    content = io.BytesIO()
    batch = {0: torch.export.Dim("N", min=1)}
    with contextlib.ExitStack() as stack:
        # Without what PyTorch prints and logs of a network that it cannot export: its
        # whole graph.
        stack.enter_context(torch.no_grad())
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable()
        warnings.simplefilter("ignore")
        example = torch.zeros_like(some[:1]).repeat(2, 1, 1, 1)
        program = torch.export.export(
            module, (example,), dynamic_shapes=(batch,), strict=False
        )
        graphs = [
            submodule.graph
            for submodule in program.graph_module.modules()
            if isinstance(submodule, torch.fx.GraphModule)
        ]
        for node in (node for graph in graphs for node in graph.nodes):
            # It holds paths of files.
            node.meta.pop("stack_trace", None)
            if node.target is torch.ops.aten._assert_tensor_metadata.default:
                # The program may be moved to another device; other types than uint8
                # stay refused.
                node.kwargs = {**node.kwargs, "device": None}
        torch.export.save(program, content)
        expected = module(some)
        run = program.module()
        together = run(some)
        alone = torch.cat([run(image[None]) for image in some])
        if not all(
            torch.allclose(outputs, expected, rtol=1e-3, atol=1e-3 * unit)
            for outputs in (together, alone)
        ):
            raise ValueError("the exported program computes something else")
    return content.getvalue()


@dataclass(frozen=True, repr=False)
class TrainedNetwork:
    """A network on the CPU."""

    info: NetworkInfo
    """The content of network.json."""
    module: Callable[[Tensor], Tensor]
    """From images uint8 (N, C, S, S) to logits (N, classes) or (N, classes, S, S), or
    to numbers (N, 1) in their own unit.
    """

    def __repr__(self) -> str:
        info = self.info
        size = f"{self.info.image_size}x{self.info.image_size}"
        error = f"test error {info.test_error_percent:.2f} %"
        answers = f"{len(self.classes)} classes"
        if self.task.has_numbers:
            answers = f"numbers of {self.classes[0]}"
        return f"TrainedNetwork({info.model}, {answers}, {size}, {error})"

    @property
    def task(self) -> ImageTask:
        """What the network has learned."""
        return IMAGE_TASKS[self.info.task]

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the probabilities."""
        return self.info.classes

    def read(self, image: str | Path | PIL.Image.Image) -> Tensor:
        """Read an image file or a PIL image as uint8 (3, S, S), as evaluations do.

        Raises:
            DataError: If it cannot be read.
        """
        if self.info.channels != COLOR:
            raise DataError(
                f"the network takes images of {self.info.channels} channels; give them"
                " as a tensor"
            )
        fit = fitted_whole if self.task.has_masks else fitted
        size = self.info.image_size
        if isinstance(image, PIL.Image.Image):
            upright = PIL.ImageOps.exif_transpose(image)
            return fit(upright, size, self.info.levels)
        return read_image(Path(image), size, self.info.levels, fit)

    @torch.no_grad()
    def predict(self, images: Any) -> Tensor:
        """Predict probabilities (N, classes) in [0, 1], or (N, classes, S, S) for
        masks; or numbers (N, 1) in their own unit.

        Probabilities sum to 1 over the classes, unless images have several labels.

        Args:
            images: An image, or a list or any iterable of images, which is read in
                batches. An image is a path, a PIL image, or a tensor or array as `read`
                returns it: uint8 (C, S, S), or (S, S, C), or floating point in [0, 1].
                A tensor or array may also be a batch (N, C, S, S). A single channel is
                repeated for a network of color images.

        Raises:
            DataError: For anything else, for another size, and for unreadable files.
        """
        size_in_pixels = self.info.image_size
        size = measure_batch_size(size_in_pixels, has_masks=self.task.has_masks)
        if isinstance(images, Tensor) or (
            isinstance(images, np.ndarray) and images.dtype.kind not in "OUS"
        ):
            batches: Iterable[Tensor] = self._pixels(images).split(size)
        elif isinstance(images, str | Path | PIL.Image.Image) or not isinstance(
            images, Iterable
        ):
            batches = [self._read(images)]
        else:
            remaining = iter(images)

            def read_batch() -> list[Tensor]:
                return [
                    self._read(image) for image in itertools.islice(remaining, size)
                ]

            batches = map(torch.cat, iter(read_batch, []))
        none = torch.zeros(self.task.output_shape(0, len(self.classes), size_in_pixels))
        logits = torch.cat([none, *map(self.module, batches)])
        return self.task.probabilities(logits)

    def mask(self, image: str | Path | PIL.Image.Image) -> np.ndarray:
        """Predict the class of each pixel of an image, at its own size.

        Args:
            image: A path or a PIL image.

        Returns:
            uint8 (H, W).

        Raises:
            DataError: If the image cannot be read.
            SettingsError: For a network without masks.
        """
        if not self.task.has_masks:
            raise SettingsError(
                "this network predicts classes of images, not masks; use predict"
            )
        if isinstance(image, PIL.Image.Image):
            upright = PIL.ImageOps.exif_transpose(image).size
        else:
            upright = upright_size(Path(image))
        inner = without_margins(self.predict(self.read(image)), upright)
        width, height = upright
        enlarged = F.interpolate(inner, (height, width), mode="bilinear")
        answers: np.ndarray = enlarged[0].argmax(0).byte().numpy()
        return answers

    def _read(self, image: Any) -> Tensor:
        """One image as a batch of one."""
        if isinstance(image, Tensor | np.ndarray) and image.ndim in (2, 3):
            return self._pixels(image)
        if not isinstance(image, str | Path | PIL.Image.Image):
            got = tuple(getattr(image, "shape", ())) or type(image).__name__
            raise DataError(
                "an image must be a path, a PIL image, or a tensor or array of one"
                f" image, got {got}"
            )
        try:
            return self.read(image)[None]
        except (
            Exception
        ) as error:  # PIL raises anything for a broken image that is not loaded yet.
            raise DataError(
                f"cannot read the image {image}: {reason_of(error)}; leave it out"
            ) from None

    def _pixels(self, images: Tensor | np.ndarray) -> Tensor:
        """One image, (H, W), (C, H, W) or (H, W, C), or a batch of them as uint8 (N, C,
        S, S) on the CPU.
        """
        tensor = checked_images(images if images.ndim > 3 else images[None]).cpu()
        side = self.info.image_size
        channels = self.info.channels
        tensor = (
            tensor.repeat(1, COLOR, 1, 1)
            if (tensor.shape[1], channels) == (1, COLOR)
            else tensor
        )
        if tensor.shape[1:] != (channels, side, side):
            rule = (
                f"(N, {channels}, {side}, {side}), or without N for one image, or (N,"
                f" 1, {side}, {side}) if grey"
            )
            raise DataError(
                f"images must have the shape {rule}, got {tuple(images.shape)}"
            )
        return tensor


def load_network(run: str | Path, *, network: Given | None = None) -> TrainedNetwork:
    """Load the network that a command has saved in the folder of a run.

    The commands are `hba auto`, `hba train` and `hba evaluate --keep-network`. Only
    load files of people that you trust: torch.export.load may run code in a file.

    Args:
        run: The folder, or one of its files.
        network: Your own network, if torch.export could not write it and network.pt
            holds its state dict.

    Raises:
        RunError: If the folder holds no network, or its files are broken or of another
            version.
        SettingsError: Without `network`, if it is needed.
    """
    folder = run_of(run)
    path = folder / NETWORK_NAME
    described = folder / INFO_NAME
    if not is_kept(folder):
        problem = f"has no {NETWORK_NAME}" if folder.exists() else "does not exist"
        raise RunError(
            f"{folder} {problem}; make one with a network: hba train POLICY DIR --out"
            " RUN"
        )
    try:
        info = NetworkInfo.model_validate_json(read_text(described))
    except (OSError, ValueError) as error:
        raise RunError(
            f"{described} must be of this version of hba, {VERSION}:"
            f" {problem_of(error)}"
        ) from None
    if info.format == "export":
        try:
            # For a path that does not end in .pt2, PyTorch would print a warning.
            with path.open("rb") as file:
                return TrainedNetwork(info, torch.export.load(file).module())
        except Exception as error:  # A broken file can make the reader raise anything.
            raise RunError(
                f"{path} cannot be read ({reason_of(error)}); torch {info.torch}"
                " wrote it"
            ) from None
    if network is None:
        raise SettingsError(
            f"{path} holds a state dict: use hba.load_network(RUN,"
            " network=YOUR_NETWORK) in Python"
        )
    module = CustomNetwork(network).fresh(info.seed, 0)
    try:
        module.load_state_dict(load_tensors(path))
    except RuntimeError as error:
        raise RunError(
            f"the weights in {path} do not fit the network ({reason_of(error)})"
        ) from None
    return TrainedNetwork(info, FromPixels(module, info).eval())
