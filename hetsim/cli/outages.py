"""``--survive`` and ``--availability``: whether objectives hold where devices are down."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hetsim.cli.invocation import current
from hetsim.cli.load import Load
from hetsim.errors import UsageError

if TYPE_CHECKING:
    from hetsim.hardware.spec import Platform
    from hetsim.provisioning.rates.answer import Availability, Survived
    from hetsim.simulation.service.resolution import Asked, Made
    from hetsim.workload.deployment import Deployment
    from hetsim.workload.workload import Workload


class Outages:
    """What is asked of devices that are down, and the answers."""

    def __init__(self, load: Load, workload: Workload) -> None:
        if load.available and load.availability is None:
            raise UsageError(
                "--available without --availability", hint="give --availability SHARE, too"
            )
        self._load, self._workload = load, workload
        self.survived: Survived | None = None
        self.available: Availability | None = None
        if load.survive is not None or load.availability is not None:
            from hetsim.provisioning.rates.answer import check_asked

            check_asked(self.played)

    @property
    def played(self) -> Workload:
        """The workload, its failures left out where they say how often devices are up."""
        if self._load.availability is None:
            return self._workload
        return replace(self._workload, failures=None)

    def find(
        self,
        deployment: Deployment,
        platform: Platform,
        asked: Asked,
        made: Made,
        *,
        until_answered: bool,
    ) -> None:
        """Ask."""
        load = self._load
        common: dict[str, Any] = {
            "settings": asked,
            "made": made,
            "until_answered": until_answered,
            "within": load.within,
        }
        if load.survive is not None:
            from hetsim.provisioning.rates.redundancy import survive

            self.survived = survive(
                deployment, self.played, platform=platform, losses=load.survive, **common
            )
        if load.availability is not None:
            from hetsim.provisioning.rates.redundancy import availability

            self.available = availability(
                deployment,
                self._workload,
                platform=platform,
                target=load.availability,
                available=load.available,
                **common,
            )

    def record(self, record: dict[str, Any]) -> None:
        """Put the answers into a record."""
        if self.survived is not None:
            from hetsim.reporting.tables.redundancy import surviving_record

            record["survive"] = surviving_record(self.survived)
        if self.available is not None:
            from hetsim.reporting.tables.redundancy import availability_record

            record["availability"] = availability_record(self.available)

    def show(self) -> None:
        """Print the answers."""
        if self.survived is not None:
            from hetsim.reporting.tables.redundancy import surviving_report

            current().say("")
            current().show(surviving_report(self.survived))
        if self.available is not None:
            from hetsim.reporting.tables.redundancy import availability_report

            current().say("")
            current().show(availability_report(self.available))

    def show_as_it_is(self) -> None:
        """Print the answers in short, where something is supposed of the platform."""
        if self.survived is not None:
            from hetsim.reporting.tables.redundancy import surviving_sentence

            current().say(f"As it is: {surviving_sentence(self.survived)}")
        if self.available is not None:
            from hetsim.reporting.tables.redundancy import availability_lines

            current().say(f"As it is: {availability_lines(self.available)[0]}")

    def require(self) -> None:
        """Raise where an answer is not what was asked for."""
        if self.survived is not None:
            self.survived.require()
        if self.available is not None:
            self.available.require()
