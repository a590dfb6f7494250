"""Why does a part of GoogLeNet not run on the NPU of a ROCK 5B, what does that cost, and what would
change it?"""

import hetsim

problem = hetsim.Problem.of(hetsim.load_model("zoo:inception_v1"), hetsim.load_platform("rock-5b"))
plan = hetsim.plan(problem, "heft")
print(f"one request takes {1e3 * hetsim.simulate(plan).latency_s:.2f} ms by {plan.strategy}")

told = hetsim.nodes(plan, device="npu")
fallen = [node for node in told.nodes if node.falls_back]
print(f"\n{len(fallen)} of {len(told.nodes)} nodes are not on the npu; of each, what that costs:")
for node in sorted(fallen, key=lambda node: -node.cost_s)[:5]:
    there = f"{1e6 * node.preferred_s:.0f} us" + (", supposed" if node.supposed else "")
    print(
        f"  {node.name:4} {node.op:8} {node.device} {1e6 * node.seconds:.0f} us, npu {there}; "
        f"moves {1e6 * node.moves_s:.0f} us; {node.why}"
    )

found = hetsim.lint(problem, "heft", device="npu")
print("\nwhat would help, planned again by heft after each change:")
for one in found.findings:
    print(f"  {one.gain:5.1%}  to {1e3 * one.after_s:.2f} ms  {one.what}: {one.change.say}")
refused = next(one for one in found.findings if one.kind == "refused-op")
print(f"\n{refused.what} in {', '.join(refused.file_nodes)}: {1e6 * refused.gain_s:.0f} us")
