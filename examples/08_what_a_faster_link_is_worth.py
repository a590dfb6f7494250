"""An accelerator behind one lane of PCI Express: what would more lanes give, to one request and
to many?"""

import hetsim
from hetsim.workload.arrivals import Poisson
from hetsim.workload.deployment import Deployment, Served
from hetsim.workload.workload import Stream, Workload

MODEL, STRATEGY = "zoo:mobilenet_v2", "hetero:npu,cpu"
platform = hetsim.load_platform("pi-5-hailo-8l")
model = hetsim.load_model(MODEL)
plan = hetsim.plan(hetsim.Problem.of(model, platform), STRATEGY)

print("what would move the latency of one request, 10 % better each:")
for one in hetsim.sensitivities(plan).changes:
    print(f"  {one.change:30} {one.kept:+.1%}")

served = Deployment((Served(MODEL, strategy=STRATEGY),))
stream = Stream("requests", MODEL, Poisson(250.0))
workload = Workload((stream,), requests=4000)
for lanes in (1, 2, 4):
    wide = hetsim.what_if(platform, f"link pcie3-x1.bandwidth x{lanes}")
    alone = hetsim.simulate(hetsim.plan(hetsim.Problem.of(model, wide), STRATEGY))
    service = hetsim.simulate(served, workload, platform=wide)
    (answered,) = service.streams
    print(
        f"x{lanes}: one request takes {1e3 * alone.latency_s:.2f} ms; of 250 a second the p99 is "
        f"{1e3 * answered.p99_s:.1f} ms, most used: {service.bottleneck}"
    )
