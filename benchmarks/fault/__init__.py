"""What goes wrong around a run: each fault is made on purpose, and the run must lose nothing by it."""

import sys
from pathlib import Path

TESTS = str(Path(__file__).parents[2] / "tests")
if TESTS not in sys.path:
    sys.path.append(TESTS)
