"""Problems that can be solved exactly: tests/exact has them; here are their runs, their table and their picture."""

import sys
from pathlib import Path

TESTS = str(Path(__file__).parents[2] / "tests")
if TESTS not in sys.path:
    sys.path.append(TESTS)
