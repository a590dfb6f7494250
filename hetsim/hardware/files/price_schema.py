"""What a device or platform file may say of its price."""

from __future__ import annotations

import datetime
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, model_validator

from hetsim.hardware.files.figures import Positive, Strict, Text, refusal
from hetsim.hardware.price import Price

_DATE = re.compile(r"[0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?")


def _date(value: Any) -> Any:
    """YAML reads a whole date as one, and a year as a number."""
    text = str(value) if isinstance(value, datetime.date | int | str) else ""
    if isinstance(value, bool) or not _DATE.fullmatch(text):
        raise refusal(f"'{value}' is no date of a price", "write e.g. 2024-06 or 2024")
    return text


class PriceModel(Strict):
    """The price of a device or a whole platform: rented by the hour, or bought."""

    usd_per_hour: Positive | None = None
    """Rented, with its electricity: US dollars an hour."""
    usd: Positive | None = None
    """Bought: US dollars."""
    years: Positive | None = None
    """For how long it is bought; absent: --lifetime says it."""
    of: Annotated[Text, BeforeValidator(_date)]
    """The date of the price, e.g. 2024-06."""
    source: Text
    """Where the price is from."""

    @model_validator(mode="after")
    def _one(self) -> PriceModel:
        if (self.usd_per_hour is None) == (self.usd is None):
            raise refusal(
                "a price has one of 'usd_per_hour' and 'usd'",
                "write what an hour or what all costs",
            )
        if self.years is not None and self.usd is None:
            raise refusal("'years' are of what is bought", "write usd:, or leave years: out")
        return self

    def to_price(self) -> Price:
        """Return the record."""
        return Price(self.usd_per_hour, self.usd, self.years, self.of, self.source)
