"""``hetsim recommend --verify``: does a certificate hold?"""

from __future__ import annotations

import json
from pathlib import Path

from certificate_parts import certified, left
from cli_calls import Cli


def test_it_is_checked_by_the_command_line(cli: Cli, tmp_path: Path) -> None:
    certificate = certified(11)
    path = left(certificate, tmp_path)
    told = cli("recommend", "--verify", path)
    assert told.exit_code == 0
    assert told.stdout.startswith("certificate holds: ")
    assert "\nverified  stream " in told.stdout
    assert "\non trust  seconds of devices and links: " in told.stdout
    assert json.loads(cli("recommend", "--verify", path, "--json").stdout)["runs"] == len(
        certificate["runs"]
    )
    few = cli("recommend", "--verify", path, "--events", "10")
    assert few.exit_code == 3
    assert "--events" in few.stderr
    certificate["answer"]["cost"] += 1
    false = cli("recommend", "--verify", left(certificate, tmp_path))
    assert false.exit_code == 5
    assert "/answer/cost: its kinds cost" in false.stderr
    assert cli("recommend", "--verify", tmp_path / "none.json").exit_code == 3
