"""Pages in a real Chromium, that of Qt WebEngine: they fit a phone, ask for nothing,
and are dark where wanted.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hba

if (
    importlib.util.find_spec("PySide6") is None
    or importlib.util.find_spec("PySide6.QtWebEngineWidgets") is None
):
    pytest.skip("needs pip install '.[browser]'", allow_module_level=True)

pytestmark = pytest.mark.slow

BACKGROUNDS = {"light": (253, 252, 250), "dark": (23, 24, 26)}

OPENED = """
import json, sys
from PySide6.QtCore import QTimer, QUrl
from PySide6.QtWebEngineCore import QWebEnginePage, QWebEngineSettings, \
QWebEngineUrlRequestInterceptor
from PySide6.QtWebEngineWidgets import QWebEngineView
from PySide6.QtWidgets import QApplication

RIGHT = "const rightOf = one => one.getBoundingClientRect().right; "
MEASURED = RIGHT + '''JSON.stringify({
    width: document.documentElement.scrollWidth,
    window: innerWidth,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    background: getComputedStyle(document.body).backgroundColor,
    flat: [...document.querySelectorAll("svg")]\
.filter(svg => svg.getBoundingClientRect().height < 20).length,
    outside: [...document.querySelectorAll("h1, h2, h3, p, figcaption")]
        .filter(one => { const box = one.getBoundingClientRect(); \
return box.right > innerWidth + 1 || box.left < -1; })
        .map(one => one.textContent),
    beyond: [...document.querySelectorAll("main .dots, main pre")]
        .filter(one => rightOf(one) > rightOf(document.querySelector("main")) + 1)
        .map(one => one.textContent),
})'''
file, width = sys.argv[1], int(sys.argv[2])
asked, said = [], []

class Watch(QWebEngineUrlRequestInterceptor):
    def interceptRequest(self, info):
        asked.append(info.requestUrl().toString()[:80])

class Page(QWebEnginePage):
    def javaScriptConsoleMessage(self, level, message, line, source):
        said.append(message)

application = QApplication([sys.argv[0]])
view = QWebEngineView()
page, watch = Page(view), Watch()
page.profile().setUrlRequestInterceptor(watch)
# As on a phone, where they take no room.
page.settings().setAttribute(QWebEngineSettings.WebAttribute.ShowScrollBars, False)
view.setPage(page)
view.resize(width, 900)
view.show()

def answer(found):
    print(json.dumps({**json.loads(found), "asked": asked, "said": said}))
    application.quit()

view.loadFinished.connect(lambda ok: QTimer.singleShot(200, \
lambda: page.runJavaScript(MEASURED, answer)))
view.load(QUrl.fromLocalFile(file))
QTimer.singleShot(60_000, application.quit)
application.exec()
"""
SCHEMES = {"light": "1", "dark": "0"}


def opened(file: Path, width: int, scheme: str) -> dict[str, Any]:
    """What a browser of that width says of a page."""
    flags = (
        "--no-sandbox --disable-gpu"
        f" --blink-settings=preferredColorScheme={SCHEMES[scheme]}"
    )
    environment = {
        **os.environ,
        "QT_QPA_PLATFORM": "offscreen",
        "QTWEBENGINE_CHROMIUM_FLAGS": flags,
    }
    done = subprocess.run(
        [sys.executable, "-c", OPENED, str(file), str(width)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode < 0 or "cannot open shared object" in done.stderr:
        pytest.skip(
            f"Qt WebEngine does not start here: {done.stderr.strip().splitlines()[-1:]}"
        )
    assert done.returncode == 0, done.stderr
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


@pytest.mark.usefixtures("figures_are_drawn")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_a_page_opens(
    width: int, scheme: str, searched: Path, evaluated: Path, tuned: Path
) -> None:
    for run in (searched, evaluated, tuned / "both"):
        page = opened(hba.write_report(run), width, scheme)
        assert page["width"] <= page["window"] == width, (
            "nothing is cut off at the right"
        )
        assert page["outside"] == page["beyond"] == []
        assert page["dark"] == (scheme == "dark")
        assert page["background"] == f"rgb{BACKGROUNDS[scheme]}"
        assert page["flat"] == 0
        assert page["said"] == []
        assert [
            address
            for address in page["asked"]
            if not address.startswith(("file:", "data:"))
        ] == []
