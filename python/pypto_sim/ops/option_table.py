"""The options of every group: what they take, documented default, versions that have them, what they do here."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..enums import CompStage
from ..registry import VERSIONS

NO_EFFECT = "accepted, no effect"
PLAN = "plan"
Check = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `default` None: undocumented; `effect`: "plan" where the cost depends on it, else in words."""

    check: Check
    allowed: str
    default: Any = None
    versions: tuple[str, ...] = VERSIONS
    effect: str = NO_EFFECT


def _int(v: Any) -> bool:
    return not isinstance(v, bool) and hasattr(v, "__index__")


def _settings(v: Any) -> bool:
    return isinstance(v, dict) and not (any(isinstance(k, int) for k in v) and any(isinstance(k, str) for k in v))


def _tolerances(v: Any) -> bool:
    return isinstance(v, (list, tuple)) and len(v) == 2 and all(isinstance(x, int | float) and x >= 0 for x in v)


def _between(low: int, high: int, **facts: Any) -> Option:
    return Option(lambda v: _int(v) and low <= int(v) <= high, f"{low} to {high}", **facts)


def _any_int(**facts: Any) -> Option:
    return Option(_int, "an int", **facts)


def _bool(**facts: Any) -> Option:
    return Option(lambda v: v in (True, False), "True or False", **facts)


def _list(**facts: Any) -> Option:
    return Option(lambda v: isinstance(v, (list, tuple)), "a list", **facts)


def _text(**facts: Any) -> Option:
    return Option(lambda v: isinstance(v, str), "a string", **facts)


def _dict(**facts: Any) -> Option:
    return Option(_settings, 'a dict whose keys are all strings ("DEFAULT", "func8_0", labels) or all ints', **facts)


def _seconds(**facts: Any) -> Option:
    return Option(lambda v: _int(v) and int(v) >= 0, "whole seconds, 0 or more", **facts)


_OLD, _NEW = ("0.2",), ("master",)

OPTIONS: dict[str, dict[str, Option]] = {
    "runtime": {
        "run_mode": Option(lambda v: v in (0, 1), "RunMode.NPU or RunMode.SIM", effect="both simulate"),
        "device_sched_mode": _between(0, 3, effect=PLAN),
        "stitch_function_max_num": _between(1, 1024, default=128, effect=PLAN),
        "max_workspace_kb": _between(0, 2**31 - 1, default=0, versions=_NEW),
        "valid_shape_optimize": _between(0, 1),
        "ready_on_host_tensors": _list(),
        "device_sched_parallelism": _between(1, 8, default=1, versions=_NEW),
        "launch_sched_aicpu_num": _between(1, 7, default=7, versions=_NEW),
        "launch_early_mode": _between(0, 2, versions=_NEW),
        "stitch_function_inner_memory": _any_int(versions=_OLD),
        "stitch_function_outcast_memory": _any_int(versions=_OLD),
        "stitch_function_num_initial": _any_int(versions=_OLD),
        "stitch_function_num_step": _any_int(versions=_OLD),
        "stitch_cfgcache_size": _any_int(versions=_OLD),
        "stitch_function_size": _any_int(versions=_OLD),
        "triple_stream_sched": Option(lambda v: True, "any value", versions=_OLD),
    },
    "pass": {
        "vec_nbuffer_setting": _dict(effect=PLAN),
        "cube_l1_reuse_setting": _dict(effect=PLAN),
        "cube_nbuffer_setting": _dict(default={"DEFAULT": 1}, effect=PLAN),
        "sg_set_scope": Option(lambda v: _int(v) or isinstance(v, (tuple, list)) and len(v) == 3 and _int(v[0]),
                               "an int or (id, bool, bool)", effect=PLAN),
        "sg_set_ooo_scope": Option(lambda v: _int(v) and (int(v) == -1 or 1 <= int(v) <= 100000),
                                   "-1 or 1 to 100000", versions=_NEW),
        "ooo_sched_mode": Option(lambda v: v in ("", "GAPMIN", "HLF"), "'', 'GAPMIN', 'HLF'", versions=_NEW),
        "auto_mix_partition": _between(0, 1, versions=_NEW),
        "sg_set_tunevf_mode": _between(0, 2, versions=_NEW),
        "enable_slice": _bool(versions=_NEW),
        "pg_skip_partition": _bool(versions=_OLD),
        "pg_upper_bound": _any_int(versions=_OLD, effect=PLAN),
    },
    "host": {
        "compile_stage": Option(lambda v: isinstance(v, CompStage) or _int(v) and 0 <= int(v) < len(CompStage),
                                "a pypto.CompStage"),
        "compile_monitor_enable": Option(lambda v: v in (0, 1, 2), "0 to 2"),
        "compile_timeout": _seconds(default=600),
        "compile_timeout_stage": _seconds(),
        "compile_monitor_print_interval": _seconds(default=60),
    },
    "codegen": {
        "support_dynamic_aligned": _bool(),
        "soc_version": _text(versions=_NEW, effect="chooses the device of the kernel: Ascend910B1 to Ascend910B4"),
        "enable_pmu_trace": _bool(versions=_NEW),
        "vf_options": _text(versions=_NEW),
    },
    "debug": {
        "compile_debug_mode": _between(0, 2),
        "runtime_debug_mode": _between(0, 4, effect="arguments are checked in every mode"),
        "dump_pass_graph": _list(versions=_NEW),
    },
    "verify": {
        "enable_pass_verify": _bool(effect="switches pass_verify_print, pass_verify_save and golden data on"),
        "pass_verify_save_tensor": _bool(),
        "pass_verify_save_tensor_dir": _text(effect="directory of pass_verify_save"),
        "pass_verify_pass_filter": _list(),
        "pass_verify_error_tol": Option(_tolerances, "[rtol, atol]", default=[1e-3, 1e-3],
                                        effect="tolerance of golden data"),
    },
    "operation": {
        "combine_axis": _bool(effect="less UB and one block a row for operands whose last axis is 1"),
        "force_combine_axis": _bool(versions=_OLD),
    },
}


def listing() -> list[dict[str, str]]:
    """One row per option, for the docs."""
    return [{"option": f"{group}_options.{name}", "takes": o.allowed,
             "default": "" if o.default is None else repr(o.default), "versions": ", ".join(o.versions),
             "here": "read by the planner" if o.effect == PLAN else o.effect}
            for group, known in OPTIONS.items() for name, o in known.items()]
