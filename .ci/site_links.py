"""A hook of mkdocs: links to files beside the documentation become their text, as the site has no such files."""

import re
from typing import Any

LINK_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]+\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    return LINK_OUTSIDE.sub(r"\1", markdown)
