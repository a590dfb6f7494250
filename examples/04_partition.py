"""Who runs what, and where it is cut: the steps apart, an exclusion, a reason, every method."""

import hetsim
from hetsim.partitioning.affinity import Exclusion
from hetsim.partitioning.regions import annotate

model, platform = hetsim.load_model("zoo:inception_v2"), hetsim.load_platform("rock-5b")
problem = hetsim.Problem.of(model, platform)

regions = annotate(problem)
for device in problem.devices:
    print(f"{device} offers to take {len(list(regions.of_device(device)))} of {problem.n} nodes")

# A toolkit that is slow at average pooling: the npu shall not have it.
slow = Exclusion("npu", ops=("AveragePool",))
wishes = hetsim.Affinity(exclude=(slow,), priority=("npu",), default="cpu")
for info in hetsim.methods():
    part = hetsim.partition(problem, info.name, affinity=wishes)
    print(f"{info.name:8} {len(part.groups)} subgraphs, {part.boundary_bytes} bytes cut")

part = hetsim.partition(problem, affinity=wishes)
node = next(node for node in part.left if problem.op_types[node] == "AveragePool")
print(f"{problem.node_names[node]} is left to the cpu: {part.left[node]}")
print(part.explain(node, part.groups[0].nodes[0]))
