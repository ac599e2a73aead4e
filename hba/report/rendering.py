"""Pages from the templates of this folder. Whatever comes from data is escaped."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
STYLE = "page.css"


def rendered(template: str, **values: Any) -> str:
    """Text that UTF-8 can hold: a file's name may have bytes that are none, which are then shown as \\udcff."""
    style = (FOLDER / STYLE).read_text(encoding="utf-8")
    text: str = _find()(template).render(style=style, **values)
    return text.encode("utf-8", "backslashreplace").decode()


@functools.cache
def _find() -> Callable[[str], Any]:
    # Loading it takes a while.
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # A value with line ends in it must not move what follows.
        keep_trailing_newline=True,
    )
    return environment.get_template
