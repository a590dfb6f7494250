"""``hetsim report``: pages of what is on disk, and one line where nothing is made of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from answers_on_disk import AnswersOnDisk, left_by_verbs
from cli_calls import call, ok, record_of, refused


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> AnswersOnDisk:
    return left_by_verbs(tmp_path_factory.mktemp("answers"))


def test_one_two_and_several(answers: AnswersOnDisk, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    made = ok("report", str(answers.folder), "-o", str(out))
    assert "heft takes" in made.stdout
    assert f"wrote {out}" in made.stderr
    same = record_of("report", str(answers.page), str(answers.record), "-o",
                    str(tmp_path / "two.html"))  # fmt: skip
    assert same["schema"] == "hetsim-difference/1"
    assert same["figures"] == []
    index = ("report", str(answers.page), str(answers.record), "--index")
    both = record_of(*index, "-o", str(tmp_path / "index.html"))
    assert [one["kind"] for one in both["answers"]] == ["compare", "compare"]
    several = record_of("report", str(answers.root), "-o", str(tmp_path / "all.html"))
    assert len(several["answers"]) == 4
    text = (tmp_path / "all.html").read_text()
    assert all(one["verdict"].split(":")[0] in text for one in several["answers"])
    refused(
        call("report", str(tmp_path / "all.html"), "-o", str(tmp_path / "again.html")),
        3,
        "report of reports",
    )


def test_loads_differ_in_arrivals_objectives_and_service(
    model: Path, platform: Path, tmp_path: Path
) -> None:
    words = ("simulate", model, "--platform", platform, "--requests", 40, "--json")
    kept = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, (rate, slo, count) in zip(kept, [(100, "5ms", 1), (200, "6ms", 2)], strict=True):
        load = ("--rate", rate, "--slo", f"p90={slo}", "--strategy", "single", "--instances", count)
        path.write_text(ok(*words, *load).stdout)
    found = record_of("report", *kept, "-o", tmp_path / "two.html")["question"]
    assert [(one["what"], one["was"], one["is"]) for one in found] == [
        ("objectives / requests / latency", 0.005, 0.006),
        ("arrivals / requests / rate (1/s)", 100, 200),
        (f"served {model}", "1 x single:cpu on cpu", "2 x single:cpu on cpu; shortest queue"),
    ]


def test_what_goes_wrong_is_one_line(answers: AnswersOnDisk, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"schema": "hetsim-comparison/1"}')
    odd = tmp_path / "odd.json"
    record = json.loads(answers.record.read_text())
    record["rows"][0]["strategy"] = {"a": "heft"}
    odd.write_text(json.dumps(record))
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"schema": "hetsim-zoo/1"}))
    out = str(tmp_path / "report.html")
    for source, code, said in (
        (tmp_path / "missing", 2, "missing: no such file"),
        (broken, 3, "broken.json: its record of 'hetsim-comparison/1' is not whole"),
        (
            odd,
            3,
            "odd.json: its record of 'hetsim-comparison/1' is not whole: a value has another type",
        ),
        (other, 3, "other.json: no report is made of a 'hetsim-zoo/1'"),
    ):
        refused(call("report", str(source), "-o", out), code, said)
        assert not Path(out).exists()
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    (mixed / "a.json").write_text('{"schema": {"a": 1}}')
    (mixed / "b.json").write_text(answers.record.read_text())
    assert call("report", str(mixed), "-o", str(tmp_path / "mixed.html")).exit_code == 0
    assert call("report", "-o", out).exit_code == 2
    assert call("report", str(answers.page)).exit_code == 2
    assert call("report", str(answers.page), "-o", str(answers.page)).exit_code == 2
    assert call("report", str(answers.page), "-o", str(tmp_path / "no" / "x.html")).exit_code == 2
