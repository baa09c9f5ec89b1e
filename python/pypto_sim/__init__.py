"""pypto_sim: runs and costs Huawei Ascend PyPTO kernels on an ordinary CPU.

    import pypto_sim as pypto

Kernels are written as for PyPTO; see the README. `config` sets device, profile and mode, `estimate` predicts cost.
"""
from __future__ import annotations

import importlib as _importlib
import os as _os
from typing import Any as _Any

from . import enums as _enums
from . import errors as errors
from . import registry as _registry
from .config import config as config
from .dtypes import DataType as DataType
from .dtypes import Element as Element
from .dtypes import bytes_of as bytes_of
from .errors import CapacityError as CapacityError
from .errors import InternalError as InternalError
from .errors import NeedsData as NeedsData
from .errors import PyptoError as PyptoError
from .errors import PyptoWarning as PyptoWarning
from .logs import check as check
from .logs import get_log_level as get_log_level
from .logs import internal_check as internal_check
from .logs import log_debug as log_debug
from .logs import log_error as log_error
from .logs import log_event as log_event
from .logs import log_fatal as log_fatal
from .logs import log_info as log_info
from .logs import log_warn as log_warn
from .logs import raise_error as raise_error
from .logs import set_log_level as set_log_level
from .trace import tiles as _tiles
from .trace.scalar import SymbolicScalar as SymbolicScalar
from .trace.tensor import Tensor as Tensor
from .trace.tiles import ConvParams as ConvParams
from .trace.tiles import ConvTile as ConvTile
from .trace.tiles import CubeTile as CubeTile
from .trace.tiles import TileL0Info as TileL0Info
from .trace.tiles import TileL1Info as TileL1Info

# isort: split
from . import distributed as distributed
from . import experimental as experimental
from . import frontend as frontend
from . import ops as ops
from .ops import control as _control
from .ops.control import ceildiv as ceildiv
from .ops.control import cond as cond
from .ops.control import is_loop_begin as is_loop_begin
from .ops.control import is_loop_end as is_loop_end
from .ops.control import loop as loop
from .ops.control import loop_unroll as loop_unroll
from .ops.options import get_codegen_options as get_codegen_options
from .ops.options import get_conv_tile_shapes as get_conv_tile_shapes
from .ops.options import get_cube_tile_shapes as get_cube_tile_shapes
from .ops.options import get_current_scope as get_current_scope
from .ops.options import get_debug_options as get_debug_options
from .ops.options import get_host_options as get_host_options
from .ops.options import get_options_tree as get_options_tree
from .ops.options import get_pass_options as get_pass_options
from .ops.options import get_runtime_options as get_runtime_options
from .ops.options import get_vec_tile_shapes as get_vec_tile_shapes
from .ops.options import get_verify_options as get_verify_options
from .ops.options import options as options
from .ops.options import reset_options as reset_options
from .ops.options import set_codegen_options as set_codegen_options
from .ops.options import set_conv_tile_shapes as set_conv_tile_shapes
from .ops.options import set_cube_tile_shapes as set_cube_tile_shapes
from .ops.options import set_debug_options as set_debug_options
from .ops.options import set_host_options as set_host_options
from .ops.options import set_matrix_size as set_matrix_size
from .ops.options import set_options as set_options
from .ops.options import set_pass_options as set_pass_options
from .ops.options import set_print_options as set_print_options
from .ops.options import set_runtime_options as set_runtime_options
from .ops.options import set_semantic_label as set_semantic_label
from .ops.options import set_vec_tile_shapes as set_vec_tile_shapes
from .ops.options import set_verify_options as set_verify_options
from .ops.pass_config import PassConfigs as PassConfigs
from .ops.pass_config import get_global_config as get_global_config
from .ops.pass_config import get_pass_config as get_pass_config
from .ops.pass_config import get_pass_configs as get_pass_configs
from .ops.pass_config import get_pass_default_config as get_pass_default_config
from .ops.pass_config import set_global_config as set_global_config
from .ops.pass_config import set_pass_config as set_pass_config
from .ops.pass_config import set_pass_default_config as set_pass_default_config
from .ops.platform import platform as platform
from .ops.verify import pass_verify_print as pass_verify_print
from .ops.verify import pass_verify_save as pass_verify_save
from .run.arrays import Spec as Spec
from .run.jit import jit as jit
from .run.outside import from_torch as from_torch
from .run.outside import function as function
from .run.verify import Function as Function
from .run.verify import get_current_function as get_current_function
from .run.verify import get_last_function as get_last_function
from .run.verify import set_verify_golden_data as set_verify_golden_data
from .run.verify import verify as verify
from .usual_names import MissingNameError as _MissingNameError

_registry.push_rows()
tensor, symbolic_scalar, element = Tensor, SymbolicScalar, Element
error = errors                                     # PyPTO's name of the module of exceptions
min, max = _control.min_op, _control.max_op
ConfigScope = _tiles.Scope

_OPERATIONS = {name: spec.function for name, spec in _registry.REGISTRY.items() if "." not in name}
globals().update(_OPERATIONS)
globals().update({d.name: d for d in DataType})
globals().update({name: value for name, value in vars(_enums).items() if not name.startswith("_") and name != "enum"})

_LAZY = {"estimate": "run.estimate", "suggest_tiles": "run.suggest", "profile": "run.profile",
         "Estimate": "result.estimate"}
_MODULES = ("strategies", "report", "compat", "testing", "device", "cli")

if "PYPTO_SIM_DUMP" in _os.environ:
    from .testing.dumps import from_environment as _from_environment
    _from_environment()

__all__ = sorted(name for name in globals() if not name.startswith("_"))


def load_ipython_extension(shell: _Any) -> None:
    """`%load_ext pypto_sim`: `import pypto` is this package in the notebook, npu devices are stood in for."""
    from .compat import install
    install()


def unload_ipython_extension(shell: _Any) -> None:
    """`%unload_ext pypto_sim`: as before."""
    from .compat import uninstall
    uninstall()


def __getattr__(name: str) -> _Any:
    if name in _LAZY:
        value = getattr(_importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
        globals()[name] = value
        return value
    if name == "__version__":
        from importlib.metadata import version
        return version("pypto_sim")
    if name in _MODULES:
        return _importlib.import_module(f"{__name__}.{name}")
    raise _MissingNameError("module 'pypto_sim'", name, lambda: [*__all__, *_LAZY, *_MODULES])
