"""Device tables: names, values, sources, errors, and agreement with the tool that generates them."""
import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import pytest

import pypto_sim as pypto
from pypto_sim import device as device_module
from pypto_sim.device import Device, DeviceError

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("910b1", "910b2", "910b3", "910b4", "910c", "950pr", "950dt")


def test_names_in_the_documented_list():
    assert device_module.names()[0] == "910b1" and set(device_module.names()) == set(NAMES)
    assert device_module.names(variants=True)[0] == "910b1"
    assert {"950dt_958x", "950dt_957x", "950pr_957x"} <= set(device_module.names(variants=True))


@pytest.mark.parametrize("name", device_module.names(variants=True))
def test_every_number_has_a_source(name):
    dev = Device.load(name)
    known = ("documented", "measured", "inferred", "assumed", "simulator", "measured-fit", "documented-fit",
             "simulator-fit", "fitted")
    assert len(dev.entries) > 100
    for key, entry in dev.entries.items():
        assert entry.source.strip() and "same file" not in entry.source, key
        assert entry.confidence.split(",")[0] in known, (key, entry.confidence)


@pytest.mark.parametrize(("name", "key", "value"), [
    ("910b1", "capacity.ub", 196608), ("910b1", "cores.aic", 24), ("910b1", "cores.freq_ghz", 1.85),
    ("910b2", "cores.freq_ghz", 1.8), ("910b3", "cores.aiv", 40), ("910b4", "chip_bandwidth.hbm_gbs", 800),
    ("910b4", "stream_model.hbm_read_gbs", 950.0), ("910c", "capacity.l1", 524288),
    ("950pr", "capacity.ub", 253952), ("950pr", "capacity.gm", 137438953472), ("950dt", "chip_bandwidth.hbm_gbs", 4000),
    ("950dt", "bandwidth.aiv_gm_read_bpc_hbm", 40), ("950dt", "stream_model.decode_attention", [5.25, 3350.0]),
])
def test_values(name, key, value):
    assert Device.load(name)[key] == value


def test_chip_and_flat_numbers():
    assert Device.load("910c").chip == "A2A3" and Device.load("950dt").chip == "950"
    numbers = Device.load().numbers()
    assert numbers["vector_instr.vexp.0"] == 31 and numbers["vector_instr.vexp.1"] == 2.0
    assert all(isinstance(v, float) for v in numbers.values())
    assert Device.load("950pr").numbers()["chip.is_950"] == 1.0


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(DeviceError, match="Known: 910b1.*Did you mean '910b"):
        Device.load("910b9")
    with pytest.raises(KeyError, match="capacity.ub"):
        Device.load()["capacity.ubb"]


def test_user_table(tmp_path):
    text = (device_module.FOLDER / "910b1.toml").read_text()
    assert "ub = {value = 196608" in text
    path = tmp_path / "half_ub.toml"
    path.write_text(text.replace("ub = {value = 196608", "ub = {value = 98304"))
    assert Device.load(str(path))["capacity.ub"] == 98304
    assert Device.load()["capacity.ub"] == 196608


@pytest.mark.parametrize(("old", "new", "message"), [
    ('ub = {value = 196608, confidence = "documented"', 'ub = {value = 196608, confidence = ""', "no source"),
    ("ub = {value = 196608", "uc = {value = 196608", "missing capacity.ub"),
    ('chip = "A2A3"', 'chip = "A9"', "chip must be one of"),
    ("[device]", "[device", "device table"),
])
def test_user_table_refused(tmp_path, old, new, message):
    text = (device_module.FOLDER / "910b1.toml").read_text()
    assert old in text
    path = tmp_path / "bad.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(DeviceError, match=message):
        Device.load(path)


@pytest.mark.parametrize(("key", "value", "message"), [
    ("cores.aic", -1, "not negative"), ("cores.aic", 0, "whole number of cores from 1"), ("cores.aiv", 1.5, "whole"),
    ("cores.aic", True, "whole number"), ("cores.freq_ghz", 1850, "GHz"), ("cores.freq_ghz", float("nan"), "finite"),
    ("chip_bandwidth.hbm_gbs", 1.6e12, "GB/s"), ("chip_bandwidth.hbm_gbs", "fast", "GB/s"),
    ("capacity.ub", 192, "bytes"),
    ("latency.gm_read_latency", 1e18, "at most 1e"), ("vector_instr.vexp", [1e30, 1e30], "at most 1e"),
    ("vector_instr.vexp", [1], "pair"), ("pypto_runtime.aicpu_machines", 0, "from 1 to 64"),
    ("latency.gm_read_latency", -5, "not negative"), ("stream_model.hbm_read_gbs", 0, "above 0"),
])
def test_numbers_of_a_user_table_are_checked(key, value, message):
    base = Device.load("910b1")
    table = tomllib.loads(base.path.read_text(encoding="utf-8"))
    section, name = key.split(".")
    table[section][name]["value"] = value
    with pytest.raises(DeviceError, match=f"own.toml: {key} .*{message}"):
        Device(table, Path("own.toml"))


def test_a_table_that_is_no_text(tmp_path):
    path = tmp_path / "own.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DeviceError, match="own.toml"):
        Device.load(path)


def test_missing_user_table():
    with pytest.raises(DeviceError, match="No such file"):
        Device.load("nowhere/none.toml")


def test_tables_are_what_the_tool_generates(shared_dir, tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("make_device_tables", ROOT / "tools" / "make_device_tables.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    monkeypatch.setattr(tool, "OUT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["tool", str(shared_dir / "hardware")])
    tool.main()
    for path in tmp_path.glob("*.toml"):
        assert tomllib.loads(path.read_text()) == tomllib.loads((device_module.FOLDER / path.name).read_text())
    assert len(list(tmp_path.glob("*.toml"))) == 10


def test_a_copy_of_a_shipped_table_is_the_users_own(tmp_path):
    """Name and kind of the original that it still says do not make it the original."""
    text = (device_module.FOLDER / "910b1.toml").read_text()
    renamed, kept = tmp_path / "renamed.toml", tmp_path / "kept.toml"
    renamed.write_text(text.replace('name = "910b1"', 'name = "mychip"'))
    kept.write_text(text.replace("ub = {value = 196608", "ub = {value = 393216"))
    spec = pypto.Spec((64, 1024), pypto.DT_FP32)

    @pypto.frontend.jit()
    def add(a: pypto.Tensor(), b: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(rows, 1024)
        out[:] = a + b

    rows = 8
    first = pypto.estimate(add, spec, spec, spec, device=str(renamed))
    assert first.device == "mychip" and "nothing measured" in first.error_band
    assert first.cycles == pypto.estimate(add, spec, spec, spec, device="910b1").cycles
    rows = 32                                        # needs twice the UB of the shipped table
    large = pypto.estimate(add, spec, spec, spec, device=str(kept))
    assert large.device == "910b1 (kept.toml)" and large.peak_bytes["UB"] > 196608
    with pytest.raises(pypto.error.CapacityError):
        pypto.estimate(add, spec, spec, spec, device=str(renamed))


@pytest.mark.parametrize(("key", "cube"), [("chip_bandwidth.hbm_gbs", True), ("vector_stream.hbm_gbs", False)])
def test_hbm_of_an_own_table(tmp_path, key, cube):
    section, name = key.split(".")
    text = (device_module.FOLDER / "910b1.toml").read_text()
    head, rest = text.split(f"[{section}]\n")
    rest = re.sub(rf"(?m)^({name} = {{value = )([\d.]+)", lambda m: f"{m[1]}{float(m[2]) / 4}", rest, count=1)
    own = tmp_path / "own.toml"
    own.write_text(f"{head}[{section}]\n{rest}")

    @pypto.frontend.jit()
    def product(a: pypto.Tensor(), b: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_cube_tile_shapes([16, 16], [128, 256], [256, 256])
        out[:] = pypto.matmul(a, b, pypto.DT_FP32)

    @pypto.frontend.jit()
    def stream(a: pypto.Tensor(), b: pypto.Tensor(), out: pypto.Tensor()):
        pypto.set_vec_tile_shapes(8, 1024)
        out[:] = a + b

    large = pypto.Spec((4096, 4096), pypto.DT_FP16)
    left, out = pypto.Spec((16, 4096), pypto.DT_FP16), pypto.Spec((16, 4096), pypto.DT_FP32)
    kernel, args = (product, (left, large, out)) if cube else (stream, (large, large, large))
    slow = pypto.estimate(kernel, *args, device=str(own))
    assert slow.time_us > 1.5 * pypto.estimate(kernel, *args).time_us
