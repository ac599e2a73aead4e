"""A plugin of pytest: files of tests in a random order, and the tests of each.
RANDOM_ORDER is the seed.
"""

import os
import random

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = random.Random(os.environ["RANDOM_ORDER"])
    order.shuffle(items)
    # The tests of a file stay together, because they share what its fixtures have made.
    files = sorted({item.path for item in items})
    order.shuffle(files)
    items.sort(key=lambda item: files.index(item.path))
