"""What cannot be done: its exit code, one line that says what to do, and nothing written."""

from __future__ import annotations

import shlex
from pathlib import Path

import onnx
import pytest
from onnx import parser

from builders import BOX
from cli.conftest import tiny_model
from cli_calls import call, refused
from deployments import model_at
from platforms import CPU_AND_NPU

BROKEN = Path(__file__).parents[1] / "hardware" / "broken"
RUN = f"run dense_1_64.onnx --platform {BOX} --executor threads"
"""A run for real."""
OF_MODEL = "belongs to 'hetsim recommend MODEL --rate"
OF_FILE = "belongs to 'hetsim recommend --workload FILE'"

REFUSED: dict[str, list[tuple[str, int, str]]] = {
    "simulate tiny.onnx --platform pair.yaml": [
        ("--rate -3", 2, "'-3' is not a rate above 0"),
        ("--rate nan", 2, "'nan' is not a rate above 0"),
        ("--rate 1e300 --requests 5", 3, "above 1e+12"),
        ("--rate 3 --concurrency 2", 2, "both of --rate and --concurrency are given; give one"),
        ("--slo p99=3ms", 2, "neither of --rate and --concurrency is given"),
        ("--within 2%", 2, "neither of --rate and --concurrency is given"),
        ("--rate 3 --slo p100=3ms", 3, "100 is not a percentile"),
        ("--rate 3 --slo p0=3ms", 3, "0 is not a percentile"),
        ("--rate 3 --slo p99=3", 3, "the time has no unit"),
        ("--rate 3 --within 0%", 2, "'0%' is not a share above 0, e.g. 2%"),
        ("--rate 3 --within p99", 2, "'p99' is not a share above 0, e.g. 2%"),
        ("--rate 3 --arrivals gamma:x", 2, "is not gamma:CV"),
        ("--rate 3 --arrivals burst:1.5", 2, "is not burst:SIZE"),
        ("--rate 3 --arrivals gamma:99", 3, "cv is 99"),
        ("--concurrency 3 --arrivals poisson", 2, "--arrivals needs --rate"),
        ("--rate 3 --think 3ms", 2, "--think needs --concurrency"),
        ("--concurrency 3", 2, "give --requests or --duration"),
        ("--rate 3 --batching x", 2, "is not MAX[:TIME]"),
        ("--rate 3 --batching 0", 3, "max_batch_size is 0"),
        ("--rate 3 --batching 4", 3, "cannot run batches of 1, 2, 4"),
        ("--rate 3 --samples 3", 2, "--samples belongs to 'hetsim simulate MODEL'"),
        ("--rate 3 --inject 'kill gpu at 1ms'", 2, "there is no device 'gpu' to fail"),
        ("--rate 3 --mtbf 2h", 2, "--mtbf needs --mttr"),
        ("--rate 3 --mtbf 2h --mttr x=5min", 2, "no device 'x' for mttr_s"),
        ("--rate 3 --mtbf 2", 2, "'2': write a number and h, min, s"),
        ("--rate 3 --mtbf 2h --mtbf 1h", 2, "one time for all, or DEVICE=TIME"),
        ("--rate 3 --strategy hefd", 2, "did you mean 'heft'?"),
        ("--rate 3 --dim q=2", 2, "no input has a dimension named 'q'"),
        ("--rate 3 --workload w.yaml", 2, "a workload names its models"),
        ("--rate 3 --price cpu", 2, "is not NAME=PRICE"),
        ("--rate 3 --price cpu=1/w", 2, "'1/w' is not a price"),
        ("--rate 3 --price xpu=1/h", 2, "a price for 'xpu', which the platform does not have"),
        ("--rate 3 --tariff 0", 2, "is not a finite number above 0"),
        ("--set max_devices=none", 2, "--set max_devices: 'none'"),
        ("--strategy single --set max_devices=1", 2, "'single' has no option"),
        ("--strategy single:cpu --affinity first.yaml", 2, "cannot go with"),
        ("--affinity missing.yaml", 2, "missing.yaml"),
        ("--affinity fist.yaml", 3, "fist.yaml:2"),
        ("--affinity first.yaml --set 'pins={\"first\": \"npu\"}'", 2, "both set pins"),
        ("--strategy auto --set objective=throughput", 2, "use --objective"),
        ("--objective throughput", 2, "'heft' plans for latency, not for throughput"),
        ("--strategy hefd", 2, "did you mean 'heft'"),
        ("--strategy single:npu", 4, "does not support"),
        ('--set \'capacity_bytes={"cpu":1,"npu":1}\'', 4, "1 bytes"),
        ("--strategy hetero:npu,cpu --inject 'kill cpu at 0s'", 4, "no remaining device can run"),
        ("--inject 'kill npu at noon'", 2, "'kill npu at noon': 'noon' is not a time"),
        ("--inject 'kill gpu at 1s'", 2, "there is no device 'gpu' to fail"),
        ("--inject 'kill npu at 1s' --sensitivities", 2, "leave --inject out"),
    ],
    "simulate x.onnx --platform laptop": [
        ("--target 7", 2, "'7' has no unit; write e.g. 7s, 7ms, 7min"),
        ("--target soon", 2, "'soon' is not a duration; write e.g. 10s"),
        ("--target 0", 2, "'0' is not above 0"),
        ("--strategy h", 2, "no strategy 'h'"),
        ("--strategy heft --strategy peft", 2, "compare several"),
        ("--sustained --sensitivities", 2, "--sensitivities tells of devices as fast as alone"),
        ("--execute npu", 2, "models cannot be executed in 'npu'"),
        ("--execute npu=", 2, "is not DEVICE=PRECISION"),
        ("--execute npu=int8,", 2, "'' is not DEVICE=PRECISION"),
        ("--execute npu=int8,npu=float16", 2, "'npu' is given twice"),
        ("--execute nqu=int8", 2, "no device 'nqu' on platform 'laptop' to execute in int8; did"),
        ("--execute npu=half", 2, "models cannot be executed in 'half'"),
        ("--execute npu=bfloat16", 2, "no peak rate for bfloat16 (intel-core-ultra-155h-npu has"),
    ],
    "compare x.onnx --platform laptop": [
        ("--timeout 9s", 2, "no effect without --run"),
        ("--platform a", 2, "takes a list, e.g. rock-5b"),
        ("--objective latency --objective latency", 2, "'--objective'"),
        ("--what-if 'gpux.speed x2'", 2, "no device or link 'gpux' on laptop"),
        ("--sustained --explain", 2, "--explain tells of devices as fast as alone"),
        ("--sustained --sensitivities", 2, "devices as fast as alone; leave --sustained"),
    ],
    "compare tiny.onnx --platform laptop": [
        ("--dim batch=2", 2, "batch"),
        ("--shape z=2,8", 2, "'z'"),
        ("--shape x=2,9", 2, "x"),
        ("--shape x=2", 2, "x"),
        ("--measured cpu", 2, "is not DEVICE=MODEL:TIME"),
        ("--measured tpu=zoo:squeezenet:4ms", 2, "no device 'tpu'"),
        ("--measured cpu=zoo:squeezenet:4", 2, "the time '4' has no unit; write 4ms"),
        ("--measured cpu=none.csv", 2, "none.csv: no such file"),
        ("--profile npu", 2, "'npu' is not DEVICE=FILE"),
        ("--profile =x.json", 2, "is not DEVICE=FILE"),
        ("--profile npu=a.json --profile npu=b.json", 2, "'npu' is given twice"),
        ("--profile tpu=a.json", 2, "no device 'tpu'"),
        ("--profile npu=none.json", 2, "none.json: no such file"),
    ],
    "partition x.onnx --platform laptop": [
        ("y.onnx", 2, "unexpected extra argument"),
        ("--priority cpu,,gpu", 2, "--priority"),
        ("--priority cpu,cpu", 2, "--priority"),
        ("--set min_nodes=2 --set min_nodes=3", 2, "is given twice"),
    ],
    "partition tiny.onnx --platform pair.yaml --onnx parts --dot p.dot": [
        ("--affinity none.json", 2, "none.json: no such file"),
        ("--affinity bad.json", 3, "bad.json:2: no node 'frist' in"),
        ("--affinity half.json", 3, "half.json:1: not YAML"),
        ("--affinity lacks.json", 4, "'choose' (Where): it is pinned to 'npu'"),
        ("--affinity model", 3, "no node has a device in its metadata"),
        ("--priority npu", 4, "no device of npu supports it"),
        ("--priority npu,npu", 2, "not a list of different devices"),
        ("--priority tpu", 2, "no device 'tpu'"),
        ("--method byco", 2, "did you mean 'byoc'"),
        ("--method byoc --priority cpu,npu", 4, "needs a default device"),
        ("--set housekeeping=folow", 2, "did you mean 'follow'"),
        ("--set housekeeping_ops=Relu", 2, "without a way to treat them"),
        ("--set housekeeping=default --set housekeeping_ops=Rleu", 3, "no op type 'Rleu'"),
        ("--set housekeeping=default --set housekeeping_ops=", 2, "empty op type"),
        ("--set min_node=4", 2, "did you mean 'min_nodes'"),
        ("--set min_nodes=x", 2, "no whole number"),
        ("--set min_nodes=0", 2, "min_nodes is 0"),
        ("--set fit_weights=1", 2, "neither true nor false"),
        ("--method all", 2, "--dot"),
    ],
    "inspect": [
        ("x --dim n=1 --dim n=2", 2, "'n' is given twice"),
        ("x --dims n=1", 2, "no option '--dims'; did you mean '--dim'?"),
        ("tiny.onnx --execute npu=int8", 2, "--execute needs a platform; give --platform, too"),
        ("x.onnx --platform laptop --execute npu=half", 2, "cannot be executed in 'half'"),
        ("rates.onnx --freeze sr", 2, "is not NAME=VALUE"),
        ("rates.onnx --freeze sr=fast", 2, "not a value of type int64"),
        ("rates.onnx --freeze rate=1", 2, "no input named 'rate'"),
        ("rates.onnx --input no.npz", 2, "no such file"),
        ("rates.onnx --input a.npz --input x=b.npy", 2, "give it alone"),
        ("rates.onnx --input picture", 2, "no FILE.npz"),
        ("rates.onnx --dim 'x[7]=2'", 2, "no input has a dimension named 'x[7]'"),
        ("--nodes", 2, "MODEL or FILE is missing"),
        ("--nodes tiny.onnx --platform pair.yaml --device nps", 2, "did you mean 'npu'"),
        ("--nodes tiny.onnx --platform pair.yaml --set a=1", 2, "give --strategy, too"),
        ("--nodes tiny.onnx --platform pair.yaml --objective latency", 2, "give --strategy, too"),
        ("tiny.onnx --strategy heft", 2, "--strategy needs --nodes or --lint"),
        ("tiny.onnx --nodes --fail-on 5%", 2, "--fail-on needs --lint"),
        ("tiny.onnx --without npu", 2, "--without needs a platform"),
        ("tiny.onnx tiny.onnx", 2, "a model takes one file, and 2 are given"),
        ("no-such.yaml", 2, "no-such.yaml: no such file"),
        ("zoo:squeezenet --extension absent.onnx", 2, "no such file"),
    ],
    "inspect --lint tiny.onnx --platform pair.yaml --strategy hetero:npu,cpu": [
        ("--device nps", 2, "did you mean 'npu'"),
        ("--fail-on soon", 2, "'soon' is not a duration or a percentage; write e.g. 2ms or 5%"),
        ("--fail-on -1%", 2, "e.g. 2ms or 5%"),
        ("--set max_device=1", 2, "max_devices"),
    ],
    "simulate --max-rate tiny.onnx --platform pair.yaml --strategy single:cpu": [
        ("", 2, "--max-rate needs an objective"),
        ("--slo p90=1ms --arrivals often", 2, "no kind of arrivals"),
        ("--slo fast", 3, "is not an objective"),
        ("--slo p90=1ms --batching x", 2, "MAX[:TIME]"),
        ("--slo p90=1ms --batching 4", 3, "cannot run batches"),
        ("--slo p90=1ms --strategy hefd", 2, "did you mean 'heft'"),
        ("--slo p90=1ms --target-rate 0", 2, "target-rate"),
    ],
    "simulate dense_1_64.onnx --platform pair.yaml --strategy single:npu --rate 3 --slo p90=1s": [
        ("--availability 0.9999", 2, "no availability is given for npu"),
        ("--available npu=0.9", 2, "--available needs --availability"),
        ("--availability 1.5", 2, "--availability: '1.5' is not a share of time"),
        ("--availability 0.9 --available npu=x", 2, "'x' is not a share of time"),
        ("--availability 0.9 --available npu", 2, "is not NAME=SHARE"),
        ("--survive 0", 2, "--survive"),
        ("--survive 1 --mtbf 1h --mttr 1min", 2, "lost devices stay away"),
    ],
    "simulate": [
        ("--platform pair.yaml", 2, "give MODEL, PLAN.json, or --workload FILE"),
        ("tiny.onnx --platform none.yaml", 2, "none.yaml"),
        ("plan.json --platform laptop", 2, "--platform cannot go with a saved plan"),
        ("plan.json --dim n=1", 2, "--dim cannot go with a saved plan"),
        ("plan.json --set max_devices=1", 2, "--set cannot go with a saved plan"),
        ("plan.json --objective latency", 2, "--objective cannot go with a saved plan"),
        ("plan.json --cost roofline", 2, "--cost cannot go with a saved plan"),
        ("plan.json --without npu", 2, "--without cannot go with a saved plan"),
        ("plan.json --execute npu=int8", 2, "--execute cannot go with a saved plan, which sets"),
        ("plan.json --measured cpu=x.onnx:4ms", 2, "--measured cannot go with a saved plan"),
        ("plan.json --profile npu=x.json", 2, "--profile cannot go with a saved plan"),
        ("plan.json --input x.npz", 2, "--input cannot go with a saved plan"),
    ],
    "run": [
        ("plan.json --strategy heft", 2, "--strategy cannot go with a saved plan"),
        ("plan.json --objective latency", 2, "--objective cannot go with a saved plan"),
        ("plan.json --contention none", 2, "--contention cannot go with a saved plan"),
        ("plan.json --what-if 'npu.speed x2'", 2, "--what-if cannot go with a saved plan"),
        ("x --input x", 2, "NAME=FILE.npy"),
        ("x --input =x.npy", 2, "NAME=FILE.npy"),
        ("x --timeout 0s", 2, "above 0"),
        ("x --seed -1", 2, "x>=0"),
        ("x --executor processes", 2, "'ray', 'threads'"),
        ("x --executor threads --address h:1", 2, "--executor ray"),
        ("x", 2, "x: no such file"),
        ("zoo:resnet18", 2, "no platform is given"),
        ("x --input x=a.npy --input x=b.npy", 2, "'x' is given twice"),
        ("tiny.onnx --platform pair.yaml --inject 'kill npu at noon'", 2, "'noon' is not a time"),
        ("--platform pair.yaml --executor threads", 2, "no model is given"),
    ],
    RUN: [
        ("--time-scale 2", 2, "--time-scale belongs to 'hetsim run MODEL --emulate'"),
        ("--requests 2", 2, "--requests belongs to 'hetsim run MODEL --emulate'"),
        ("--emulate --time-scale 0", 2, "not a finite number above 0"),
        ("--emulate --requests 0", 2, "0 is not in the range"),
        ("--emulate --inject 'kill cpu at 1ms'", 2, "--inject belongs to 'hetsim run MODEL'"),
        ("--emulate --precision device", 2, "--precision belongs to 'hetsim run MODEL'"),
        ("--slo p99=1ms", 2, "neither of --rate and --concurrency is given"),
        ("--rate 5", 2, "the run has no end; give --requests, or --duration"),
        ("--rate 5 --time-scale 2", 2, "--time-scale belongs to 'hetsim run MODEL --emu"),
        ("--rate 5 --inject 'kill cpu at 1ms'", 2, "--inject belongs to 'hetsim run MODEL'"),
        ("--rate 5 --within 2%", 2, "no option '--within'"),
        ("--rate 5 --survive 1", 2, "no option '--survive'"),
        ("--rate 5 --requests 9 --loading on_demand", 2, "loading on_demand is only simulated"),
        ("--rate 5 --concurrency 2 --requests 3", 2, "both of --rate and --concurrency are given"),
        ("--workload w.yaml", 2, "and --workload are both given"),
    ],
    "recommend": [
        ("", 2, "no model is given; write 'hetsim recommend MODEL --rate RATE'"),
        ("--platform pair.yaml", 2, "give --workload FILE"),
        ("x.onnx", 2, "'hetsim recommend MODEL --rate RATE' needs --rate"),
        ("x.onnx --rate 5", 2, "'hetsim recommend MODEL --rate RATE' needs --slo"),
        ("x.onnx --rate 5 --platform rock-5b", 2, "give --catalog rock-5b in place of"),
        ("x.onnx --workload w", 2, f"MODEL {OF_MODEL}"),
        ("x.onnx --demand 1", 2, f"--demand {OF_FILE}"),
        ("--verify c --rate 5", 2, f"--rate {OF_MODEL}"),
        ("--workload w --dim n=1", 2, f"--dim {OF_MODEL}"),
        ("--workload w --placements 1", 2, f"--placements {OF_FILE[:30]}"),
        ("--verify none.json", 2, "none.json"),
    ],
    "compile": [
        ("x -o a --out b", 2, "'--out' takes one value"),
        ("plan.json --contention none --out folder", 2, "--contention cannot go with a saved plan"),
        ("tiny.onnx --platform pair.yaml", 2, "--out"),
        ("no.onnx --platform pair.yaml -o d", 2, "no.onnx"),
    ],
    "cluster check": [
        ("", 2, "FILE is missing"),
        ("--measure --address auto", 2, "--measure needs --address and --platform"),
        ("--measure --platform laptop x.yaml", 2, "--measure needs"),
        ("--address nowhere", 2, "'nowhere' is not host:port"),
        ("--address ray://head:10001", 2, "is not host:port"),
        ("no-such.yaml", 2, "no such file"),
        ("no-such.yaml --platform latop", 2, "latop"),
    ],
    "devices": [
        ("shw x", 2, "no command 'shw'; did you mean 'show'?"),
        ("query rock-5b tiny.onnx", 2, "'rock-5b' is a platform, and a query needs one device"),
        ("query pcie4-x16 tiny.onnx", 2, "'pcie4-x16' is a link"),
        ("query nvidia-l44 tiny.onnx", 2, "did you mean 'nvidia-l4'?"),
        ("query ./no-such.yaml tiny.onnx", 2, "no-such.yaml: no such file"),
        ("query nvidia-l4 no-such.onnx", 2, "no-such.onnx"),
        (f"query {BROKEN / 'device_zero_bandwidth.yaml'} tiny.onnx", 3, "must be above 0, not 0"),
    ],
    "devices calibrate": [
        ("cpu", 2, "--out is missing; give -o my-cpu.yaml"),
        ("cpu -o x.json", 2, "'x.json' is not a device file name"),
        ("cpu -o x.yaml --budget soon", 2, "'soon' is not a duration"),
        ("cpu -o x.yaml --budget 0s", 2, "'0s' is not above 0"),
        ("cpu -o x.yaml --networks 3", 2, "3 networks are too few for a fit"),
        ("cpu -o x.yaml --threads 4096", 2, "4096 threads on"),
        ("cpu -o x.yaml --judge squeezent", 2, "did you mean 'squeezenet'?"),
        ("cpus -o x.yaml", 2, "no execution provider 'cpus'; did you mean 'cpu'?"),
        ("directml -o x.yaml", 3, "lacks DmlExecutionProvider; it has"),
    ],
    "": [
        ("partition", 2, "Missing argument 'MODEL'"),
        ("x.onnx --slo p99=5ms", 2, "no option '--slo'; verbs that have it: recommend, sim"),
    ],
}  # fmt: skip
"""By how the command begins: how it goes on, its exit code, and what it says."""

FILES = {
    "pair.yaml": CPU_AND_NPU,
    "first.yaml": "pins:\n  first: npu\n",
    "fist.yaml": "pins:\n  fist: npu\n",
    "bad.json": '{"pins":\n{"frist": "npu"}}',
    "half.json": '{"pins": {"first": "npu"',
    "lacks.json": '{"choose": "npu"}',
}

RATES = """
<ir_version: 8, opset_import: ["": 17]>
rates (float[batch, anything] x, int64 sr) => (float[batch, anything] y) { y = Identity(x) }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models, platforms and wishes; nothing that is refused adds to them."""
    path = tmp_path_factory.mktemp("refused")
    onnx.save(tiny_model(), path / "tiny.onnx")
    onnx.save(parser.parse_model(RATES), path / "rates.onnx")
    model_at(path, 1, 64)
    for name, text in FILES.items():
        (path / name).write_text(text)
    return path


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [(f"{of} {words}", *told) for of, each in REFUSED.items() for words, *told in each],
)
def test_it_is_one_line_that_helps(
    words: str, code: int, says: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    refused(call(*shlex.split(words)), code, says)
    assert sorted(folder.rglob("*")) == before
