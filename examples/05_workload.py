"""Which requests come, and when: two published traces again, and an even stream."""

import hetsim
from hetsim.workload.requests import requests_of, summary

workload = hetsim.load_workload("workload.yaml")
came, _ = summary(workload)
for one in came:
    asked = ", ".join(map(str, one.stream.slos))
    print(f"{one.stream.name:12} {one.requests} requests, {one.rate_per_s:.3g} a second: {asked}")
    print(f"{'':12} cv of the gaps between them {one.gap_cv:.2f}, a Poisson process has 1")

first = next(requests_of(workload))
for at in range(5):
    stream = workload.streams[first.stream[at]]
    print(f"{first.arrival_s[at]:.6f} s  {stream.name}: {stream.model}")

# Twice as many a second, at exactly half the times: what a platform carries is looked for so.
twice = next(requests_of(workload.faster(2)))
print("all at half the time:", all(twice.arrival_s[:100] == first.arrival_s[:100] / 2))
