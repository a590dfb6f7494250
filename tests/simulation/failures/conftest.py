"""Failures as tests of several files draw them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from hetsim.workload.failure import Failure, check_failures


@st.composite
def failures_of(draw: st.DrawFn, devices: Sequence[str], *, again: bool = True) -> list[Failure]:
    """Failures that leave one device at least; `again`: several of one that comes back."""
    half = st.integers(0, 40).map(lambda k: k / 2)
    spared = draw(st.sampled_from(devices))
    found = []
    for place, device in enumerate(draw(st.lists(st.sampled_from(devices), unique=True))):
        # At times that nothing else happens at: what comes first at one instant is no matter.
        at_s = draw(half) + 1 / 8 + place / 64
        kinds = ["kill", "back", "hang"] if device != spared else ["back"]
        match draw(st.sampled_from(kinds)):
            case "kill":
                found.append(Failure(device, at_s))
            case "back":
                for_s = draw(half)
                found.append(Failure(device, at_s, "kill", for_s))
                if again and draw(st.booleans()):
                    found.append(Failure(device, at_s + for_s + draw(half), "kill", draw(half)))
            case _:
                found.append(Failure(device, at_s, "hang", draw(half)))
    return list(check_failures(found, devices))
