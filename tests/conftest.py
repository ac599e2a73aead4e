"""Settings for all tests."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Networks this small only wait for each other's threads; one is several times faster on busy cores."""
    torch.set_num_threads(1)
