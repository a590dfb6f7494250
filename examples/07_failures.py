"""Two GPUs serve a model; one is lost for half a second, and then either of them now and again."""

import hetsim
from hetsim.workload.arrivals import Poisson
from hetsim.workload.deployment import Instances, Served

platform = hetsim.load_platform("dual-gpu")
each = (Instances(1, (gpu,), "single", max_in_flight=1) for gpu in ("gpu.0", "gpu.1"))
deployment = hetsim.Deployment((Served("zoo:resnet50", instances=tuple(each)),))
slo = hetsim.Slo(0.99, 0.02)
stream = hetsim.Stream("photos", "zoo:resnet50", Poisson(600), slos=(slo,))
once = hetsim.Failing((hetsim.Failure("gpu.0", 5.0, "kill", 0.5),))
often = hetsim.Failing(mtbf_s={"gpu": 10.0}, mttr_s=0.5)
for name, failing in (("once", once), ("now and again", often)):
    workload = hetsim.Workload((stream,), duration_s=20.0, failures=failing)
    service = hetsim.simulate(deployment, workload, platform=platform)
    failed = service.failures
    (model,), (photos,) = failed.models, failed.streams
    longest_s = max(model.recoveries_s)
    print(f"{name}: {sum(device.failures for device in failed.devices)} failures")
    print(f"  available {model.available:.1%} of the time, recovered in {longest_s:.3f} s at most")
    print(f"  {photos.lost} requests lost work, {photos.retried} were sent anew")
    for when in ("before", "during", "after"):
        period = getattr(photos, when)
        p99 = next(one for one in period.percentiles if one.percentile == 99)
        print(
            f"  {when:6} {period.requests:5} requests, p99 {1e3 * p99.estimate_s:6.1f} ms, "
            f"{period.on_time[0]:.1%} on time"
        )
    verdict = service.streams[0].objectives[0].verdict
    print(f"  {slo}: {verdict.answer}, {verdict.more} more requests would tell")
