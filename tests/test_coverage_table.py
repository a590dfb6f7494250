"""The table of what tests reach adds up."""

from __future__ import annotations

from coverage_table import rows


def counts(covered: int, lines: int, taken: int = 0, branches: int = 0) -> dict[str, object]:
    summary = {
        "covered_lines": covered, "num_statements": lines, "missing_lines": lines - covered,
        "covered_branches": taken, "num_branches": branches,
    }  # fmt: skip
    return {"summary": summary}


def test_packages_and_files_with_most_lines_unreached() -> None:
    files = {
        "hetsim/cli/b.py": counts(1, 4, 1, 2),
        "hetsim/text.py": counts(3, 3),
        "hetsim/cli/deeper/a.py": counts(5, 6, 2, 2),
        "hetsim/empty/__init__.py": counts(0, 0),
    }
    assert rows({"files": files}) == [
        "   lines     of  branches     of",
        "   60.0%     10     75.0%      4  hetsim/cli",
        "       -      0         -      0  hetsim/empty",
        "  100.0%      3         -      0  hetsim/text.py",
        "   69.2%     13     75.0%      4  all",
        "the files with most lines unreached:",
        "   25.0%      4     50.0%      2  hetsim/cli/b.py",
        "   83.3%      6    100.0%      2  hetsim/cli/deeper/a.py",
    ]
