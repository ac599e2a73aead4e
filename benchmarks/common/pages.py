"""Write pages of docs/: people write sentences, in benchmarks/pages or around markers,
and records fill the tables.
"""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from hba.errors import HbaError
from hba.utils.files import write_text

TEMPLATES = Path(__file__).parents[1] / "pages"


class ClaimError(HbaError):
    """A sentence of a page that the records no longer support."""


def write_page(name: str, docs: Path, **values: Any) -> Path:
    """Write docs/NAME.md from its template NAME.md.j2."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.globals["only_while"] = only_while
    path = docs / f"{name}.md"
    write_text(path, environment.get_template(f"{name}.md.j2").render(**values))
    return path


def fill_page(name: str, mark: str, docs: Path, table: str) -> None:
    """Replace the table between the markers `<!-- MARK: begin -->` and `<!-- MARK: end
    -->` of docs/NAME.md.
    """
    path = docs / f"{name}.md"
    begin = f"<!-- {mark}: begin -->"
    end = f"<!-- {mark}: end -->"
    before, after = path.read_text(encoding="utf-8").split(begin)
    write_text(path, f"{before}{begin}\n{table}\n{end}{after.split(end)[1]}")


def only_while(holds: bool | None, sentence: str) -> str:
    """Return the sentence.

    Args:
        holds: Whether the records support the sentence; None means that they do not
            say.
        sentence: A sentence of a page.

    Raises:
        ClaimError: If the records contradict the sentence.
    """
    if holds is False:
        raise ClaimError(
            f"the records no longer support the sentence {sentence.strip()!r}; correct"
            " the page"
        )
    return sentence
