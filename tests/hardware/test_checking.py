"""Files checked: what they describe, or every complaint with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from hardware.conftest import Write
from hetsim.errors import PlatformError
from hetsim.hardware.catalog import device_names, load_device, load_link, load_platform
from hetsim.hardware.files.checking import check_file, doubtful_peaks, sort_of
from hetsim.hardware.files.platform_schema import LinkModel
from hetsim.hardware.spec import DeviceSpec, Platform

DEVICE = """\
kind: npu
full_name: Own
peak_tflops: {float16: 4, int8: 8}
memory_bandwidth_gbytes_s: 30
memory_gib: 2
launch_us: 3
dispatch_us: 100
streams: 1
idle_w: 0.1
busy_w: 2
efficiency: {default: 0.1, conv: 0.3}
memory_efficiency: 0.5
"""
LINK = "full_name: Cable\nlatency_us: 2\nbandwidth_gbytes_s: 3\nefficiency: 0.5\n"
PLATFORM = """\
host: cpu
devices:
  cpu: amd-epyc-7763
  npu: ./own.yaml
links:
  - {between: [cpu, npu], link: ./cable.yaml}
"""


def messages(given: str) -> list[str]:
    """Line and complaint of each error, without the folder."""
    return [f"{error.where}: {error.what}".rpartition("/")[2] for error in check_file(given).errors]


@pytest.mark.parametrize(
    ("peaks", "doubt"),
    [
        ({"float16": 4, "int8": 16}, ""),
        ({"float16": 4, "int8": 32}, "int8 is 8 times float16"),
        ({"bfloat16": 4, "int8": 32}, "int8 is 8 times bfloat16"),
        ({"float32": 2, "float16": 64, "int8": 128}, "float16 is 32 times float32"),
        ({"float32": 2, "int8": 40}, "int8 is 20 times float32"),
    ],
)
def test_a_peak_that_may_count_sparse_weights_is_doubted(
    write: Write, peaks: dict[str, float], doubt: str
) -> None:
    text = DEVICE.replace("{float16: 4, int8: 8}", str(peaks).replace("'", ""))
    (*doubts,) = check_file(write("own.yaml", text)).doubts
    assert [one.partition(", and")[0] for one in doubts] == [f"peak_tflops: {doubt}"] * bool(doubt)


def test_no_peak_of_the_catalog_is_doubted() -> None:
    assert not [name for name in device_names() if [*doubtful_peaks(load_device(name).flops_per_s)]]


def test_valid_files_are_what_the_loader_makes_of_them(write: Write) -> None:
    device, link = write("own.yaml", DEVICE), write("cable.yaml", LINK)
    platform = write("box.yaml", PLATFORM)
    for given, sort, kind, load in (
        (device, "device", DeviceSpec, load_device),
        (link, "link", LinkModel, load_link),
        (platform, "platform", Platform, load_platform),
    ):
        checked = check_file(given)
        assert (checked.file, checked.sort, checked.errors) == (given, sort, ())
        assert checked.name == Path(given).stem
        assert isinstance(checked.found, kind)
        assert checked.found == load(given)


def test_a_file_is_called_what_it_calls_itself(write: Write) -> None:
    assert check_file(write("a.yaml", "name: mine\n" + DEVICE)).name == "mine"
    write("own.yaml", DEVICE)
    write("cable.yaml", LINK)
    assert check_file(write("b.yaml", "name: box\n" + PLATFORM)).name == "box"


@pytest.mark.parametrize(
    ("keys", "sort"),
    [
        (("kind",), "device"),
        (("full_name", "memory_gb"), "device"),
        (("full_name", "efficiency"), "device"),
        (("latency_us",), "link"),
        (("full_name", "latency_ms", "bandwidth_gbits_s"), "link"),
        (("name", "full_name", "devices"), "platform"),
        (("hosts", "name"), "platform"),
        (("device",), "platform"),
        (("colour", "x"), None),
        ((), None),
    ],
)
def test_keys_tell_what_a_file_is_meant_to_describe(
    keys: tuple[str, ...], sort: str | None
) -> None:
    assert sort_of(dict.fromkeys(keys)) == sort


def test_a_file_of_something_else_is_said_to_be_none(write: Write) -> None:
    given = write("other.yaml", "# a comment\nreplicas: 3\n")
    checked = check_file(given)
    assert checked.sort is None
    (error,) = checked.errors
    assert error.where == f"{given}:2"
    assert error.what == "no key of this file says what it describes"


@pytest.mark.parametrize("given", ["no/such.yaml", "."])
def test_what_cannot_be_read_is_one_error_without_a_line(given: str) -> None:
    checked = check_file(given)
    assert checked.found is None
    assert [error.where for error in checked.errors] == [given]


def test_relations_of_values_are_checked_beside_other_mistakes(write: Write) -> None:
    text = DEVICE.replace("memory_gib: 2", "memory_gib: two").replace("busy_w: 2", "busy_w: 0.01")
    text = text.replace("{default: 0.1, conv: 0.3}", "{conv: 0.3}")
    text += "execution_dtype: {float32: float64, int16: int32, int64: int8}\n"
    text += "support: {max_rank: -1, ops: [Conv], except: [Relu]}\n"
    assert messages(write("own.yaml", text)) == [
        "own.yaml:5: 'memory_gib' must be a number, not 'two'",
        "own.yaml:10: 'busy_w' of 0.01 is below 'idle_w' of 0.1",
        "own.yaml:11: 'efficiency' has no 'default'",
        "own.yaml:13: 'execution_dtype.float32' computes in float64, "
        "for which 'peak_tflops' has no value",
        "own.yaml:13: 'execution_dtype.int16' computes in int32, "
        "for which 'peak_tflops' has no value",
        "own.yaml:14: 'support.except' stands beside 'ops'",
        "own.yaml:14: 'support.max_rank' must be 0 or more, not -1",
    ]


def test_entries_of_a_platform_are_checked_each_for_itself(write: Write) -> None:
    text = """\
host: gpu
colour: red
devices:
  cpu: amd-epyc-776
  npu: {device: no-such, overides: {}}
  dsp: 4
links:
  - {between: [cpu, npu], link: pcie4_x16, duplex: half}
  - {between: [cpu, dps], link: pcie4-x16}
  - {between: [dsp, dsp]}
"""
    assert messages(write("box.yaml", text)) == [
        "box.yaml:1: unknown host 'gpu'",
        "box.yaml:2: unknown key 'colour'",
        "box.yaml:4: no device 'amd-epyc-776' in the catalog",
        "box.yaml:5: no device 'no-such' in the catalog",
        "box.yaml:5: unknown key 'overides'",
        "box.yaml:6: 'devices.dsp' must be a name, a path or a mapping",
        "box.yaml:8: 'links[0].duplex' must be true or false, not 'half'",
        "box.yaml:8: no link 'pcie4_x16' in the catalog",
        "box.yaml:9: link to an unknown device 'dps'",
        "box.yaml:10: link of 'dsp' with itself",
        "box.yaml:10: missing key 'bandwidth_gbytes_s'",
        "box.yaml:10: missing key 'latency_us'",
    ]


def test_files_that_a_platform_names_are_checked_too_and_once(write: Write) -> None:
    write("own.yaml", DEVICE.replace("streams: 1", "streams: 0").replace("launch_us: 3\n", ""))
    write("cable.yaml", "latency_us: {value: 2\n")
    text = PLATFORM.replace("  npu:", "  npu.1: ./own.yaml\n  npu:").replace("host: cpu", "host: c")
    assert messages(write("box.yaml", text)) == [
        "box.yaml:1: unknown host 'c'",
        "own.yaml:1: missing key 'launch_us'",
        "own.yaml:7: 'streams' must be 1 or more, not 0",
        "cable.yaml:1: not YAML: did not find expected ',' or '}'",
    ]


def test_a_device_without_a_way_is_said_beside_other_mistakes(write: Write) -> None:
    text = "host: a\ndevices: {a: nvidia-l4, b: nvidia-l4}\nlinks: []\ncolour: red\n"
    assert messages(write("box.yaml", text)) == [
        "box.yaml:2: no link connects the host 'a' to 'b'",
        "box.yaml:4: unknown key 'colour'",
    ]


def test_files_of_the_catalog_need_their_sources(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = write("own.yaml", DEVICE)
    assert check_file(given).errors == ()
    monkeypatch.setattr("hetsim.hardware.files.catalog_files._INSTALLED", tmp_path)
    found = messages(given)
    assert len(found) == 12
    assert all(line.endswith("has no status and source") for line in found)


BROKEN = Path(__file__).parent / "broken"
FILES = sorted(path.name for path in BROKEN.glob("*.yaml"))


def refused(name: str) -> PlatformError:
    load = {"device": load_device, "link": load_link, "platform": load_platform}[sort_in_name(name)]
    with pytest.raises(PlatformError) as caught:
        load(f"./{name}")
    return caught.value


def sort_in_name(name: str) -> str:
    return name.partition("_")[0]


@pytest.mark.parametrize("name", FILES)
def test_a_broken_file_is_refused_by_what_stands_on_top_of_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each complaint has its line, and says what to do; the first is the error."""
    monkeypatch.chdir(BROKEN)
    first, checked = refused(name), check_file(name)
    assert str(first) == Path(name).read_text("utf-8").splitlines()[0].removeprefix("# ")
    assert "\n" not in str(first)
    assert first.exit_code == 3
    assert (checked.found, checked.name) == (None, None)
    assert checked.sort in (None, sort_in_name(name))
    assert (checked.errors[0].where, checked.errors[0].what) == (first.where, first.what)
    if checked.sort is None:
        # No key can be trusted: it is no YAML, or says one thing twice.
        assert len(checked.errors) == 1
    wanted = ("must ", "not YAML", "is not a mapping", "is empty", "expected ")
    for error in checked.errors:
        assert error.where is not None
        file, line = error.where.rsplit(":", 1)
        assert 1 <= int(line) <= len(Path(file).read_text(encoding="utf-8").splitlines())
        assert error.hint or any(word in error.what for word in wanted), error
    rest = len(checked.errors) - 1
    assert (f"{rest} more on line" in str(first)) == (rest > 0)


def test_there_are_enough_of_them_of_each_sort() -> None:
    sorts = [sort_in_name(name) for name in FILES]
    assert sorts.count("device") >= 50
    assert sorts.count("platform") >= 30
    assert sorts.count("link") >= 10
