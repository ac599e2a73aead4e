"""Nothing in a file that people exchange can run code: no pickle is read, and
checkpoints hold tensors and numbers.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = [
    file for folder in ("hba", "cli") for file in sorted((ROOT / folder).rglob("*.py"))
]
RUNS_CODE = {
    *(
        "pickle.load",
        "pickle.loads",
        "pickle.Unpickler",
        "marshal.load",
        "marshal.loads",
        "shelve.open",
        "joblib.load",
    ),
    *("yaml.load", "yaml.unsafe_load", "torch.jit.load", "eval", "exec", "os.system"),
    *(
        "torch.hub.load",
        "pandas.read_pickle",
        "pd.read_pickle",
        "dill.load",
        "dill.loads",
    ),
}
FROM_OWN_PROCESSES = ("executor.py", "ray_executor.py", "forks.py", "loader.py")
ALLOWED = {
    *((file, "pickle.loads") for file in FROM_OWN_PROCESSES),
    ("check.py", "exec"),
}
"""A task that this process's own parent has packed, or a batch from a process that it
has started, through a pipe or a Ray cluster, which runs what it is sent; and code that
hba itself has just written, with nothing in it of a schedule's words but letters,
digits and .,:/()-.
"""


def unsafe_calls(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            # A reader must be called by its module's name, so that it is seen here.
            imported = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from imported & (RUNS_CODE | {"torch.load"})
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            keywords = {
                keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords
            }
            allows_pickle = (
                name in ("np.load", "numpy.load")
                and keywords.get("allow_pickle", "False") != "False"
            )
            if (
                name in RUNS_CODE
                or allows_pickle
                or (name == "torch.load" and keywords.get("weights_only") != "True")
            ):
                yield name


def test_no_file_is_read_that_can_run_code() -> None:
    calls = [
        (file.name, name)
        for file in FILES
        for name in unsafe_calls(ast.parse(file.read_text("utf-8")))
    ]
    assert [call for call in calls if call not in ALLOWED] == []
