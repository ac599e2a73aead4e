"""Images of two labels: scikit-learn's handwritten digits side by side, the label of a pair is both digits."""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

N_CLASSES = 10


def pairs(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """uint8 (n, 16, 16) and 0 or 1 (n, 10); one in eight is noise and has no label."""
    digits = load_digits()
    levels = np.round(digits.images * (255 / 16)).astype(np.uint8)
    random = np.random.default_rng(seed)
    chosen = random.integers(0, len(levels), (n, 2))
    images = np.zeros((n, 16, 16), np.uint8)
    images[:, 4:12, :8], images[:, 4:12, 8:] = levels[chosen[:, 0]], levels[chosen[:, 1]]
    labels = np.zeros((n, N_CLASSES), np.int64)
    labels[np.arange(n)[:, None], digits.target[chosen]] = 1
    images[::8], labels[::8] = random.integers(0, 256, images[::8].shape), 0
    return images, labels


def pairs_file(folder: Path, n: int) -> Path:
    images, labels = pairs(n)
    np.savez(folder / "pairs.npz", images=images, labels=labels)
    return folder / "pairs.npz"
