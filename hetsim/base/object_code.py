"""Object code of what numba has compiled, and how it is called without numba.

To load numba and the first of its functions takes half a second, most of it for tables of all
that numba could compile; what was compiled once needs none of them. So the machine code of a
function is kept a second time: with an entry that takes the address of a table of words, and
without numba's wrappers for objects of Python. LLVM alone loads it.

That is done where arguments are numbers, records and arrays without gaps, and where the function
calls nothing of numba's at run time: it makes no arrays and raises nothing. All else is left to
numba. `LAYOUT` is another number where code that is kept would be called otherwise.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hetsim.base.files import whole_file
from hetsim.base.llvm_text import ENTRY, entry_of, with_callees
from hetsim.base.words import FIRST, NOTHING, REAL, RESULT, TRUTH, WHOLE, Kinds

LAYOUT = 1

_lock = threading.Lock()
_engines: list[Any] = []
"""Never let go of: what they hold is called."""


def is_allowed() -> bool:
    """Whether nobody has asked numba to compile otherwise, or not at all."""
    names = ("DISABLE_JIT", "CPU_NAME", "CPU_FEATURES", "OPT", "BOUNDSCHECK", "DEBUG", "DEBUGINFO")
    return not any(os.environ.get(f"NUMBA_{name}") for name in names)


class ObjectCode:
    """A function that is loaded, for arguments of one tuple of kinds."""

    def __init__(self, address: int, returns: str) -> None:
        # With the interpreter's lock held, as numba calls it.
        self._call = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(address)
        self._returns = returns

    def __call__(self, words: Sequence[int]) -> Any:
        """Call it on what ``laid_out`` gives; return a number, or None."""
        table = (ctypes.c_int64 * (FIRST + len(words)))(0, 0, *words)
        status = self._call(table)
        if status:
            raise RuntimeError(f"machine code ended with {status}")
        result = table[RESULT]
        if self._returns == WHOLE:
            return result
        if self._returns == REAL:
            return struct.unpack("=d", struct.pack("=q", result))[0]
        return bool(result & 1) if self._returns == TRUTH else None


def load(path: Path) -> ObjectCode | None:
    """Return what `store` has kept at `path` on a machine like this; None where nothing is."""
    try:
        content = path.read_bytes()
        head, _, code = content.partition(b"\n")
        said = json.loads(head)
        if said["sha256"] != hashlib.sha256(code).hexdigest():
            return None
        import llvmlite.binding as llvm
    except (OSError, ValueError, TypeError, KeyError, ImportError):
        return None
    # Whatever the binding raises, numba is there.
    with suppress(Exception), _lock:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        if said["made_for"] != _this_machine(llvm) or not all(map(_is_there, said["needs"])):
            return None
        target = llvm.Target.from_default_triple().create_target_machine(jit=True)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        address = engine.get_function_address(ENTRY)
        _engines.append(engine)
        return ObjectCode(address, said["returns"]) if address else None
    return None


def store(path: Path, overload: Any, kinds: Kinds) -> bool:
    """Keep at `path` what numba has just compiled for `kinds`, and say whether it can be.

    `overload` is numba's result of it. What is unlike all that is known here is left to numba.
    Raises OSError where it cannot be written.
    """
    try:
        import llvmlite.binding as llvm

        returns = str(overload.signature.return_type)
        module = overload.library._final_module
        if module is None or returns not in (WHOLE, REAL, TRUTH, NOTHING):
            return False
        name = overload.fndesc.llvm_func_name
        types = [str(argument.type) for argument in module.get_function(name).arguments]
        entry = entry_of(name, types, kinds)
        if entry is None:
            return False
        found = with_callees(str(module), name)
        if found is None:
            return False
        text, needs = found
        if not all(map(_is_there, needs)):
            return False
        target = overload.library.codegen._tm
        code = target.emit_object(llvm.parse_assembly(f"{text}\n{entry}"))
        said = {
            "returns": returns,
            "needs": sorted(needs),
            "made_for": _this_machine(llvm),
            "sha256": hashlib.sha256(code).hexdigest(),
        }
    except Exception:  # whatever of numba and LLVM is not where it was
        return False
    with whole_file(path) as draft:
        draft.write(json.dumps(said).encode() + b"\n" + code)
    return True


def _this_machine(llvm: Any) -> list[str]:
    version = ".".join(map(str, llvm.llvm_version_info))
    features = llvm.get_host_cpu_features().flatten()
    return [llvm.get_process_triple(), llvm.get_host_cpu_name(), features, version]


def _is_there(name: str) -> bool:
    """Whether a function of C can be called from here."""
    import llvmlite.binding as llvm

    if llvm.address_of_symbol(name):
        return True
    with suppress(AttributeError, OSError):
        address = ctypes.cast(ctypes.CDLL(None)[name], ctypes.c_void_p).value
        llvm.add_symbol(name, address)
        return True
    return False
