"""A report that is open in a browser: what tests do with it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
WIDTHS = (360, 1280, 2560)


def chromium() -> str | None:
    """The path of an installed Chromium; None where there is none."""
    return next((path for name in CHROMIUMS if (path := shutil.which(name))), None)


@dataclass
class Opened:
    """A page of the browser, and what went wrong on it so far."""

    page: Any
    wrong: list[str] = field(default_factory=list)

    def views(self) -> list[str]:
        """The ids of the views, in the order of their tabs."""
        ids = self.page.eval_on_selector_all(
            "[role=tab]", "tabs => tabs.map(tab => tab.id.slice(4))"
        )
        return [str(one) for one in ids]

    def show(self, view: str) -> None:
        """Click a view's tab, and wait until it is drawn."""
        self.page.click(f"#tab-{view}")
        self.settle()

    def settle(self) -> None:
        """Wait until every picture that was begun is there."""
        self.page.wait_for_function("() => hetsim.settled()")

    def ready_to_print(self) -> None:
        """Wait until all that pictures are made of is unpacked."""
        self.page.wait_for_function("() => hetsim.printable()")

    def screenshot(self, name: str) -> None:
        """Keep a picture of the whole page as ``build/screenshots/NAME.png``."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)

    def too_wide(self) -> int:
        """By how many pixels the page is wider than its window."""
        return int(
            self.page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
        )

    def cut_off(self) -> list[str]:
        """Titles of axes and notes of charts of which a part stands outside of their picture."""
        found = self.page.evaluate(
            """() => [...document.querySelectorAll(
              ".main-svg .xtitle, .main-svg .ytitle, .main-svg .annotation text")].filter((one) => {
              const box = one.getBoundingClientRect();
              const whole = one.closest(".main-svg").getBoundingClientRect();
              return box.width && (box.left < whole.left - 1 || box.right > whole.right + 1
                || box.top < whole.top - 1 || box.bottom > whole.bottom + 1);
            }).map((one) => one.textContent)"""
        )
        return [str(one) for one in found]


Open = Callable[..., Opened]
"""What the fixture ``opened`` gives: a file, and how wide the window is."""

Axe = Callable[[Opened], list[str]]
"""What the fixture ``axe`` gives."""

Compared = Callable[..., None]
"""What the fixture ``compared`` gives: whose sliders, then the names of those that were moved."""
