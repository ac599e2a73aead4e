"""Pages of docs/: people write the sentences, in benchmarks/pages or around marks, and records fill the tables."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from hba.errors import HbaError
from hba.utils.files import write_text

TEMPLATES = Path(__file__).parents[1] / "pages"
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


class ClaimError(HbaError):
    """A sentence of a page that the records do not show any more."""


def write_page(name: str, docs: Path, **values: Any) -> Path:
    """docs/NAME.md from NAME.md.j2."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["in_words"] = in_words
    environment.globals["only_while"] = only_while
    path = docs / f"{name}.md"
    write_text(path, environment.get_template(f"{name}.md.j2").render(**values))
    return path


def fill_page(name: str, mark: str, docs: Path, table: str) -> Path:
    """docs/NAME.md, with the table between the marks of that name."""
    path = docs / f"{name}.md"
    write_text(path, placed(path.read_text(encoding="utf-8"), mark, table))
    return path


def placed(text: str, mark: str, table: str) -> str:
    """A page's text with the table between its marks."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    before, rest = text.split(begin)
    return f"{before}{begin}\n{table}\n{end}{rest.split(end)[1]}"


def in_words(number: int) -> str:
    return WORDS[number] if number < len(WORDS) else str(number)


def only_while(holds: bool | None, sentence: str) -> str:
    """The sentence. Raises ClaimError where the records say otherwise; None is that they do not say."""
    if holds is False:
        raise ClaimError(f"the records do not show any more what the page says: {sentence.strip()!r}; mend the page")
    return sentence
