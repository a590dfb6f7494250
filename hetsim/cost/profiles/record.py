"""What a profile says, whichever runtime wrote it, and what was made of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimedKernel:
    """One kernel of a profile: what it took in a run.

    Attributes
    ----------
    name : str
        As the runtime calls it.
    seconds : float
        The median over the runs that count.
    low_s, high_s : float
        The least and the most of them; all three are equal where the profile has one figure.
    op : str
        Its op type in the runtime's words; ``""`` where it says none.
    unit : str
        The execution provider or compute unit that ran it; ``""`` where none is said.
    index : int or None
        The runtime's number of the node, where it says one.
    elements : int or None
        Elements of its first output, where the profile has shapes.
    """

    name: str
    seconds: float
    low_s: float
    high_s: float
    op: str = ""
    unit: str = ""
    index: int | None = None
    elements: int | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile as it was read.

    Attributes
    ----------
    format : str
        Of which program, for reports.
    source : str
        The path as it was given.
    sha256 : str
        Of the file.
    kernels : tuple of TimedKernel
        In the order in which they ran, where `ordered`.
    runs : int
        Runs that each median is of.
    rule : str
        What was done about runs that only warm up.
    ordered : bool
        Whether the order of the kernels is that of a run.
    totals_s : tuple of float
        Time of all kernels together, by run that counts; empty where runs are not told apart.
    between_s : float or None
        The median time that a run spends outside of its kernels, where that can be told.
    """

    format: str
    source: str
    sha256: str
    kernels: tuple[TimedKernel, ...]
    runs: int
    rule: str
    ordered: bool = True
    totals_s: tuple[float, ...] = ()
    between_s: float | None = None

    @property
    def total_s(self) -> float:
        """Time of all its kernels, the medians added up."""
        return float(sum(kernel.seconds for kernel in self.kernels))


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A kernel that no price has, what it takes, and why it has no node."""

    name: str
    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class MeasuredShare:
    """How much of a device's prices a profile gave, and what of the profile was not used.

    Attributes
    ----------
    profile : Profile
    measured : tuple of bool
        By node of the problem: whether its price is measured.
    nodes : int
        Nodes that the device can run.
    measured_s, modelled_s : float
        What all of them take on the device, by where their price is from.
    by_name_s, by_place_s : float
        What of the measured time was matched by names, and by the place of a kernel without one
        among those that have one.
    inside : int
        Measured nodes without a kernel of their own, which run inside that of a neighbour.
    unmatched : tuple of Unmatched
        Kernels that match no node that the device can run, those that take most first.
    elsewhere_s : float
        Time of the kernels that another unit ran; part of no price of this device.
    moved_s : float
        Time of copies between host and device: links are priced for them.
    """

    profile: Profile
    measured: tuple[bool, ...]
    nodes: int
    measured_s: float
    modelled_s: float
    by_name_s: float
    by_place_s: float
    inside: int
    unmatched: tuple[Unmatched, ...]
    elsewhere_s: float
    moved_s: float

    @property
    def share(self) -> float:
        """Part of the device's time that is measured, from 0 to 1."""
        whole = self.measured_s + self.modelled_s
        return self.measured_s / whole if whole > 0 else float(any(self.measured))

    @property
    def unmatched_s(self) -> float:
        """Time of the kernels that match no node."""
        return float(sum(kernel.seconds for kernel in self.unmatched))
