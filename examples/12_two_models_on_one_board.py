"""Two models on one board: which of its devices serve which, and what each waits for the other."""

import hetsim
from hetsim.workload.arrivals import Poisson

board = hetsim.load_platform("jetson-orin-nano")
limit = hetsim.Slo.at_percentile(99, 0.06)
workload = hetsim.Workload(
    (
        hetsim.Stream("camera", "zoo:resnet18", Poisson(120.0), slos=(limit,)),
        hetsim.Stream("speech", "zoo:bert_small", Poisson(120.0), slos=(limit,)),
    ),
    requests=150_000,
)

found = hetsim.place(workload, board, strategies=["heft"], most=2)
print(f"the best carries {found.factor:.3g} times the demand; no other more than {found.bound:.3g}")
for row in found.rows:
    where = ", ".join(f"{one.model[4:]} on {'+'.join(one.devices)}" for one in row.instances)
    print(f"  {where}; {row.waits}")
    print(f"    {row.factor:.3g}x, {row.answer}, p99 {row.near:.2f} of its limit")

print("what each does alone, and with the other:")
for one in found.apart:
    alone, both = one.alone, one.together
    print(
        f"  {one.stream}: p99 {alone.p99_s * 1e3:.1f} and {both.p99_s * 1e3:.1f} ms, "
        f"mean {alone.mean_s * 1e3:.1f} and {both.mean_s * 1e3:.1f} ms"
    )

again = hetsim.simulate(found.deployment, workload.faster(1.25), platform=board)
print(f"a quarter faster: {', '.join(f'{s.name} {s.p99_s * 1e3:.0f} ms' for s in again.streams)}")
