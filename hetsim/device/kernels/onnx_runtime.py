"""Subgraphs run by ONNX Runtime with settings that keep results bitwise reproducible."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import onnx
from numpy.typing import NDArray

from hetsim.core.files import scratch_folder
from hetsim.core.room import out_of_room
from hetsim.errors import ExecutionError, UsageError
from hetsim.graph.graph import ITEM_BITS
from hetsim.graph.reading.onnx_types import bytes_of, dtype_name, plain
from hetsim.graph.reading.session import SILENT, kernel_events, quiet_runtime, session_options

if TYPE_CHECKING:
    import onnxruntime


FOREIGN_TYPES: Mapping[str, int] = {
    f"tensor({name.lower()})": number
    for name, number in onnx.TensorProto.DataType.items()
    if number >= onnx.TensorProto.BFLOAT16 and dtype_name(number) in ITEM_BITS
}
"""Numbers in ONNX of the element types that numpy lacks, by ONNX Runtime's name for the type of an
input or output."""


def dtype_of(kind: int) -> np.dtype[np.generic]:
    """Return the numpy dtype, of ``ml_dtypes``, of a foreign type."""
    dtype: np.dtype[np.generic] = onnx.helper.tensor_dtype_to_np_dtype(kind)
    return dtype


def to_bytes(array: NDArray[np.generic], kind: int) -> NDArray[np.uint8]:
    """Return the elements of `array` in C order, packed as in ONNX."""
    wanted = dtype_of(kind)
    if array.dtype != wanted:
        raise ExecutionError(f"got an array of {array.dtype}, expected {wanted}")
    if ITEM_BITS[dtype_name(kind)] >= 8:
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return np.frombuffer(onnx.numpy_helper.from_array(array).raw_data, np.uint8)


def from_bytes(data: NDArray[np.uint8], shape: Sequence[int], kind: int) -> NDArray[np.generic]:
    """Undo ``to_bytes`` for an array of `shape`. O(elements)."""
    dtype = dtype_of(kind)
    if ITEM_BITS[dtype_name(kind)] >= 8:
        return data.view(dtype).reshape(shape)
    packed = onnx.TensorProto(data_type=kind, dims=shape, raw_data=data.tobytes())
    # ml_dtypes keeps a signed element sign-extended in its byte, onnx does not.
    numbers: NDArray[np.float32] = onnx.numpy_helper.to_array(packed).astype(np.float32)
    return numbers.astype(dtype)


@dataclass(frozen=True, slots=True)
class KernelTime:
    """Time of one node: `seconds` of wall-clock time, over all runs."""

    node: str
    op_type: str
    runs: int
    seconds: float


class SessionProfile:
    """Profile of one session, in a temporary folder until it is read."""

    def __init__(self, options: onnxruntime.SessionOptions) -> None:
        self._lasting = ExitStack()
        folder = self._lasting.enter_context(scratch_folder())
        options.enable_profiling = True
        options.profile_file_prefix = str(folder / "profile")

    def events(self, session: onnxruntime.InferenceSession) -> list[tuple[str, dict[str, Any]]]:
        """Stop profiling `session`; return its kernel events by node, in execution order."""
        with self._lasting:
            return kernel_events(session)


Value = Any
"""Value that crosses between subgraphs: a numpy array (strings as objects), a list of them for a
sequence, None for an empty optional."""

_PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")


@dataclass(frozen=True, slots=True)
class KernelSettings:
    """Settings for opening the kernels of a subgraph.

    `threads` are those of one kernel; `profile` records the time of each; `libraries` are paths of
    custom-op libraries. `plain` selects ONNX Runtime's default options, whose bits depend on the
    whole graph and the processor, for comparison with ``SESSION_OPTIONS``.
    """

    threads: int = 1
    profile: bool = False
    libraries: tuple[str, ...] = ()
    plain: bool = False


SESSION_OPTIONS: Mapping[str, str | int | bool] = {
    "graph_optimization_level": "ORT_DISABLE_ALL",
    "execution_mode": "ORT_SEQUENTIAL",
    "intra_op_num_threads": 1,
    "inter_op_num_threads": 1,
    "session.disable_prepacking": True,
    "provider": "CPUExecutionProvider",
}
"""Session options that make results bitwise independent of other nodes, for subgraphs and the whole
model. A device with more threads in its description uses them for a kernel."""

DEFAULT = KernelSettings()


class CompiledSubgraph:
    """Subgraph ready to run.

    Equal nodes give the same bits in any subgraph: graph optimisation and weight prepacking are
    off, and the nodes run sequentially, by default on one thread. External weights are
    memory-mapped, so that processes share them.

    Parameters
    ----------
    proto : bytes
        Serialised ``onnx.ModelProto``.
    weights_dir : str or None
        Folder that the locations of external weights are relative to.
    output_names : sequence of str
        Outputs to compute, in order.
    settings : KernelSettings

    Attributes
    ----------
    exporter : callable or None
        Function that writes the subgraph to a stream, for ``export``; set by its device.

    Raises
    ------
    ExecutionError
        If ONNX Runtime rejects the subgraph.
    """

    def __init__(
        self,
        proto: bytes,
        weights_dir: str | None,
        output_names: Sequence[str],
        settings: KernelSettings = DEFAULT,
    ) -> None:
        onnxruntime = quiet_runtime()
        options = session_options(weights_dir)
        if not settings.plain:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
            options.intra_op_num_threads = settings.threads
            options.inter_op_num_threads = 1
            options.add_session_config_entry("session.disable_prepacking", "1")
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry("session.inter_op.allow_spinning", "0")
        self._profile: SessionProfile | None = None
        if settings.profile:
            self._profile = SessionProfile(options)
        try:
            for library in settings.libraries:
                options.register_custom_ops_library(library)
            self._session = onnxruntime.InferenceSession(
                proto, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            said = _gist(error)
            lacks = said.startswith("Could not find an implementation")
            raise out_of_room(error) or ExecutionError(
                f"ONNX Runtime refuses the subgraph: {said}",
                hint="runs are on its CPU kernels: convert the model to other types"
                if lacks
                else None,
            ) from error
        self._run = _runner(self._session)
        self.exporter: Callable[[BinaryIO], object] | None = None
        self._run_options = onnxruntime.RunOptions()
        self._run_options.log_severity_level = SILENT
        self.output_names = tuple(output_names)
        self._wanted = list(output_names)
        self.input_names = tuple(value.name for value in self._session.get_inputs())
        input_types = {value.name: value.type for value in self._session.get_inputs()}
        output_types = {value.name: value.type for value in self._session.get_outputs()}
        self._foreign_inputs = _foreign(input_types, self.input_names)
        self._foreign_outputs = _foreign(output_types, self.output_names)
        odd = [name for name, kind in input_types.items() if not kind.startswith("tensor(")]
        if odd and (self._foreign_inputs or self._foreign_outputs):
            foreign = next(iter({**self._foreign_inputs, **self._foreign_outputs}.items()))
            raise ExecutionError(
                f"value '{odd[0]}' ({input_types[odd[0]]}) and value '{foreign[0]}' "
                f"({dtype_of(foreign[1])}) both cross the border of one subgraph, which ONNX "
                "Runtime's Python interface does not support",
                hint="keep the nodes on either side of one of them on one device",
            )

    def run(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """Return the outputs, by name in the order of ``output_names``.

        Parameters
        ----------
        inputs : mapping of str to value
            All inputs of the subgraph; others are ignored. Arrays may be read-only, of any byte
            order and layout; plain ones are not copied.

        Raises
        ------
        ExecutionError
            If a kernel fails, an input is missing, or ``cancel`` was called.
        """
        feeds = {}
        for name in self.input_names:
            if name not in inputs:
                raise ExecutionError(f"input '{name}' is missing")
            feeds[name] = plain(inputs[name])
        if not self.output_names:
            return {}
        try:
            if self._foreign_inputs or self._foreign_outputs:
                return self._run_foreign(feeds)
            found = self._run(self._wanted, feeds, self._run_options)
        except ExecutionError:
            raise
        except Exception as error:
            raise out_of_room(error) or ExecutionError(_gist(error)) from error
        return dict(zip(self.output_names, found, strict=True))

    def cancel(self) -> None:
        """Stop a run in another thread early, and all later ones."""
        self._run_options.terminate = True

    def profile(self) -> tuple[KernelTime, ...]:
        """Return the time of every kernel in the runs so far, in execution order; end profiling.

        Raises UsageError if profiling was not enabled, or has ended.
        """
        if self._profile is None:
            raise UsageError(
                "this subgraph has no profile",
                hint="compile it with {'PERF_COUNT': True}, and read the profile once",
            )
        profile, self._profile = self._profile, None
        found: dict[str, KernelTime] = {}
        for node, event in profile.events(self._session):
            time = found.get(node) or KernelTime(node, event["args"]["op_name"], 0, 0.0)
            seconds = time.seconds + event["dur"] / 1e6
            found[node] = replace(time, runs=time.runs + 1, seconds=seconds)
        return tuple(found.values())

    def export(self, stream: BinaryIO) -> None:
        """Write the subgraph to `stream`, for use in another process.

        Raises
        ------
        UsageError
            If it was not compiled by a device, which knows its target.
        InvalidInput
            If the file could not be opened again.
        """
        if self.exporter is None:
            raise UsageError(
                "this subgraph cannot be exported: it was not compiled by a device",
                hint="compile it with Device.compile",
            )
        self.exporter(stream)

    def _run_foreign(self, feeds: Mapping[str, Value]) -> dict[str, Value]:
        import onnxruntime

        given = {}
        for name, value in feeds.items():
            kind = self._foreign_inputs.get(name)
            if kind is None:
                given[name] = onnxruntime.OrtValue.ortvalue_from_numpy(np.asarray(value))
            else:
                given[name] = _wrap(value, kind)
        found = self._session.run_with_ort_values(list(self.output_names), given, self._run_options)
        outputs: dict[str, Value] = {}
        for name, value in zip(self.output_names, found, strict=True):
            kind = self._foreign_outputs.get(name)
            outputs[name] = value.numpy() if kind is None else _unwrap(value, kind)
        return outputs


def _runner(session: onnxruntime.InferenceSession) -> Callable[..., list[Value]]:
    """Return the function that runs a session on inputs known to exist.

    ``InferenceSession.run`` checks names and devices each time, which takes half as long as the
    kernels of a small subgraph. The function that it calls then is not public; if it is missing,
    ``run`` is used.
    """
    inner = getattr(session, "_sess", None)
    found: Callable[..., list[Value]] = getattr(inner, "run", session.run)
    return found


def _foreign(types: Mapping[str, str], names: Sequence[str]) -> dict[str, int]:
    return {name: FOREIGN_TYPES[types[name]] for name in names if types[name] in FOREIGN_TYPES}


def _wrap(array: NDArray[np.generic], kind: int) -> onnxruntime.OrtValue:
    import onnxruntime

    data = to_bytes(array, kind)
    value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(array.shape), kind)
    if data.size:
        ctypes.memmove(value.data_ptr(), data.ctypes.data, data.size)
    return value


def _unwrap(value: onnxruntime.OrtValue, kind: int) -> NDArray[np.generic]:
    shape = tuple(value.shape())
    data = np.empty(bytes_of(onnx.TensorProto(data_type=kind, dims=shape)), np.uint8)
    if data.size:
        ctypes.memmove(data.ctypes.data, value.data_ptr(), data.size)
    return from_bytes(data, shape, kind)


def _gist(error: Exception) -> str:
    """Return the first line of ONNX Runtime's message, without its preamble."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return _PREFIX.sub("", lines[0]) if lines else type(error).__name__
