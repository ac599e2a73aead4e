"""Pages in a real Chromium, that of Qt WebEngine: they fit a phone, ask for nothing, and are dark where wanted."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from search_problems import SMALL_SETTINGS, small_data
from small_trainings import tiny_data

import hba

if importlib.util.find_spec("PySide6") is None or importlib.util.find_spec("PySide6.QtWebEngineWidgets") is None:
    pytest.skip("needs pip install '.[browser]'", allow_module_level=True)

OPENED = """
import json, sys
from PySide6.QtCore import QTimer, QUrl
from PySide6.QtWebEngineCore import QWebEnginePage, QWebEngineUrlRequestInterceptor
from PySide6.QtWebEngineWidgets import QWebEngineView
from PySide6.QtWidgets import QApplication

MEASURED = '''JSON.stringify({
    width: document.documentElement.scrollWidth,
    window: innerWidth,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    background: getComputedStyle(document.body).backgroundColor,
    color: getComputedStyle(document.body).color,
    broken: [...document.images].filter(image => !image.complete || !image.naturalWidth).length,
    images: document.images.length,
    tables: [...document.querySelectorAll("details table")].length,
    drawn: [...document.querySelectorAll("svg path.line")].filter(path => path.getBBox().width > 0).length,
    flat: [...document.querySelectorAll("svg")].filter(svg => svg.getBoundingClientRect().height < 20).length,
    outside: [...document.querySelectorAll("h1, h2, h3, p, figcaption, .label, .y-tick, .ends")]
        .filter(one => { const box = one.getBoundingClientRect(); return box.right > innerWidth + 1 || box.left < -1; })
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
view.setPage(page)
view.resize(width, 900)
view.show()

def answer(found):
    print(json.dumps({**json.loads(found), "asked": asked, "said": said}))
    application.quit()

view.loadFinished.connect(lambda ok: QTimer.singleShot(200, lambda: page.runJavaScript(MEASURED, answer)))
view.load(QUrl.fromLocalFile(file))
QTimer.singleShot(60_000, application.quit)
application.exec()
"""
EVALUATION: dict[str, Any] = {"model": "wrn-10-1", "epochs": 1, "batch_size": 20, "device": "cpu", "seeds": 2}
SCHEMES = {"light": "1", "dark": "0"}


def opened(file: Path, width: int, scheme: str) -> dict[str, Any]:
    flags = f"--no-sandbox --disable-gpu --blink-settings=preferredColorScheme={SCHEMES[scheme]}"
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "QTWEBENGINE_CHROMIUM_FLAGS": flags}
    done = subprocess.run(
        [sys.executable, "-c", OPENED, str(file), str(width)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode < 0 or "cannot open shared object" in done.stderr:
        pytest.skip(f"Qt WebEngine does not start here: {done.stderr.strip().splitlines()[-1:]}")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("browser")
    hba.search(small_data(), out=folder / "run", **SMALL_SETTINGS)  # type: ignore[arg-type]
    hba.evaluate(hba.load_policy(folder / "run"), tiny_data(), out=folder / "evaluation", **EVALUATION)
    hba.compare(folder / "run").save(folder / "compared.html")
    return {
        "report": folder / "run" / "report.html",
        "evaluation": folder / "evaluation" / "report.html",
        "comparison": folder / "compared.html",
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["report", "evaluation", "comparison"])
def test_a_page_opens(name: str, width: int, scheme: str, pages: dict[str, Path]) -> None:
    found = opened(pages[name], width, scheme)
    assert found["window"] == width
    assert found["width"] <= width, "nothing is cut off at the right"
    assert found["outside"] == []
    assert found["dark"] == (scheme == "dark")
    light, dark = "rgb(253, 252, 250)", "rgb(23, 24, 26)"
    assert found["background"] == (dark if scheme == "dark" else light)
    assert found["broken"] == found["flat"] == 0
    assert found["said"] == []
    assert [address for address in found["asked"] if not address.startswith(("file:", "data:"))] == []
    if name == "report":
        assert found["images"] == 4 + 3 * 4 * 3
        # Both copies of each operation's probability and magnitude, and two charts of two lines.
        schedule = hba.load_policy(pages[name].parent)
        assert found["drawn"] == len(schedule.space.names) - 3 + 4
        assert found["tables"] == 5
