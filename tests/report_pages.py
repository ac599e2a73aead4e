"""An HTML page read strictly: every tag is closed in its turn, and its texts, tables
and addresses are found again.
"""

import base64
import io
from collections.abc import Iterator
from html.parser import HTMLParser

from PIL import Image

VOID = {"meta", "link", "img"}
ADDRESSES = ("src", "href", "srcset", "action", "data", "xlink:href")
EVIL = ("<script>alert(1)</script>", "\"><img src=x onerror='alert(2)'> & \udcff")
TUNES = {
    "both": "augmentation,dropout,weight-decay,input-dropout",
    "alone": "dropout,weight-decay,label-smoothing",
}


class StrictPage(HTMLParser):
    """tags: each with its attributes, in their order. tables: of text, row by row."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.within: list[tuple[str, str]] = []
        self.tables: list[list[list[str]]] = []
        assert text.startswith("<!doctype html>")
        self.feed(text)
        self.close()
        assert self.open == [], "unclosed tags"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute twice in {tag}"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert "svg" in self.open, f"<{tag}/> is no HTML"
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another tag"

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.texts.append(data)
            self.within.append((self.open[-1] if self.open else "", data))
        if [tag for tag in self.open if tag != "span"][-1:] in (["td"], ["th"]):
            self.tables[-1][-1][-1] += data

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def attributes_of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def addresses(self) -> Iterator[str]:
        for _, attributes in self.tags:
            yield from (
                value or "" for name, value in attributes.items() if name in ADDRESSES
            )

    def pictures(self) -> list[Image.Image]:
        """Of all img, as a browser decodes them."""
        images: list[Image.Image] = []
        for attributes in self.attributes_of("img"):
            media_type, _, content = (attributes["src"] or "").partition(";base64,")
            picture = Image.open(io.BytesIO(base64.b64decode(content)))
            picture.load()
            assert media_type == f"data:image/{str(picture.format).lower()}"
            images.append(picture.convert("RGB"))
        return images

    def headings(self, level: int) -> list[str]:
        """Texts of the headings of a level, as far as they stand in no other tag."""
        return [
            text.strip()
            for tag, text in self.within
            if tag == f"h{level}" and text.strip()
        ]

    def table_with(self, heading: str) -> list[list[str]]:
        """The table whose first row has this heading."""
        (matching,) = [table for table in self.tables if heading in table[0]]
        return matching


def check_page(text: str) -> StrictPage:
    """What holds of every page: it is well formed, whole by itself, and tells in words
    what it shows.
    """
    page = StrictPage(text)
    assert all(address.startswith(("data:", "#")) for address in page.addresses())
    names = [name for name, _ in page.tags]
    assert "script" not in names
    assert not [
        name
        for _, attributes in page.tags
        for name in attributes
        if name.startswith("on")
    ]
    assert all(attributes.get("alt") for attributes in page.attributes_of("img"))
    for svg in page.attributes_of("svg"):
        assert svg.get("aria-hidden") == "true" or (
            svg.get("role") == "img" and svg.get("aria-label")
        )
    assert page.attributes_of("html") == [{"lang": "en"}]
    assert page.attributes_of("meta")[0] == {"charset": "utf-8"}
    return page
