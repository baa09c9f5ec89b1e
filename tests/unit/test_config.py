"""Configuration: order of precedence, names and words, threads."""
import threading

import pytest

import pypto_sim as pypto
from pypto_sim.config import active, from_environment


def test_defaults_and_context_manager():
    before = active()
    with pypto.config(device="950pr", profile="master", numerics="0.2.0", mode="step", poison="off", threads=1) as c:
        assert (c.device, c.profile, c.numerics, c.mode, c.poison, c.threads) == ("950pr", "master", "0.2.0", "step",
                                                                                 "off", 1)
        with pypto.config(mode="auto"):
            assert active().mode == "auto" and active().device == "950pr"
        assert active().mode == "step"
    assert active() == before


def test_setter():
    before = active()
    restore = pypto.config(mode="step")
    assert active().mode == "step"
    restore.__exit__()
    assert active() == before


@pytest.mark.parametrize("settings, error, text", [
    ({"devise": "910b1"}, KeyError, "Did you mean 'device'"), ({"mode": "fast"}, ValueError, "auto, step"),
    ({"profile": "0.3"}, ValueError, "lenient, 0.2, master, guide"), ({"device": "910b9"}, ValueError, "910b1"),
    ({"threads": 0}, ValueError, "at least 1"), ({"threads": "2"}, TypeError, "int"),
    ({"device": 3}, TypeError, "name"),
])
def test_wrong_settings_change_nothing(settings, error, text):
    before = active()
    with pytest.raises(error, match=text) as e:
        pypto.config(**settings)
    assert isinstance(e.value, pypto.PyptoError) and active() == before


def test_environment():
    assert from_environment({"PYPTO_SIM_DEVICE": "", "PYPTO_SIM_MODE": " ", "PYPTO_SIM_THREADS": ""}) == {}
    assert from_environment({"PYPTO_SIM_DEVICE": "950pr", "PYPTO_SIM_THREADS": "2", "PYPTO_SIM_BUILD_X": "1",
                             "OTHER": "1"}) == {"device": "950pr", "threads": 2}
    assert from_environment({"PYPTO_SIM_POISON": "trace"}) == {"poison": "trace"}
    with pytest.raises(KeyError, match="PYPTO_SIM_DEVICES"):
        from_environment({"PYPTO_SIM_DEVICES": "950pr"})
    with pytest.raises(ValueError, match="PYPTO_SIM_THREADS"):
        from_environment({"PYPTO_SIM_THREADS": "two"})
    with pytest.raises(ValueError, match="PYPTO_SIM_MODE"):
        from_environment({"PYPTO_SIM_MODE": "fast"})


def test_settings_of_a_thread_stay_there():
    seen = []

    def work():
        with pypto.config(mode="step"):
            seen.append(active().mode)
        seen.append(active().profile)
    with pypto.config(profile="master"):
        t = threading.Thread(target=work)
        t.start()
        t.join()
        assert active().mode == "auto"
    assert seen == ["step", "master"]
