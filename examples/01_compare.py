"""Where should ResNet-50 run on a laptop with a CPU, an integrated GPU and an NPU?"""

import hetsim
from hetsim.core.units import format_seconds

model = hetsim.load_model("zoo:resnet50")
platform = hetsim.load_platform("laptop")
problem = hetsim.Problem.of(model, platform)

table = hetsim.compare(problem, ["single", "hetero", "heft"])
for row in table.rows:
    if row.latency_s is None:
        print(f"{row.strategy:12} {row.reason}")
    else:
        print(f"{row.strategy:12} {format_seconds(row.latency_s):>8} in {row.groups} subgraphs")

print(f"no plan is faster than {format_seconds(table.bound_s)}")
