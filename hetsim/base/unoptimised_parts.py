# mypy: disable-error-code="no-untyped-call,misc"
"""Functions that numba puts inline wherever they are called: optimised there alone.

Else LLVM would optimise each of them once for every level of calls above it.

Loaded with numba alone.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class _Unoptimised(JITCodeLibrary):
    def _optimize_final_module(self) -> None:
        """Leave the module as it was lowered."""


class Part(Compiler):
    """numba's own steps, into a library that is not optimised."""

    def _compile_bytecode(self) -> Any:
        codegen = self.state.targetctx.codegen()
        self.state.library = _Unoptimised(codegen, self.state.func_id.func_qualname)
        return super()._compile_bytecode()
