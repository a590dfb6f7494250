"""An hour of two services of Azure's again, and a camera, on two platforms, also faster."""

import hetsim

workload = hetsim.load_workload("workload.yaml")
deployment = hetsim.load_deployment("deployment.yaml")
for name in ("laptop", "rock-5b"):
    platform = hetsim.load_platform(name)
    for faster in (1, 5):
        service = hetsim.simulate(deployment, workload.faster(faster), platform=platform)
        print(f"{name}, {faster} x: {service.state}, most used: {service.bottleneck}")
        for stream in service.streams:
            wait_ms, work_ms = 1e3 * stream.queue.mean_s, 1e3 * stream.service.mean_s
            print(
                f"  {stream.name:12} {stream.answered} of {stream.requests} answered: "
                f"{work_ms:.2f} ms of service, {wait_ms:.2f} ms of waiting"
            )
            for objective in stream.objectives:
                said = objective.verdict
                more = f", {said.more} more requests would tell" if said.more else ""
                on_time = f"{objective.on_time:.1%} on time"
                print(f"    {objective.slo}: {on_time}, {said.answer}{more}")
        print(f"  {service.energy_per_1000_j:.0f} J for 1000 requests on time")
