"""Boards that come and go by Ray Serve's policy, on a trace of requests as they were published."""

import tempfile
from pathlib import Path

import hetsim
from hetsim.simulation.service.serving import fixed
from hetsim.workload.arrivals import Replay
from hetsim.workload.autoscaling import Autoscaling
from hetsim.workload.deployment import Instances, Served

BOARDS = 8
MODEL, TRACE = "zoo:gpt2_6layer", "traces/AzureLLMInferenceTrace_code.csv"
names = [f"pi.{k}" for k in range(BOARDS)]
RACK = "host: gateway\ndevices:\n  gateway: rockchip-rk3588-cpu\n"
RACK += "".join(f"  {name}: raspberry-pi-5-cpu\n" for name in names)
RACK += "links:\n" + "".join(f"  - {{between: [gateway, {name}], link: eth1}}\n" for name in names)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "rack.yaml")
    path.write_text(RACK)
    rack = hetsim.load_platform(path)

slo = hetsim.Slo(0.95, 20.0)
stream = hetsim.Stream("code", MODEL, Replay(TRACE), slos=(slo,))
workload = hetsim.Workload((stream,), duration_s=1200.0)
boards = tuple(Instances(devices=("gateway", name), strategy=f"single:{name}") for name in names)
quick = {"metrics_interval_s": 1.0, "look_back_period_s": 10.0}
quick |= {"upscale_delay_s": 2.0, "downscale_delay_s": 60.0}
rows = []
for label, changes in (("Ray Serve's defaults", {}), ("quicker to come and go", quick)):
    scaling = Autoscaling(max_replicas=BOARDS, startup_s=20.0, **changes)
    served = Served(MODEL, instances=boards, autoscaling=scaling)
    service = hetsim.simulate(hetsim.Deployment((served,)), workload, platform=rack)
    rows.append((label, service))
rows += [(f"{one.scaled[0].most} all along", one) for one in fixed(service, rack)]

print(f"{'replicas':24}   mean  starts  replica-hours      p95  on time")
for label, service in rows:
    (scaled,), (code,) = service.scaled, service.streams
    p95_s = next(one.estimate_s for one in code.percentiles if one.percentile == 95)
    print(
        f"{label:24} {scaled.mean:6.2f}  {scaled.starts:6}  {scaled.replica_hours:13.3f} "
        f"{p95_s:6.1f} s  {code.objectives[0].on_time:7.1%}"
    )
fewest = rows[0][1].scaled[0].fewest
print(f"{slo}: no scaling that keeps it needs fewer than {fewest.replica_s / 3600:.3f}")
