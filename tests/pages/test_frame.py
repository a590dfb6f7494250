"""What every report holds to: one file that asks for nothing, for every eye, width and key."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from browsing import Axe, Open
from hetsim.errors import UsageError
from hetsim.reporting.pages.page import (
    BYTES_MOST,
    Island,
    PageVerdict,
    Section,
    Tile,
    packed,
    page,
    plotly,
    table,
    unpacked,
    write_page,
)
from hostile import HOSTILE, Outline
from sweeps import examples


def island(names: tuple[str, ...] = ("plain",), **about: Any) -> Island:
    """A report with every part that a frame has, each with every name."""
    said: dict[str, Any] = {
        "kind": "simulate",
        "title": names[0],
        "command": ("/usr/bin/hetsim", "simulate", *names),
        "record": {"names": list(names)},
        "verdict": PageVerdict(names[0], names[-1], names[0]),
        "tiles": tuple(Tile(name, name, name) for name in names),
        "sections": (
            Section(
                "some",
                names[0],
                names[-1],
                (table(names[0], (names[0], f"#{names[-1]}"), [(n, n) for n in names], (0,)),),
            ),
        ),
        "pictures": {"packed": packed({"names": list(names)})},
    }
    return Island(**(said | about))


def test_a_page_is_the_same_each_time_and_small() -> None:
    one = page(island())
    assert one == page(island())
    assert len(one.encode()) < BYTES_MOST - 400_000


def test_the_island_is_read_back_whatever_names_there_are() -> None:
    outline = Outline(page(island(HOSTILE)))
    data = json.loads(outline.scripts[0])
    assert data["report"] == "hetsim-report/2"
    assert data["record"]["names"] == list(HOSTILE)
    # No element comes from a name: those of the template are all there are.
    plain = Outline(page(island(("p",) * len(HOSTILE))))
    assert outline.elements == plain.elements
    assert outline.listeners == []


def test_what_is_shown_of_a_name_is_one_line_without_control_characters() -> None:
    text = page(island(HOSTILE))
    shown = text[: text.index('<script type="application/json"')]
    assert re.search("[\x00-\x09\x0b-\x1f\u2028\u202e\u2066]", shown) is None
    assert "long" * 500 not in shown


def test_the_policy_names_the_scripts_that_are_there() -> None:
    outline = Outline(page(island()))
    policy = next(
        keys["content"] for keys in outline.attributes if "Content-Security-Policy" in keys.values()
    )
    assert policy is not None
    assert "unsafe-inline' script" not in policy
    scripts = re.search(r"script-src ([^;]*)", policy)
    assert scripts is not None
    assert scripts[1].count("sha256-") == 2
    assert plotly()[1] in scripts[1]
    assert "unsafe" not in scripts[1]
    assert all(("src" not in keys and "href" not in keys) or keys.get("href") == "#views"
               for keys in outline.attributes)  # fmt: skip


def test_it_is_written_whole_and_over_nothing(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_page(island(HOSTILE), path)
    with pytest.raises(UsageError, match=r"--report .*: it exists"):
        write_page(island(), path)
    write_page(island(), path, force=True)
    assert path.read_text(encoding="utf-8") == page(island())


def test_names_are_text_in_a_browser(tmp_path: Path, opened: Open) -> None:
    path = tmp_path / "report.html"
    write_page(island(HOSTILE), path)
    one = opened(path, width=360)
    tab = one.page
    assert tab.locator("img, main script").count() == 0
    assert tab.inner_text("h1") == HOSTILE[0]
    assert one.too_wide() <= 0
    read = tab.evaluate("async () => (await hetsim.unpacked(hetsim.island.pictures.packed)).names")
    assert read[:-1] == list(HOSTILE[:-1])


def test_tabs_are_walked_by_keys(tmp_path: Path, opened: Open, axe: Axe) -> None:
    path = tmp_path / "report.html"
    sections = tuple(
        Section(f"s{place}", f"View {place}", "What it shows.", (), order=place)
        for place in range(3)
    )
    write_page(island(sections=sections), path)
    one = opened(path)
    tab = one.page

    def chosen() -> str:
        return str(tab.inner_text("[role=tab][aria-selected=true]"))

    assert one.views() == ["s0", "s1", "s2"]
    assert chosen() == "View 0"
    # By the keyboard alone: the skip link, the buttons, then the chosen tab.
    walk = []
    for _ in range(5):
        tab.keyboard.press("Tab")
        walk.append(tab.evaluate("document.activeElement.textContent"))
    assert walk == ["To the views", "Dark", "Print", "Copy", "View 0"]
    tab.keyboard.press("ArrowRight")
    assert (chosen(), tab.evaluate("document.activeElement.textContent")) == ("View 1", "View 1")
    tab.keyboard.press("End")
    assert chosen() == "View 2"
    tab.keyboard.press("ArrowRight")
    assert chosen() == "View 0"
    assert tab.locator(".view:visible").count() == 1
    tab.click("text=Dark")
    assert tab.evaluate("hetsim.dark()")
    assert axe(one) == []


def test_what_does_not_fit_is_left_out_and_it_is_told() -> None:
    random = np.random.default_rng(0).bytes(1_200_000).hex()
    large = island(pictures={"huge": random, "small": [1, 2]})
    text = page(large)
    assert len(text.encode()) <= BYTES_MOST
    assert "would exceed 2.5 MB with: huge." in text
    data = json.loads(Outline(text).scripts[0])
    assert data["pictures"] == {"small": [1, 2]}


@examples(quick=45, full=100)
@given(
    st.dictionaries(
        st.sampled_from("abc"),
        st.lists(st.integers(-(2**40), 2**40)) | st.lists(st.lists(st.integers(-99, 99))),
    )
)
def test_what_is_packed_is_unpacked(columns: dict[str, list[Any]]) -> None:
    assert unpacked(packed(columns)) == columns
    assert unpacked(packed(columns, tuple(columns))) == columns
