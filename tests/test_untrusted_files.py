"""Nothing in a file that people exchange can run code: no pickle is read, and checkpoints hold tensors and numbers."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = [file for folder in ("hba", "cli") for file in sorted((ROOT / folder).rglob("*.py"))]
RUNS_CODE = {
    *("pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.load", "marshal.loads", "shelve.open", "joblib.load"),
    *("yaml.load", "yaml.unsafe_load", "torch.jit.load", "eval", "exec", "os.system"),
    *("torch.hub.load", "pandas.read_pickle", "pd.read_pickle", "dill.load", "dill.loads"),
}
ALLOWED = {("executor.py", "pickle.loads"), ("check.py", "exec")}
"""A task that this process's own parent has packed, through a pipe or a Ray cluster, which runs what it is sent; and
code that hba itself has just written, with nothing in it of a schedule's words but letters, digits and .,:/()-.
"""


def calls_in(source: str) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def loads_anything(call: ast.Call) -> bool:
    """Whether a torch.load would run what a file asks for."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}.get("weights_only")
    return not (isinstance(given, ast.Constant) and given.value is True)


def allows_pickle(call: ast.Call) -> bool:
    """Whether NumPy would; by itself it does not."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}.get("allow_pickle", ast.Constant(False))
    return not (isinstance(given, ast.Constant) and given.value is False)


def unsafe_calls(source: str) -> list[str]:
    found = [name for name, _ in calls_in(source) if name in RUNS_CODE]
    found += [name for name, call in calls_in(source) if name in ("np.load", "numpy.load") and allows_pickle(call)]
    return found + [name for name, call in calls_in(source) if name == "torch.load" and loads_anything(call)]


def test_no_file_is_read_that_can_run_code() -> None:
    found = [(file.name, name) for file in FILES for name in unsafe_calls(file.read_text(encoding="utf-8"))]
    assert [call for call in found if call not in ALLOWED] == []


def test_no_reader_is_imported_by_its_bare_name() -> None:
    """The test above knows them by their modules."""
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert {f"{node.module}.{alias.name}" for alias in node.names}.isdisjoint(
                    RUNS_CODE | {"torch.load"} - {"eval", "exec"}
                ), file
