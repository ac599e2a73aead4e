"""The templates of pages, and what all pages share."""

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from hba.report import figures

if TYPE_CHECKING:
    from jinja2 import Template

SIGNS = {
    "better": "✓",
    "no difference shown": "≈",
    "worse": "✗",
    "not compared yet": "?",
}
"""Sign of each kind of answer, in addition to its colour."""


@cache
def template_of(name: str) -> "Template":
    """The template of a page, which takes long to compile."""
    # Importing it takes a while.
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hba.report", ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["picture"] = figures.picture
    environment.tests["pixelated"] = figures.is_pixelated
    return environment.get_template(name)


def style() -> str:
    """The style sheet of pages."""
    return files("hba.report").joinpath("page.css").read_text("utf-8")
