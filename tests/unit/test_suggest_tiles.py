"""Tile search: suggested tiles are what a user could have written, priced the same, and no worse than the own ones."""
import pickle

import pytest

import pypto_sim as pypto
from pypto_sim.cli import main
from pypto_sim.run.limits import limits_of
from pypto_sim.trace.tiles import CubeTile
from pypto_sim.trace.trial import TileSite, TileTrial, tile_text

F16, F32 = pypto.DT_FP16, pypto.DT_FP32


@pypto.frontend.jit
def rows_softmax(x: pypto.Tensor([], F32), y: pypto.Tensor([], F32), rows=4, columns=128):
    pypto.set_vec_tile_shapes(rows, columns)
    y[:] = pypto.softmax(x, -1)


@pypto.frontend.jit
def linear(x: pypto.Tensor([], F16), w: pypto.Tensor([], F16), y: pypto.Tensor([], F16), columns=64):
    pypto.set_cube_tile_shapes([32, 32], [64, 64], [64, 64])
    with pypto.options(vec_tile_shapes=[128, columns]):
        y[:] = pypto.exp(pypto.matmul(x, w, F16))


def spec(*shape, dtype=F32):
    return pypto.Spec(shape, dtype)


def test_suggestion_is_reached_by_setting_the_tiles():
    x, y = spec(1024, 512), spec(1024, 512)
    found = pypto.suggest_tiles(rows_softmax, x, y)
    assert found.before.time_us == pypto.estimate(rows_softmax, x, y).time_us > found.best.time_us
    (change,) = found.changes
    assert change.line.startswith("test_suggest_tiles.py:") and change.tile == "set_vec_tile_shapes(4, 128)"
    rows, columns = eval(change.suggested.removeprefix("set_vec_tile_shapes"))
    again = pypto.estimate(rows_softmax, x, y, rows, columns)
    assert (again.time_us, again.gm_read_bytes) == (found.best.time_us, found.best.gm_read_bytes)
    assert found.complete and found.fitting <= found.trials


def test_nothing_to_gain_is_said():
    x, y = spec(1024, 512), spec(1024, 512)
    first = pypto.suggest_tiles(rows_softmax, x, y)
    rows, columns = eval(first.changes[0].suggested.removeprefix("set_vec_tile_shapes"))
    found = pypto.suggest_tiles(rows_softmax, x, y, rows=rows, columns=columns)
    assert found.changes == () and found.best == found.before
    assert "nothing tried is better" in str(found)


def test_tiles_that_do_not_fit_shrink_until_they_do():
    args = spec(256, 128, dtype=F16), spec(128, 2048, dtype=F16), spec(256, 2048, dtype=F16)
    with pytest.raises(pypto.PyptoError):
        pypto.estimate(linear, *args, columns=4096)
    found = pypto.suggest_tiles(linear, *args, columns=4096)
    assert found.before is None and "UB" in found.refused and found.best.time_us > 0
    assert any("set_vec_tile_shapes" in c.suggested for c in found.changes)


def test_cube_and_vector_sites_are_both_searched():
    args = spec(512, 512, dtype=F16), spec(512, 1024, dtype=F16), spec(512, 1024, dtype=F16)
    found = pypto.suggest_tiles(linear, *args)
    assert found.changes and found.best.time_us < found.before.time_us
    with TileTrial() as trial:
        linear.program(*args)
    assert {type(site.tile) for site in trial.sites} == {CubeTile, tuple}
    assert found.trials > 2 * len(trial.sites)


def test_limit_of_trials():
    found = pypto.suggest_tiles(rows_softmax, spec(1024, 512), spec(1024, 512), trials=2)
    assert found.trials == 2 and not found.complete and "limit" in str(found)


def test_trials_leave_the_kernel_and_its_cache_alone():
    x, y = spec(64, 256), spec(64, 256)
    before = str(rows_softmax.program(x, y))
    cached = len(rows_softmax.cache)
    pypto.suggest_tiles(rows_softmax, x, y)
    assert str(rows_softmax.program(x, y)) == before and len(rows_softmax.cache) == cached


def test_trial_replaces_only_its_site():
    with TileTrial() as trial:
        rows_softmax.program(spec(8, 8), spec(8, 8))
    (site,) = trial.sites
    assert isinstance(site, TileSite) and site.tile == (4, 128)
    tasks = {}
    for name, changed in (("own", {}), ("elsewhere", {TileSite("elsewhere.py:1", (4, 128)): (8, 128)}),
                          ("here", {site: (8, 128)})):
        with TileTrial(changed):
            tasks[name] = pypto.estimate(rows_softmax, spec(8, 8), spec(8, 8)).tasks["AIV"]
    assert tasks == {"own": 2, "elsewhere": 2, "here": 1}
    cube = CubeTile((16, 16), (32, 64, 32), (16, 32), True)
    assert tile_text(cube) == "set_cube_tile_shapes([16, 16], [32, 64, 32], [16, 32], enable_split_k=True)"


@pytest.mark.parametrize("wrong", [0, True, "many", 1.5])
def test_wrong_number_of_trials(wrong):
    with pytest.raises(pypto.PyptoError, match="trials must be an int"):
        pypto.suggest_tiles(rows_softmax, spec(8, 8), spec(8, 8), trials=wrong)


@pytest.mark.parametrize("wrong", [0, -1, True, "long", float("nan")])
def test_wrong_number_of_seconds(wrong):
    with pytest.raises(pypto.PyptoError, match="seconds must be a positive number"):
        pypto.suggest_tiles(rows_softmax, spec(8, 8), spec(8, 8), seconds=wrong)


def test_no_time_left():
    found = pypto.suggest_tiles(rows_softmax, spec(1024, 512), spec(1024, 512), seconds=1e-9)
    assert found.trials == 1 and not found.complete and found.changes == ()


def test_search_from_small_cube_tiles_is_no_worse_than_a_usual_tile():
    @pypto.frontend.jit
    def product(x: pypto.Tensor([], F16), w: pypto.Tensor([], F16), y: pypto.Tensor([], F32), m=64, k=64, n=64):
        pypto.set_cube_tile_shapes([m, m], [k, 4 * k], [n, n])
        y[:] = pypto.matmul(x, w, F32)
    args = spec(1024, 2048, dtype=F16), spec(2048, 2048, dtype=F16), spec(1024, 2048)
    usual = pypto.estimate(product, *args, m=128, k=64, n=256)
    assert pypto.suggest_tiles(product, *args).best.time_us <= usual.time_us


def test_only_kernels():
    with pytest.raises(TypeError, match="made by pypto.frontend.jit"):
        pypto.suggest_tiles(len, spec(8, 8))


def test_other_errors_come_through():
    with pytest.raises(pypto.PyptoError, match="softmax"):
        pypto.suggest_tiles(rows_softmax, spec(8, 8, dtype=pypto.DT_INT32), spec(8, 8, dtype=pypto.DT_INT32))


def test_explore_shows_tiles(tmp_path, capsys):
    script = tmp_path / "mine.py"
    script.write_text("import pypto_sim as pypto\n@pypto.frontend.jit\n"
                      "def gelu(x: pypto.Tensor([1024, 512], pypto.DT_FP32),\n"
                      "         y: pypto.Tensor([1024, 512], pypto.DT_FP32)):\n"
                      "    pypto.set_vec_tile_shapes(2, 64)\n    y[:] = pypto.exp(x)\n")
    report = tmp_path / "r.md"
    assert main(["explore", f"{script}:gelu", "--tiles", "-o", str(report)]) == 0
    assert "set_vec_tile_shapes(2, 64)" in capsys.readouterr().out
    assert "## Tile shapes" in report.read_text()


@pytest.mark.parametrize("own", [4, 200])
def test_the_largest_tile_of_a_statement_is_the_last_that_plans(own):
    """One set_vec_tile_shapes for the five operations of a softmax: what they need together decides."""
    x, y = spec(4096, 512), spec(4096, 512)
    try:
        pypto.estimate(rows_softmax, x, y, rows=own)
        assert own == 4
    except pypto.error.CapacityError:
        assert own == 200
    (limit,) = limits_of(lambda: pypto.estimate(rows_softmax, x, y, rows=own), 60.0)
    rows, columns = eval(limit.largest.removeprefix("set_vec_tile_shapes"))
    assert columns == 128 and rows > 4 and limit.refused == f"set_vec_tile_shapes({rows + 1}, 128)"
    assert "UB" in limit.reason and limit.line.startswith("test_suggest_tiles.py:")
    pypto.estimate(rows_softmax, x, y, rows=rows)
    with pytest.raises(pypto.error.CapacityError):
        pypto.estimate(rows_softmax, x, y, rows=rows + 1)
    # one operation alone takes more
    pypto.estimate(one_operation, x, y, rows + 1, columns)
    explained = pypto.estimate(rows_softmax, x, y).explain()
    assert f"the largest that fits is {limit.largest}; {limit.refused} is refused" in explained


@pypto.frontend.jit
def one_operation(x: pypto.Tensor([], F32), y: pypto.Tensor([], F32), rows=4, columns=128):
    pypto.set_vec_tile_shapes(rows, columns)
    y[:] = pypto.exp(x)


def test_tiles_that_cover_the_tensors_have_no_limit():
    x, y = spec(16, 64), spec(16, 64)
    (limit,) = pypto.estimate(one_operation, x, y).limits()
    assert limit.refused == "" and "covers the tensors" in str(limit)


def test_limits_of_cube_tiles_and_of_copies():
    args = spec(256, 128, dtype=F16), spec(128, 2048, dtype=F16), spec(256, 2048, dtype=F16)
    e = pypto.estimate(linear, *args)
    cube = e.limits()[0]
    assert cube.largest == "set_cube_tile_shapes([256, 256], [64, 64], [128, 128])" and "L0C" in cube.reason
    assert pickle.loads(pickle.dumps(e)) == e and pickle.loads(pickle.dumps(e)).limits is None
    assert "limits" not in e.to_dict()
