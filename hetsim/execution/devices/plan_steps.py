"""The steps of a plan: subgraphs that a device runs in one call, and the values between calls."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Part:
    """What the steps of a plan depend on, of one subgraph."""

    device: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """What a device runs in one call: some of its subgraphs, one after the other.

    Attributes
    ----------
    device : str
    parts : tuple of int
        Indices of the subgraphs, ascending.
    receives : tuple of str
        Values handed over with the call: model inputs, and what other devices made.
    sends : tuple of str
        Values the call gives back: what other devices read, and outputs of the model.
    keeps : tuple of str
        Values the call makes that a later call to this device reads there.
    frees : tuple of tuple of str
        By part: values that the device has no use for once that part is done.
    """

    device: str
    parts: tuple[int, ...]
    receives: tuple[str, ...]
    sends: tuple[str, ...]
    keeps: tuple[str, ...]
    frees: tuple[tuple[str, ...], ...]


class Timing(NamedTuple):
    """When a device ran a step, by the monotonic clock of the device's machine."""

    arrived_s: float
    parts: tuple[tuple[float, float], ...]

    @property
    def end_s(self) -> float:
        """When the last subgraph was done."""
        return self.parts[-1][1] if self.parts else self.arrived_s


@dataclass(frozen=True, slots=True)
class Replica:
    """The steps of one of a plan's replicas."""

    first: int
    count: int
    key: Hashable = 0


def steps_of(
    parts: Sequence[Part], outputs: Sequence[str], *, fused: bool = True
) -> tuple[Step, ...]:
    """Return the calls that run `parts`, in an order in which none waits for a later one.

    A part joins the last call of its device where every value that it reads is there before
    that call starts or is made within it, and where it either follows that call's last part
    directly or nobody waits for that call. Each call depends on earlier ones alone, so
    devices that take their calls in this order cannot block each other.

    Parameters
    ----------
    parts : sequence of Part
        Each after all that it reads from.
    outputs : sequence of str
        Values that the caller gets; those that no part makes are left to the caller.
    fused : bool
        Whether parts may share a call. If not, call i is part i, calls of one request may run
        beside each other, and devices keep its values until they are to forget it.

    Complexity: O(parts + values they read and write).
    """
    maker = {name: index for index, part in enumerate(parts) for name in part.outputs}
    calls = _fuse(parts, maker) if fused else [[index] for index in range(len(parts))]
    call_of = {index: call for call, members in enumerate(calls) for index in members}
    sent = {name for name in outputs if name in maker}
    last_reader: dict[tuple[str, str], int] = {}
    for index, part in enumerate(parts):
        for name in part.inputs:
            last_reader[part.device, name] = index
            if name in maker and parts[maker[name]].device != part.device:
                sent.add(name)
    steps: list[Step] = []
    for call, members in enumerate(calls):
        device = parts[members[0]].device
        received: dict[str, int] = {}
        made: list[str] = []
        for index in members:
            made.extend(parts[index].outputs)
            for name in parts[index].inputs:
                if name not in maker or parts[maker[name]].device != device:
                    received[name] = index
        sends = tuple(name for name in made if name in sent)
        readers = {name: last_reader.get((device, name)) for name in made}
        keeps = tuple(
            name
            for name, reader in readers.items()
            if not fused or (reader is not None and call_of[reader] != call)
        )
        frees: list[tuple[str, ...]] = []
        for index in members:
            ends = {**{name: last_reader[device, name] for name in parts[index].inputs}, **received}
            frees.append(
                tuple(
                    name
                    for name in parts[index].inputs
                    if fused and ends[name] == index and name not in sends
                )
            )
        steps.append(Step(device, tuple(members), tuple(received), sends, keeps, tuple(frees)))
    return tuple(steps)


def _fuse(parts: Sequence[Part], maker: Mapping[str, int]) -> list[list[int]]:
    """Collect the part indices into calls."""
    calls: list[list[int]] = []
    call_of: list[int] = []
    newest: dict[str, int] = {}
    awaited: set[int] = set()
    for index, part in enumerate(parts):
        sources = [call_of[maker[name]] for name in part.inputs if name in maker]
        call = newest.get(part.device)
        if (
            call is None
            or any(source > call for source in sources)
            or (call_of[-1] != call and call in awaited)
        ):
            call = newest[part.device] = len(calls)
            calls.append([])
        calls[call].append(index)
        call_of.append(call)
        awaited.update(source for source in sources if source != call)
    return calls
