"""What the pytest plugin does for tests that use it; `pypto_sim_pytest` holds the hooks and loads this when needed."""
from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pypto_sim

from . import compat, testing
from .config import active, checked
from .errors import PyptoError
from .run.launch import Launch
from .testing.launches import nan_report

pytest_plugins = ("pypto_sim_pytest",)          # for `-p pypto_sim.pytest_plugin`


class Npu:
    """Fixture `npu`: the device of the test, what was launched, comparators."""

    assert_ulp = staticmethod(testing.assert_ulp)
    assert_relative = staticmethod(testing.assert_relative)
    assert_topk = staticmethod(testing.assert_topk)
    compare_ulp = staticmethod(testing.compare_ulp)
    compare_relative = staticmethod(testing.compare_relative)
    compare_topk = staticmethod(testing.compare_topk)
    first_nan = staticmethod(testing.first_nan)
    dump = testing.dump
    config = staticmethod(pypto_sim.config)

    def __init__(self) -> None:
        self.recording = testing.recording()

    @property
    def device(self) -> str:
        """Name of the simulated device, such as "910b1"."""
        return active().device

    @property
    def profile(self) -> str:
        """Rule profile in force."""
        return active().profile

    @property
    def launches(self) -> list[Launch]:
        """Launches of this thread so far (see testing.recording)."""
        return list(self.recording.launches)

    @property
    def estimates(self) -> list[Any]:
        """Predicted cost of each launch, with the values it had. Raises what the planner raises."""
        return [_cost(launch) for launch in self.recording.launches]

    @property
    def time_us(self) -> float:
        """Sum over the launches."""
        return sum(e.time_us for e in self.estimates)

    def estimate(self, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        """pypto_sim.estimate on this test's device."""
        return pypto_sim.estimate(kernel, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<npu {self.device}, profile {self.profile}, {len(self.recording.launches)} launch(es)>"


NPU, COLLECTED = pytest.StashKey[Npu](), pytest.StashKey[list[dict[str, Any]]]()


def install_alias() -> bool:
    """compat.install(); returns whether this call did it. Raises pytest.UsageError when it is refused."""
    if compat.installed():
        return False
    try:
        compat.install()
    except PyptoError as error:
        raise pytest.UsageError(f"--pypto-alias: {error}") from None
    return True


def begin(config: pytest.Config) -> None:
    """Check the options. Raises pytest.UsageError."""
    with _usage("--npu-device/--npu-profile"):
        checked(_settings(config))
    if names := config.getoption("npu_dump"):
        with _usage("--npu-dump"):
            testing.dump(names)
    config.stash[COLLECTED] = []


@contextlib.contextmanager
def _usage(what: str) -> Iterator[None]:
    try:
        yield
    except PyptoError as error:
        raise pytest.UsageError(f"{what}: {error}") from None


def _settings(config: pytest.Config) -> dict[str, str]:
    given = {"device": config.getoption("npu_device"), "profile": config.getoption("npu_profile")}
    return {k: v for k, v in given.items() if v is not None}


@contextlib.contextmanager
def running(item: pytest.Item) -> Iterator[None]:
    """Device, recording, dump and report of one test."""
    settings = _settings(item.config)
    mark = item.get_closest_marker("npu_device")
    if mark is not None:
        named = {**dict(zip(("device", "profile"), mark.args, strict=False)),
                 **{"device" if k == "name" else k: v for k, v in mark.kwargs.items()}}
        settings |= {k: v for k, v in named.items() if v is not None}
    npu = item.stash[NPU] = Npu()
    try:
        settings = checked(settings)
    except PyptoError as error:
        _refuse(item, f"mark npu_device: {error}")
        yield
        return
    folder = item.config.getoption("npu_report")
    with contextlib.ExitStack() as stack:
        stack.enter_context(pypto_sim.config(**settings))
        stack.enter_context(npu.recording)
        profile = stack.enter_context(pypto_sim.profile()) if folder else None
        if names := item.config.getoption("npu_dump"):
            target = Path(folder or ".") / ("dump" if folder else "npu-dump") / _file_name(item.nodeid)
            stack.enter_context(testing.dump(names, directory=target))
        yield
        if profile is not None:
            _collect(item, profile)
    del item.stash[NPU]


def _refuse(item: pytest.Item, text: str) -> None:
    """Let the test fail in its setup."""
    def setup() -> None:
        raise pytest.UsageError(text)
    item.setup = setup                                    # type: ignore[method-assign]


def fixture_of(item: Any) -> Npu:
    """The fixture's value."""
    return item.stash[NPU]


def explain_failure(item: pytest.Item, call: Any, report: Any) -> None:
    """Say in the report of a failed test which operation produced the first NaN, unless the comparison said it."""
    npu = item.stash.get(NPU, None)
    if npu is None or call.when != "call" or "first NaN in" in str(call.excinfo.value):
        return
    text = nan_report(npu.launches)
    if text:
        report.sections.append(("pypto_sim", text))


def _cost(launch: Launch) -> Any:
    from .device import Device
    from .run.estimate import cost_of
    return cost_of(launch.program, launch.kernel, launch.int_data, Device.load(launch.config.device),
                   launch.config.model)


def _collect(item: pytest.Item, profile: Any) -> None:
    for one in profile.launches:
        entry: dict[str, Any] = {"test": item.nodeid, "kernel": one.kernel}
        if one.error is None:
            entry["estimate"] = one.estimate.to_dict()
        else:
            entry["error"] = str(one.error)
        item.config.stash[COLLECTED].append(entry)


def summarise(terminal: Any, config: pytest.Config) -> None:
    """Write the report at the end of the run and say where it is."""
    folder, found = config.getoption("npu_report"), config.stash.get(COLLECTED, [])
    if not folder:
        return
    from .commands.shared import clean
    from .report.markdown import grid
    from .report.text import bytes_text, gm_bytes, time_text
    worker = getattr(config, "workerinput", {}).get("workerid", "")
    target = Path(folder) / worker
    target.mkdir(parents=True, exist_ok=True)
    costed = [e for e in found if "estimate" in e]
    document = {"schema": 1, "launches": costed, "without_estimate": [e for e in found if "error" in e]}
    (target / "estimate.json").write_text(json.dumps(clean(document), indent=1, allow_nan=False) + "\n", "utf-8")
    lines = ["# Predicted cost per test", ""]
    for test in dict.fromkeys(e["test"] for e in found):
        mine = [e for e in found if e["test"] == test]
        total = sum(e["estimate"]["time_us"] for e in mine if "estimate" in e)
        lines += [f"## {test}", "", f"{len(mine)} launch(es), {time_text(total)}", ""]
        lines += grid(("kernel", "device", "time", "bound by", "GM", "tasks", "UB peak"),
                      [(e["kernel"], x["device"], time_text(x["time_us"]), x["bound_by"], bytes_text(gm_bytes(x)),
                        " ".join(f"{k} {v}" for k, v in x["tasks"].items()), bytes_text(x["peak_bytes"]["UB"]))
                       for e in mine if (x := e.get("estimate"))])
        lines += [f"- `{e['kernel']}` has no estimate: {e['error'].splitlines()[0]}" for e in mine if "error" in e]
    (target / "report.md").write_text("\n".join(lines).rstrip() + "\n", "utf-8")
    tests = len({e["test"] for e in found})
    terminal.write_line(f"pypto_sim: {len(found)} launches of {tests} tests: {target / 'estimate.json'}, "
                        f"{target / 'report.md'}")


def _file_name(nodeid: str) -> str:
    return re.sub(r"[^\w.-]+", "_", nodeid).strip("_")
