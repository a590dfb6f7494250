"""A real browser that opens reports: what it complains of, or asks for, fails the test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browsing import CHROMIUMS, Axe, Compared, Open, Opened, chromium
from summary import SUMMARY

PATIENCE_MS = 600_000
"""How long a step in the browser may take: on a busy machine many times what it takes alone."""

TURNED_OFF: dict[str, str] = {}
"""Rules of axe that are not checked, and why."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, once; a machine without it skips by the name of what it lacks."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = chromium()
    if found is None:
        pytest.skip(f"no Chromium is installed: none of {', '.join(CHROMIUMS)} is on the PATH")
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Open]:
    """Open a report's file; at the end nothing may have gone wrong on any of its pages.

    Keywords go to ``browser.new_context``: ``viewport``, ``color_scheme``,
    ``java_script_enabled``. ``width`` stands for a viewport of that width. What a page does when
    nothing else is to be done, which is to make plotly ready, it does where it is ``eager``.
    """
    every: list[tuple[Any, Opened]] = []

    def open_file(path: Path, *, width: int = 1280, eager: bool = False, **about: Any) -> Opened:
        about.setdefault("viewport", {"width": width, "height": 900})
        context = browser.new_context(**about)
        context.set_default_timeout(PATIENCE_MS)
        if not eager:
            context.add_init_script("window.requestIdleCallback = () => 0;")
        page = context.new_page()
        one = Opened(page)
        every.append((context, one))
        url = path.resolve().as_uri()

        def asked(request: Any) -> None:
            if request.url.partition("#")[0] != url and not request.url.startswith("data:"):
                one.wrong.append(f"asked for {request.url[:200]}")

        def said(message: Any) -> None:
            if message.type in ("error", "warning"):
                one.wrong.append(f"{message.type}: {message.text[:500]}")

        page.on("request", asked)
        page.on("console", said)
        page.on("pageerror", lambda error: one.wrong.append(f"fault: {error}"))
        page.goto(url)
        if about.get("java_script_enabled", True):
            one.settle()
        return one

    yield open_file
    wrong = [text for _, one in every for text in one.wrong]
    for context, _ in every:
        context.close()
    assert wrong == []


@pytest.fixture
def axe() -> Axe:
    """What axe-core finds on an opened page that is serious or critical: rule, and where."""
    package = pytest.importorskip("axe_playwright_python", reason="axe is not installed")
    script = (Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")

    def violations(one: Opened) -> list[str]:
        # The page's policy lets no other script run: axe comes by the driver's own channel.
        one.page.evaluate(f"() => {{ {script} }}")
        rules = {name: {"enabled": False} for name in TURNED_OFF}
        found = one.page.evaluate(
            "rules => axe.run(document, {rules, resultTypes: ['violations']})", rules
        )
        return [
            f"{rule['id']}: {node['html'][:160]}: {node['failureSummary']}"
            for rule in found["violations"]
            if rule["impact"] in ("serious", "critical")
            for node in rule["nodes"][:5]
        ]

    return violations


@pytest.fixture(scope="session")
def compared(request: pytest.FixtureRequest) -> Iterator[Compared]:
    """Count a setting of sliders whose answer was the command line's; the run's end tells all."""
    kinds: Counter[str] = Counter()
    sliders: Counter[str] = Counter()

    def add(kind: str, *moved: str) -> None:
        kinds[kind] += 1
        sliders.update(moved)

    yield add
    lines = [
        ", ".join(f"{count} of {name}" for name, count in sorted(of.items()))
        for of in (kinds, sliders)
    ]
    title = f"{kinds.total()} settings of sliders said what the command line says"
    request.config.stash[SUMMARY][title] = [f"reports: {lines[0]}", f"sliders moved: {lines[1]}"]
