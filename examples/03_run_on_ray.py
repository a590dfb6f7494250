"""Run a split model on Ray, one actor a device, and hold it against the whole model."""

import hetsim

model = hetsim.load_model("zoo:bert_small")
problem = hetsim.Problem.of(model, hetsim.load_platform("rock-5b"))
plan = hetsim.plan(problem, "hetero:npu,gpu,cpu")
print(f"{len(plan.groups)} subgraphs on {', '.join(plan.devices_used)}")

run = hetsim.run(plan)
for name, array in run.outputs.items():
    print(f"{name}: {array.dtype} {array.shape}")
print("bitwise equal to the whole model:", run.bitwise_equal)
