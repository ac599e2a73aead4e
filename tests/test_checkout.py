"""Python started in a checkout, whose hba/ stands before an installed package and has
cli/ and policies/ beside it.
"""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import hba

CHECKOUT = Path(__file__).parents[1]
WITHOUT_EDITABLE_INSTALL = (
    "import sys; sys.meta_path[:] = [finder for finder in sys.meta_path if 'editable'"
    " not in str(finder)]"
)
PROGRAM = f"""
{WITHOUT_EDITABLE_INSTALL}
import runpy
import hba, hba.cli
print(hba.__file__)
print(hba.cli.__file__)
from hba.schedule.library import shipped_schedules
print([(policy["name"], policy["epochs"]) for policy in shipped_schedules()])
sys.argv = ["hba", "--version"]
runpy.run_module("hba", run_name="__main__")
"""


def test_a_checkout_finds_its_schedules_and_its_commands() -> None:
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH"
    }
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        command,
        cwd=CHECKOUT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    library, commands, schedules, version = done.stdout.splitlines()
    assert Path(library) == CHECKOUT / "hba" / "__init__.py"
    assert Path(commands) == CHECKOUT / "cli" / "__init__.py"
    policies = [
        (file.stem, json.loads(file.read_text("utf-8"))["epochs"])
        for file in sorted(CHECKOUT.glob("policies/*.json"))
    ]
    assert ast.literal_eval(schedules) == policies
    assert version == f"hba, version {hba.__version__}"
