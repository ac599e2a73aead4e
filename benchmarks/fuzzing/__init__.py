"""Input that nobody should give: how much of it was tried, and what came of it."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[2] / "tests"
if str(TESTS) not in sys.path:
    sys.path.append(str(TESTS))
