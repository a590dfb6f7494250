"""The cheapest platform for a published trace, what comes next, and why nothing cheaper does."""

import hetsim
from hetsim.workload.arrivals import Replay

came = Replay("traces/AzureLLMInferenceTrace_conv.csv", speed_up=400)
slos = (hetsim.Slo(share=0.99, latency_s=0.1),)
stream = hetsim.Stream("conversation", "zoo:bert_small", came, slos=slos)
workload = hetsim.Workload((stream,), requests=800)

found = hetsim.recommend(workload, "catalog.yaml", tariff_usd_per_kwh=0.3, depreciation_years=3)
best = found.require()
print(f"{found.vectors} platforms of up to 8 devices; {len(found.policies)} policies are tried")
print(f"plans: {found.plans}")
print(f"best: {dict(best.counts)}, {best.cost:.4f} USD an hour, {best.policy}")
for one in best.service.streams:
    for objective in one.objectives:
        print(f"  {one.name}: {objective.slo}, {objective.on_time:.2%} on time")
print(f"next: {dict(found.runner_up)}, {found.runner_up_cost:.4f} USD an hour")

for excuse in found.excuses:
    which = dict(excuse.counts) if excuse.counts else f"{excuse.vectors} platforms"
    print(f"not {which}: {excuse.what} ({'proved' if excuse.proved else 'tried'})")
print(f"not {found.dearer} platforms: they cost more")

short = found.binding
print(f"nearest that costs less: {dict(short.counts)}: {short.what}")
for lever in short.levers:
    print(f"  {'enough' if lever.enough else 'at least'}: {lever.what}")
