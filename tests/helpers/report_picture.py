"""The picture of a report that README shows: made anew by ``make docs RENEW=1``.

    python tests/helpers/report_picture.py [FILE]

Needs Chromium and playwright; without them the picture stays as it is.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from browsing import chromium

ASKED = ("compare", "zoo:inception_v1", "--platform", "rock-5b")


def main(file: Path) -> None:
    """Ask, open the report's timeline, and keep what a window of it shows."""
    found = chromium()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        found = None
    if found is None:
        print("no Chromium or no playwright: the picture of a report stays as it is")
        return
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        code = "import sys; from hetsim.cli.main import main; main(sys.argv[1:])"
        words = [sys.executable, "-c", code, *ASKED, "--report", "report.html"]
        subprocess.run(words, cwd=folder, check=True, capture_output=True)
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": 1120}, color_scheme="light")
        tab.goto((Path(folder) / "report.html").as_uri())
        tab.click("#tab-timeline")
        tab.wait_for_function("() => hetsim.settled()")
        tab.wait_for_timeout(200)
        tab.screenshot(path=file)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/report.png"))
