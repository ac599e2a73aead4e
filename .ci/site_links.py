"""A hook of mkdocs: the site has the examples, and links to them lead there. Links to
other files beside the documentation become their text.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
LINK_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)]+)\)")
EXAMPLES = [
    path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("examples/**/*.py"))
]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path in EXAMPLES:
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    return LINK_OUTSIDE.sub(
        lambda link: f"[{link[1]}]({link[2]})" if link[2] in EXAMPLES else link[1],
        markdown,
    )
