"""Virtual time where devices stop and come back, and requests get other templates."""

from __future__ import annotations

from hetsim.simulation.clock.virtual_time import Lines, VirtualTime
from hetsim.simulation.failures.changing import Changing, Ints


class ChangingTime(VirtualTime, Changing):
    """Requests on the clock whose templates, and whose devices, may be others from a moment on."""

    def take_log(self) -> Lines:
        """Return what has started since this was called last."""
        codes, starts, streams = self.log()
        self._log.size[0] = 0
        return codes.copy(), starts.copy(), streams.copy()

    def expect(self, template: Ints) -> None:
        """Say which templates requests run that have not come yet."""
        self._requests.template[self.admitted :] = template if self._arrays else template.tolist()
