"""Typed face of the compiled core. Thin: buffers are checked here, the GIL is dropped, C++ is called."""
from collections.abc import Mapping, Sequence
from typing import Any

def isa() -> str: ...
def available_isas() -> list[str]: ...
def select_isa(name: str) -> None: ...
def set_threads(n: int) -> None: ...
def threads() -> int: ...
def set_op_rows(rows: Sequence[tuple[str, str, str, str, bool, bool]]) -> None:
    """(name, kernel, cost_class, instr, bf16_arith, fp16_arith) per registry row; the row index is the op id."""
def op_rows_in_use() -> list[tuple[str, str, str, str, bool, bool]]:
    """The rows last handed to set_op_rows."""
def executor_kernels() -> list[str]:
    """Names of the kernels the executor has; a registry row that names another is refused."""

class CoreError(Exception):
    """Run-time fault found by the core. args: (code, message, line "file:line" or "")."""

class TrapReached(Exception):
    """A recorded Python exception has to be raised now. args: (trap number,)."""

class Program:
    """Growing list of items; see src/npu_core/program/program.h. Ids are small integers."""
    def __init__(self, numerics: int = 0) -> None: ...
    def tensor(self, dtype: int, shape: Sequence[int], arg_index: int = -1, name: str = "") -> int: ...
    def extents(self, tensor: int, valid: Sequence[int]) -> None:
        """Expressions of a result's valid extents; without them it is valid all over. Read by the plan only."""
    def carries(self, tensor: int, axis: int, slot: int) -> None:
        """Scalar that holds the valid extent of a local on one axis, whenever it is written; set by the plan only."""
    def const(self, value: int) -> int: ...
    def expr(self, op: int, a: int, b: int = -1) -> int: ...          # ExprOp code
    def scalar(self, kind: int) -> tuple[int, int]: ...               # new INDEX (1) or LOAD (2): (slot, expr id)
    def tile(self, vec: Sequence[int], cube: Sequence[int], split_k: bool) -> int: ...
    def line(self, text: str) -> int: ...
    def label(self, text: str) -> int: ...
    def options(self, text: str) -> int: ...
    def op(self, row: int, outs: Sequence[int], ins: Sequence[int], ints: Sequence[int] = (),
           floats: Sequence[float] = (), scalars: Sequence[int] = (), tile: int = -1, options: int = -1,
           label: int = -1, line: int = -1) -> None: ...
    def decl(self, tensor: int, line: int = -1) -> None: ...
    def set(self, dst: int, src: int, line: int = -1) -> None: ...
    def assemble(self, dst: int, src: int, offsets: Sequence[int], line: int = -1,
                 in_place: bool = False) -> None: ...
    def load(self, slot: int, tensor: int, index: Sequence[int], line: int = -1) -> None: ...
    def store(self, tensor: int, value: int, index: Sequence[int], line: int = -1) -> None: ...
    def block(self) -> None: ...
    def begin_loop(self, slot: int, start: int, stop: int, step: int, parallel: bool = False, line: int = -1,
                   unroll: Sequence[int] = (), submit_before: bool = False) -> None:
        """`unroll`: factors asked for by unroll_list; `submit_before`: submit_before_loop. Both steer the plan only."""
    def end_loop(self) -> None: ...
    def begin_if(self, cond: int, line: int = -1) -> None: ...
    def begin_else(self) -> None: ...
    def end_if(self) -> None: ...
    def trap(self, number: int, line: int = -1) -> None: ...
    def finish(self) -> None:
        """Legalise and compute last uses. No item may be added afterwards."""
    def finished(self) -> bool: ...
    def __str__(self) -> str:
        """One line per item, nested by indentation."""
    def items(self) -> list[dict[str, Any]]:
        """Read-only listing, nested like the tree: a dict per item with "kind" ("op", "loop", "if", ...), "line" and
        the item's fields; "body", "then" and "else" hold inner lists."""

class Machine:
    """Executes a Program on argument memory. `args`: writable or read-only C-contiguous uint8 views, one per ARG.

    `poison`: 0 off, 1 candidates are noted, 2 candidates are followed element by element to the arguments (stepping).
    `clamp_elements`: an element read past the end is clamped and noted in `warnings()` instead of raised.
    `fuse`: run elementwise operations strip by strip. `keep`: every value stays readable after run() (tests).
    """
    def __init__(self, program: Program, args: Sequence[Any], poison: int = 1, clamp_elements: bool = False,
                 fuse: bool = True, keep: bool = False) -> None: ...
    def run(self) -> None:
        """Replay a finished Program."""
    def step(self) -> None:
        """Stepping: execute the items appended since the last call (program not finished; no loops or ifs in it)."""
    def enter_parallel(self, line: int) -> None:
        """Stepping: iterations of a parallel loop follow, each after `next_iteration`."""
    def next_iteration(self, i: int) -> None: ...
    def leave_parallel(self) -> None:
        """The loop has ended: `warnings()` tells where its iterations touched each other's data."""
    def scalar(self, slot: int) -> int: ...
    def valid(self, tensor: int) -> list[int]: ...
    def is_ready(self, tensor: int) -> bool:
        """Whether the tensor has a value now."""
    def read(self, tensor: int, wide: bool = False) -> bytes:
        """Full static shape, contiguous; poison outside the valid box."""
    def free(self, tensor: int) -> None:
        """Stepping: the Python handle is gone."""
    def candidates(self) -> list[tuple[str, str, str]]:
        """(operation, line, text) for every operation that read beyond an operand's defined box."""
    def warnings(self) -> list[tuple[str, str, str]]:
        """(rule, line, text), such as ("element.past_end", "k.py:12", ...)."""

def plan_and_cost(program: Program, device: Mapping[str, float], model: str, int_args: Sequence[Any | None],
                  assume: dict[str, tuple[int, int]], timeline_tasks: int = 0) -> dict[str, Any]:
    """Cost-only run of a finished Program. `device`: flat "section.key" -> number of the device table (model "official"
    reads none of them). `int_args`: for
    each ARG its integer data (uint8 view) or None. Returns the fields of result.estimate.Estimate that the core knows,
    "device_keys" (values in use), "instances" and "detail" (what tools and reports read), and with timeline_tasks > 0
    "timeline" with at most so many tasks (result.timeline.Timeline.of). Raises CoreError with code
    "needs_data" naming the scalar and line, or "capacity" with a JSON text: op, tile, fits, memory, bytes, limit and
    live."""

def kept_results(program: Program) -> int:
    """Number of results of cost-only runs that a Program keeps: the same question again is answered from them."""

def official_record(program: Program, int_args: Sequence[Any | None],
                    assume: dict[str, tuple[int, int]]) -> dict[str, Any]:
    """What the public 0.2.0 simulator reports of a run, with its names and counting; CoreError as plan_and_cost, and
    "not_simulated" for an operation it cannot run."""

# Single kernels of the instruction set in use, for tests and benchmarks. Arrays are uint8 views of contiguous memory;
# op numbers are those of npu::Unary, Binary and Compare; types are DataType codes; reductions 0 sum, 1 max, 2 min.
def kernel_unary(op: int, x: Any, y: Any) -> None: ...
def kernel_binary(op: int, a: Any, b: Any, y: Any) -> None: ...
def kernel_compare(op: int, a: Any, b: Any, y: Any) -> None: ...
def kernel_cast(source: int, target: int, x: Any, y: Any) -> None: ...
def kernel_reduction(reduction: int, x: Any) -> float: ...
def kernel_gemm(a: Any, a_type: int, a_strides: Sequence[int], b: Any, b_type: int, b_strides: Sequence[int],
                bias: Any | None, c: Any, sizes: Sequence[int], part: Sequence[int]) -> None:
    """Part (m_begin, m_end, n_begin, n_end) of C [m, n] for sizes (m, n, k, k_block); int8 operands fill whole rows."""
