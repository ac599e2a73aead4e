"""The linear layer of tasks with classes."""

from typing import Any

import numpy as np
from torch import Tensor

PENALTIES = (10.0, 100.0, 1000.0, 10000.0)
"""Penalties of the squared weights; the one with the lowest error is taken."""


def ridge_classifier(features: np.ndarray, labels: Tensor) -> Any:
    """Fit scikit-learn's ridge classifier to standardized features.

    Args:
        features: Features of images (N, n).
        labels: Labels int64 (N,) or bool (N, classes).

    Returns:
        A fitted pipeline of scikit-learn.
    """
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    layer = make_pipeline(StandardScaler(), RidgeClassifierCV(PENALTIES))
    return layer.fit(features, labels.cpu().numpy().astype(np.int64))
