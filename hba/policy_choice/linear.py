"""A linear layer on frozen features of a pretrained network, which costs one forward
pass over the images.

It is what a training has to beat, and its error tells which networks and image sizes
are worth a training. Features are standardized, and a ridge classifier of scikit-learn
chooses its penalty by leave-one-out. That is as accurate as logistic regression on the
features that we measured, and ten times as fast.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hba.data.images import EvaluationData, LabelledImages
from hba.data.loader import as_floats
from hba.errors import SettingsError
from hba.models import Start, build_model
from hba.models.timm_networks import timm_config
from hba.tasks import task_of
from hba.training.metrics import measure_batch_size

COLOR = 3
"""Channels of the images that weights were trained on."""


class FrozenFeatures:
    """The features of a pretrained network before its head, on a device. source: as the
    setting `pretrained`.
    """

    def __init__(
        self,
        model: str,
        source: str,
        side: int,
        device: torch.device,
        n_channels: int = COLOR,
    ) -> None:
        self.model = model
        self.device = device
        start = Start.of(model, source)
        network = build_model(model, 2, 0, side, start, n_channels)
        self.network: Any = network.to(device).eval()

    @torch.no_grad()
    def of(
        self, images: LabelledImages, train: LabelledImages | None = None
    ) -> np.ndarray:
        """Features (N, n) of images. SettingsError if some are not finite.

        Images of other than three channels are standardized by the mean and deviation
        of the training images, which are these images by default.
        """
        config = timm_config(self.model)
        colors = config.mean, config.std
        if images.n_channels != COLOR:
            colors = (train or images).mean_and_std()
        mean, std = (
            torch.tensor(values, device=self.device)[:, None, None] for values in colors
        )
        of_batches = []
        for batch, _ in images.once(measure_batch_size(images.image_size)):
            inputs = (as_floats(batch.to(self.device)) - mean) / std
            features = self.network.forward_features(inputs)
            pooled = self.network.forward_head(features, pre_logits=True)
            of_batches.append(pooled.float().cpu())
        features = torch.cat(of_batches)
        if not features.isfinite().all():
            raise SettingsError(
                f"the pretrained weights of {self.model} give features that are not"
                " finite; give others"
            )
        return features.numpy()


def cross_validated(
    features: np.ndarray, labels: Tensor, folds: Sequence[Tensor], n_classes: int
) -> tuple[Tensor, Tensor]:
    """Scores of the images in all folds, by layers that were fitted without theirs, and
    their labels.
    """
    task = task_of(labels)
    scores = []
    for fold in folds:
        is_fitted = torch.ones(len(labels), dtype=torch.bool)
        is_fitted[fold] = False
        layer = task.fit_linear(
            features[is_fitted.numpy()], labels[is_fitted], n_classes
        )
        scores.append(layer(features[fold.numpy()]))
    return torch.cat(scores), torch.cat([labels[fold] for fold in folds])


def tested(network: FrozenFeatures, data: EvaluationData) -> dict[str, float]:
    """Fit a layer to the training images, and measure it on the test images:
    test_percent, the error in per cent, balanced_percent, its mean over classes if an
    image has one, and seconds.
    """
    began = time.monotonic()
    train = data.train
    test = data.test.opened()
    assert isinstance(train, LabelledImages)
    assert isinstance(test, LabelledImages)
    task = task_of(train.labels)
    layer = task.fit_linear(network.of(train), train.labels, len(data.class_names))
    scores = layer(network.of(test, train))
    measured = {
        "test_percent": 100 * float(task.error_share(scores, test.labels)),
        "seconds": time.monotonic() - began,
    }
    if task.has_one_answer:
        wrong = task.statistics(scores, test.labels).float()
        classes = test.labels.unique()
        errors = torch.stack([wrong[test.labels == label].mean() for label in classes])
        measured["balanced_percent"] = 100 * float(errors.mean())
    return {name: round(value, 2) for name, value in measured.items()}
