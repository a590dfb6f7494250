"""How many cards a server needs, and how many so that one may fail, or that it holds for a year."""

import hetsim
from hetsim.workload.arrivals import Poisson
from hetsim.workload.deployment import Instances, Served

MODEL = "zoo:resnet50"
UP = 0.995
"""What is asked about: that each card is up so much of its time."""

platform = hetsim.load_platform("gpu-server-8")
slo = hetsim.Slo(share=0.99, latency_s=0.01)
stream = hetsim.Stream("photos", MODEL, Poisson(1000.0), slos=(slo,))
workload = hetsim.Workload((stream,), requests=2**16)


def served(cards: int) -> hetsim.Deployment:
    """An instance on each of the first so many cards."""
    each = tuple(Instances(1, (f"gpu.{card}",), "single") for card in range(cards))
    return hetsim.Deployment((Served(MODEL, instances=each),))


def p99_ms(service: hetsim.Service) -> str:
    """Return the p99 of the photos."""
    return f"{1e3 * service.streams[0].p99_s:.2f} ms"


for cards in (2, 3):
    found = hetsim.survive(served(cards), workload, platform=platform, until_answered=True)
    often = hetsim.availability(
        served(cards),
        workload,
        platform=platform,
        target=0.9999,
        available={"gpu": UP},
        until_answered=True,
    )
    print(f"{cards} cards: {slo} {found.intact.answer} with all of them")
    [(count, names)] = found.worst.sets[0]
    alone = found.worst.service
    then = alone.state if alone.state == "overloaded" else f"p99 {p99_ms(alone)}"
    print(f"  without any {count} of {', '.join(names)}: {found.answer} ({then})")
    _, most = often.minutes_a_month
    print(
        f"  it holds {float(often.low):.4%} of the time, missed {most:.3g} minutes a month", end=""
    )
    print(f"; {float(often.target):.2%} is {often.answer}")
