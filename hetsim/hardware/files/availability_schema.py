"""What a device file may say of the share of its time that it is up."""

from __future__ import annotations

from pydantic import model_validator

from hetsim.hardware.availability import DeviceAvailability, exactly, of_times
from hetsim.hardware.files.figures import Fraction, Positive, Strict, Text, refusal


class AvailabilityModel(Strict):
    """A share, or mean times: until it fails, and until it is back."""

    share: Fraction | None = None
    """Of its time that it is up."""
    mtbf_hours: Positive | None = None
    """In place of it: the mean time that it works until it fails."""
    mttr_hours: Positive | None = None
    """The mean time until it is back."""
    source: Text
    """Where that is from."""

    @model_validator(mode="after")
    def _one(self) -> AvailabilityModel:
        times = (self.mtbf_hours, self.mttr_hours)
        if (self.share is None) == (times == (None, None)) or times.count(None) == 1:
            raise refusal(
                "an availability has either 'share', or 'mtbf_hours' and 'mttr_hours'",
                "write which share of its time it is up, or both times",
            )
        return self

    def to_availability(self) -> DeviceAvailability:
        """Return the record."""
        if self.share is not None:
            return DeviceAvailability(exactly(self.share), self.source)
        assert self.mtbf_hours is not None
        assert self.mttr_hours is not None
        return DeviceAvailability(of_times(self.mtbf_hours, self.mttr_hours), self.source)
