"""Lines that tests leave for the end of the whole run, from whichever process they ran in."""

from __future__ import annotations

from typing import Any

import pytest

SUMMARY = pytest.StashKey[dict[str, list[str]]]()
"""Of a config: lines by the title of their section."""

_OUTPUT = "hetsim_summary"


class Summary:
    """A plugin that brings the sections of all processes to the one that reports."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Start without sections."""
        config.stash[SUMMARY] = {}

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Send what there is where this process does not report."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_OUTPUT] = session.config.stash[SUMMARY]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a process sent."""
        node.config.stash[SUMMARY].update(getattr(node, "workeroutput", {}).get(_OUTPUT, {}))

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """Print the sections."""
        for title, lines in config.stash[SUMMARY].items():
            terminalreporter.section(title)
            for line in lines:
                terminalreporter.line(line)
