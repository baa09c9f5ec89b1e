"""pytest plugin of pypto_sim. Loaded by every pytest run, so it imports nothing until a test needs it.

Options: --pypto-alias, --npu-device, --npu-profile, --npu-report, --npu-dump. Fixture `npu`, mark `npu_device`.
The work is done in `pypto_sim.pytest_plugin`.
"""
from __future__ import annotations

import sys

import pytest

MARK = ("npu_device(name, profile=None): run the test on this simulated device, such as 910b4 or 950pr; wins over "
        "--npu-device and --npu-profile")


def pytest_addoption(parser):
    group = parser.getgroup("pypto_sim", "Ascend PyPTO kernels on the CPU")
    group.addoption("--pypto-alias", action="store_true", default=False,
                    help="`import pypto`, torch_npu and npu devices are stood in for by pypto_sim")
    group.addoption("--npu-device", metavar="NAME", help="simulated device of all tests, such as 910b4")
    group.addoption("--npu-profile", metavar="NAME", help="rule profile of all tests: lenient, 0.2, master or guide")
    group.addoption("--npu-report", metavar="DIR", help="write what each test's launches cost: DIR/estimate.json, "
                    "DIR/report.md")
    group.addoption("--npu-dump", metavar="NAME[@INDEX=N],...", help="write these variables of kernels as .npz below "
                    "npu-dump, or below the folder of --npu-report")
    parser.addini("pypto_alias", "as --pypto-alias", type="bool", default=False)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config):
    _alias(early_config, early_config.known_args_namespace)


def pytest_configure(config):
    config.addinivalue_line("markers", MARK)
    _alias(config, config.option)
    if any(_options(config)):
        from pypto_sim.pytest_plugin import begin
        begin(config)


def pytest_unconfigure(config):
    if config.stash.get(_ALIASED, False):
        from pypto_sim import compat
        compat.uninstall()
        config.stash[_ALIASED] = False


def _alias(config, options):
    wanted = getattr(options, "pypto_alias", False) or config.getini("pypto_alias")
    if wanted and not config.stash.get(_ALIASED, False):
        from pypto_sim.pytest_plugin import install_alias
        config.stash[_ALIASED] = install_alias()


_ALIASED = pytest.StashKey[bool]()


def _options(config):
    return tuple(config.getoption(name) for name in ("npu_device", "npu_profile", "npu_report", "npu_dump"))


def _needed(item):
    """Whether the test has anything to do with this plugin."""
    return (any(_options(item.config)) or item.get_closest_marker("npu_device") is not None
            or "npu" in getattr(item, "fixturenames", ())
            or item.config.stash.get(_ALIASED, False) and "pypto_sim" in sys.modules)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item, nextitem):
    if not _needed(item):
        yield
        return
    from pypto_sim.pytest_plugin import running
    with running(item):
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    module = sys.modules.get("pypto_sim.pytest_plugin")
    if module is not None and call.excinfo is not None:
        module.explain_failure(item, call, outcome.get_result())


def pytest_terminal_summary(terminalreporter, config):
    module = sys.modules.get("pypto_sim.pytest_plugin")
    if module is not None:
        module.summarise(terminalreporter, config)


@pytest.fixture
def npu(request):
    """The simulated NPU of this test: device, profile, launches, estimates, comparators, dump."""
    from pypto_sim.pytest_plugin import fixture_of
    return fixture_of(request.node)
