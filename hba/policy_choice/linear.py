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
from hba.data.labels import is_multi_label
from hba.data.loader import as_floats
from hba.errors import SettingsError
from hba.models import Start, build_model
from hba.models.timm_networks import timm_config
from hba.training.criterion import error_share
from hba.training.metrics import measure_batch_size

PENALTIES = (10.0, 100.0, 1000.0, 10000.0)
UNKNOWN = -10.0
"""The score of a class without training images."""


class FrozenFeatures:
    """The features of a pretrained network before its head, on a device. source: as the
    setting `pretrained`.
    """

    def __init__(
        self, model: str, source: str, side: int, device: torch.device
    ) -> None:
        self.model = model
        self.network: Any = (
            build_model(model, 2, 0, side, Start.of(model, source)).to(device).eval()
        )
        found = timm_config(model)
        self.mean, self.std = (
            torch.tensor(one, device=device)[:, None, None]
            for one in (found.mean, found.std)
        )

    @torch.no_grad()
    def of(self, images: LabelledImages) -> np.ndarray:
        """Features (N, n) of images in color. SettingsError if some are not finite."""
        found = []
        for batch, _ in images.once(measure_batch_size(images.image_size)):
            inputs = (as_floats(batch.to(self.mean.device)) - self.mean) / self.std
            features = self.network.forward_features(inputs)
            found.append(
                self.network.forward_head(features, pre_logits=True).float().cpu()
            )
        features = torch.cat(found)
        if not features.isfinite().all():
            raise SettingsError(
                f"the pretrained weights of {self.model} give features that are not"
                " finite; give others"
            )
        return features.numpy()


class LinearLayer:
    """A fitted layer. features (N, n), labels (N,) or bool (N, classes)."""

    def __init__(self, features: np.ndarray, labels: Tensor, n_classes: int) -> None:
        from sklearn.linear_model import RidgeClassifierCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        self.n_classes, self.is_multi_label = n_classes, is_multi_label(labels)
        self.layer = make_pipeline(StandardScaler(), RidgeClassifierCV(PENALTIES))
        self.layer.fit(features, labels.cpu().numpy().astype(np.int64))

    def scores(self, features: np.ndarray) -> Tensor:
        """Scores (N, classes); the largest one is the answer, or each above 0 for
        several labels.
        """
        found = torch.from_numpy(self.layer.decision_function(features)).float()
        if self.is_multi_label:
            return found
        found = (
            torch.stack([-found, found], dim=1)[:, -len(self.layer.classes_) :]
            if found.ndim == 1
            else found
        )
        scores = torch.full((len(found), self.n_classes), UNKNOWN)
        scores[:, torch.from_numpy(self.layer.classes_)] = found
        return scores


def cross_validated(
    features: np.ndarray, labels: Tensor, folds: Sequence[Tensor], n_classes: int
) -> tuple[Tensor, Tensor]:
    """Scores of all folds' images by layers fitted without theirs, and their labels."""
    scores = []
    for fold in folds:
        others = torch.ones(len(labels), dtype=torch.bool)
        others[fold] = False
        scores.append(
            LinearLayer(features[others.numpy()], labels[others], n_classes).scores(
                features[fold.numpy()]
            )
        )
    return torch.cat(scores), torch.cat([labels[fold] for fold in folds])


def tested(network: FrozenFeatures, data: EvaluationData) -> dict[str, float]:
    """Fit a layer to the training images, and measure it on the test images:
    test_percent, the error in per cent, balanced_percent, its mean over classes unless
    images have several labels, and seconds.
    """
    train, test, began = data.train, data.test.opened(), time.monotonic()
    assert isinstance(train, LabelledImages)
    assert isinstance(test, LabelledImages)
    scores = LinearLayer(network.of(train), train.labels, len(data.class_names)).scores(
        network.of(test)
    )
    found = {
        "test_percent": 100 * float(error_share(scores, test.labels)),
        "seconds": time.monotonic() - began,
    }
    if not is_multi_label(test.labels):
        wrong = (scores.argmax(1) != test.labels).float()
        of_classes = [wrong[test.labels == one].mean() for one in test.labels.unique()]
        found["balanced_percent"] = 100 * float(torch.stack(of_classes).mean())
    return {name: round(one, 2) for name, one in found.items()}
