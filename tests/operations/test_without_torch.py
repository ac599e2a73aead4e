"""The facts about operations are known without PyTorch, so that they can be printed at once."""

import subprocess
import sys

from hba.policy.spaces import HEADINGS, SPACES, as_markdown, magnitude_table

SLOW = ("torch", "torchvision", "kornia", "numpy", "scipy", "matplotlib")


def test_facts_import_nothing_slow() -> None:
    code = (
        "import hba.operations.registration, hba.policy.spaces\n"
        "from hba.policy.spaces import search_space\nprint(search_space('pba', ['Rotate'], 'bilinear').ranges[1])\n"
        "from hba.policy.spaces import HEADINGS, SPACES, as_markdown, magnitude_table\n"
        "print(as_markdown(HEADINGS, magnitude_table(SPACES['pba'])))\n"
        f"import sys\nprint([name for name in {SLOW} if name in sys.modules])\n"
        "import hba.operations.apply\nprint('torch' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    table = as_markdown(HEADINGS, magnitude_table(SPACES["pba"]))
    assert printed == f"(0.0, 30.0)\n{table}\n[]\nTrue\n"
