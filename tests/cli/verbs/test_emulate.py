"""``hetsim run --emulate``."""

from __future__ import annotations

import json

import pytest

from builders import BOX
from cli_calls import Cli

RUN = ("run", "zoo:squeezenet", "--platform", str(BOX), "--executor", "threads")


def test_what_was_predicted_and_what_was_measured(cli: Cli) -> None:
    done = cli(*RUN, "--strategy", "hetero", "--emulate", "--time-scale", 20, "--requests", 2,
               "--json")  # fmt: skip
    assert done.exit_code == 0
    record = json.loads(done.stdout)
    assert record["schema"] == "hetsim-emulation/1"
    assert record["requests"] == len(record["wall_s"]) == 2
    assert record["bitwise_equal"] is True
    assert record["measured_latency_s"] >= 0.999 * record["predicted_latency_s"]
    assert record["measured_makespan_s"] >= 0.999 * record["predicted_makespan_s"]
    shown = cli(*RUN, "--emulate", "--time-scale", 1)
    assert "predicted" in shown.output
    assert "overrun" in shown.output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--time-scale", "2"), "--time-scale belongs to 'hetsim run MODEL --emulate'"),
        (("--requests", "2"), "--requests belongs to 'hetsim run MODEL --emulate'"),
        (("--emulate", "--time-scale", "0"), "not a finite number above 0"),
        (("--emulate", "--requests", "0"), "0 is not in the range"),
        (("--emulate", "--inject", "kill cpu at 1ms"), "--inject belongs to 'hetsim run MODEL'"),
        (("--emulate", "--precision", "device"), "--precision belongs to 'hetsim run MODEL'"),
    ],
)
def test_options_that_do_not_go_together(cli: Cli, words: tuple[str, ...], says: str) -> None:
    refused = cli(*RUN, *words)
    assert refused.exit_code == 2
    assert says in refused.output
