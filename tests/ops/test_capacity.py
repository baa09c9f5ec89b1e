"""What one operation needs of the on-chip memories: the best case decides, scratch counts, messages name a way out."""
import pytest

from pypto_sim import capacity
from pypto_sim.dtypes import DataType
from pypto_sim.errors import CapacityError
from pypto_sim.rules import PROFILES
from pypto_sim.trace.tiles import CubeTile

D = {d.short: d for d in DataType}
F32, F16, B16, I32 = D["fp32"], D["fp16"], D["bf16"], D["int32"]
UB = 196608


def needed(call, s):
    """Bytes of the capacity error of `call`, 0 when it fits."""
    try:
        call()
    except CapacityError as error:
        assert error.bytes == sum(size for *_, size in error.live) and error.limit == UB == int(s.device["capacity.ub"])
        assert error.memory == "UB" and error.rule == "capacity"
        return error.bytes
    return 0


# (operation, operand shapes, tile, bytes that do not fit or 0)
CASES = [
    # one tile per distinct operand; the result takes an operand's place
    ("exp", [(64, 768)], (64, 768), 0),                                  # exactly 192 KB
    ("exp", [(64, 776)], (64, 776), 198656),
    ("add", [(64, 384), (64, 384)], (64, 384), 0),
    ("add", [(48000,), (48000,)], (48000,), 384000),
    ("add", [(256, 512), (256, 512)], (256, 512), 524288),               # one tile alone is too large
    ("add", [(256, 512), (256, 512)], (48, 512), 0),
    ("add", [(256, 512), (256, 1)], (64, 512), 262144),                  # the broadcast operand is expanded
    ("div", [(64, 384), (64, 384)], (64, 384), 0),
    # never in place
    ("reciprocal", [(64, 384)], (64, 384), 0),
    ("reciprocal", [(64, 392)], (64, 392), 200704),
    # row reductions: input, result and half the input as scratch
    ("amax", [(1, 24576)], (1, 24576), 0),
    ("amax", [(1, 32768)], (1, 32768), 131072 + 32 + 65536),
    ("sum", [(2, 8192)], (2, 8192), 0),
    ("sum", [(4, 8192)], (4, 8192), 131072 + 128 + 65536),
    ("amax", [(8, 4096)], (8, 4096), 131072 + 256 + 65536),
    ("sum", [(8, 2048)], (8, 2048), 0),
    # split rows are combined in pairs: three tiles
    ("amax", [(8, 8192)], (8, 2048), 0),
    ("amax", [(8, 8192)], (8, 2056), 3 * 8 * 2056 * 4),
    # softmax chain over one row tile
    ("softmax", [(1, 24576)], (1, 24576), 0),
    ("softmax", [(1, 32768)], (1, 32768), 196640),
    ("softmax", [(2, 8192)], (2, 8192), 0),
    ("softmax", [(4, 8192)], (4, 8192), 196736),
    ("softmax", [(8, 4096)], (8, 4096), 196864),
    # sequences with scratch
    ("tanh", [(1, 9824)], (1, 9824), 0),
    ("tanh", [(1, 12288)], (1, 12288), 2 * 49152 + 2 * 49152 + 1536 + 32),
    ("erf", [(1, 9824)], (1, 9824), 0),
    ("erf", [(1, 9856)], (1, 9856), 5 * 39424),
    ("transpose", [(128, 128)], (128, 128), 0),
    ("transpose", [(128, 136)], (128, 136), 3 * 128 * 136 * 4),
]


@pytest.mark.parametrize(("name", "shapes", "tile", "wanted"), CASES,
                         ids=[f"{c[0]}-{'x'.join(map(str, c[2]))}-{'no' if c[3] else 'ok'}" for c in CASES])
def test_best_case_decides(name, shapes, tile, wanted, dry, F):
    s = dry(tile=tile)
    tensors = [s.tensor(shape) for shape in shapes]
    more = {"amax": (-1, True), "sum": (-1, True), "softmax": (-1,), "transpose": (0, 1)}.get(name, ())
    assert needed(lambda: F[name](*tensors, *more), s) == wanted


def test_the_same_tensor_twice_is_one_tile(dry, F):
    s = dry(tile=(64, 768))
    x = s.tensor((64, 768))
    F.mul(x, x)
    assert s.kernels == ["mul"]


@pytest.mark.parametrize("dtype", [B16, F16])
def test_promoted_types_count_as_fp32(dry, F, dtype):
    shape = (64, 512)
    s = dry(tile=shape)
    call = lambda: F.add(s.tensor(shape, dtype), s.tensor(shape, dtype))
    assert needed(call, s) == 2 * 64 * 512 * 4
    s = dry(tile=shape, numerics="0.2.0")
    assert needed(call, s) == (2 * 64 * 512 * 4 if dtype is B16 else 0)      # fp16 is not promoted there
    s = dry(tile=shape)
    F.tanh(s.tensor((64, 64), dtype))


def test_gather_needs_the_whole_axis(dry, F):
    s = dry(tile=(1, 16), profile="master")
    F.gather(s.tensor((1024, 256)), 0, s.tensor((2, 16), I32))
    with pytest.raises(CapacityError, match="No tile of this operation fits"):
        F.gather(s.tensor((32000, 256)), 0, s.tensor((2, 16), I32))


def test_the_950_has_more(dry, F):
    s = dry(tile=(1, 32768), device="950pr", profile="0.2")
    F.amax(s.tensor((1, 32768)), -1, True)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_message_names_everything(dry, F, profile):
    s = dry(tile=(48000,), profile=profile)
    a, b = s.tensor((48000,)), s.tensor((48000,))
    a.name, b.name = "a", "b"
    with pytest.raises(CapacityError) as caught:
        F.add(a, b)
    error = caught.value
    assert (error.op, error.tile, error.bytes, error.limit) == ("add", (48000,), 384000, UB)
    assert error.live == (("a", (48000,), 192000), ("b", (48000,), 192000))
    for text in ("pypto.add", "(48000,)", "384000 B", "196608 B", "a [48000] 192000 B", "b [48000] 192000 B",
                 "(24576,)", "test_capacity.py:"):
        assert text in str(error), text


@pytest.mark.parametrize(("name", "shapes", "tile", "wanted"), [c for c in CASES if c[3]])
def test_the_advised_tile_fits_and_a_larger_one_does_not(name, shapes, tile, wanted, dry, F):
    more = {"amax": (-1, True), "sum": (-1, True), "softmax": (-1,), "transpose": (0, 1)}.get(name, ())
    s = dry(tile=tile)
    with pytest.raises(CapacityError) as caught:
        F[name](*[s.tensor(shape) for shape in shapes], *more)
    advised = eval(str(caught.value).split("Largest tile that fits: ")[1].split(".")[0])
    assert advised < tile
    if name == "softmax":
        return                                        # the advice is for the step that failed
    s = dry(tile=advised)
    F[name](*[s.tensor(shape) for shape in shapes], *more)


@pytest.mark.parametrize("name", ["exp", "tanh", "sum", "transpose", "add", "erf"])
@pytest.mark.parametrize("shape", [(3, 5), (1000, 4096), (1, 200000), (4, 16, 1024)])
def test_a_chosen_tile_always_fits(dry, F, name, shape):
    s = dry(tile=None)
    more = {"sum": (-1, True), "transpose": (-2, -1), "add": (1.0,)}.get(name, ())
    F[name](s.tensor(shape), *more)
    tile = s.rows[-1].tile
    assert len(tile) == len(shape) and capacity.tile_bytes(tile, 4) <= UB // 4 + 32
    assert "tile.vec_unset" in s.fired


CUBE = [
    # (m, k, n), cube tile, dtype, memory, bytes
    ((64, 256, 256), ((64, 64), (256, 256, 256), (256, 256)), F16, "L0B", 131072),
    ((128, 4096, 128), ((128, 128), (64, 4096, 4096), (128, 128)), F16, "L1", 1048576),
    ((512, 128, 64), ((512, 512), (128, 128, 128), (64, 64)), F16, "L0A", 131072),
    ((512, 64, 128), ((512, 512), (32, 32, 32), (128, 128)), F16, "L0C", 262144),
    ((128, 128, 128), ((128, 128), (128, 128, 128), (128, 128)), F32, "", 0),      # exactly 64 KB each
    ((128, 256, 128), ((128, 128), (256, 256, 256), (128, 128)), F32, "L0A", 131072),
    ((16, 64, 64), ((512, 512), (512, 512, 512), (512, 512)), F16, "", 0),         # tiles are clamped to the operands
]


@pytest.mark.parametrize(("sizes", "tile", "dtype", "memory", "size"), CUBE)
def test_cube_tiles(dry, F, sizes, tile, dtype, memory, size):
    (m, k, n), s = sizes, dry()
    s.set_scope(cube_tile=CubeTile(*tile))
    call = lambda: F.matmul(s.tensor((m, k), dtype), s.tensor((k, n), dtype), F32)
    if not memory:
        call()
        return
    with pytest.raises(CapacityError) as caught:
        call()
    error = caught.value
    assert (error.op, error.memory, error.bytes) == ("matmul", memory, size)
    assert f"{size} B of {memory}" in str(error) and "Largest" in str(error)


def test_the_bias_table(dry, F):
    s = dry()
    s.set_scope(cube_tile=CubeTile((16, 16), (16, 16, 16), (512, 512)))
    call = lambda: F.matmul(s.tensor((16, 16), F16), s.tensor((16, 512), F16), F32,
                            extend_params={"bias_tensor": s.tensor((1, 512))})
    with pytest.raises(CapacityError, match="2048 B of BT.*Largest nL0 that fits: 256"):
        call()
    F.matmul(s.tensor((16, 16), F16), s.tensor((16, 512), F16), F32)


def test_reduce_scratch_formula():
    """Measured on 0.2.0: one block, one repeat a row, then half the row."""
    assert capacity.reduce_scratch((8, 64), 1, 4, "sum") == (1, 8)
    assert capacity.reduce_scratch((8, 128), 1, 4, "amax") == (8, 64)
    assert capacity.reduce_scratch((8, 4096), 1, 4, "amax") == (8, 2048)
    assert capacity.reduce_scratch((8, 64), 0, 4, "sum") == (4, 64)
    assert capacity.reduce_scratch((8, 64), 0, 4, "amax") == ()
    assert capacity.reduce_scratch((4096,), 0, 4, "sum") == (2048,)


def test_combine_axis_keeps_the_last_axis_of_a_broadcast_operand(dry, F):
    """The option inlines last-axis broadcasts: no expanded copy of the column."""
    s = dry(tile=(64, 640))
    call = lambda: F.sub(s.tensor((256, 640)), s.tensor((256, 1)))
    assert needed(call, s) == 2 * 64 * 640 * 4
    s.set_scope(groups={"operation": {"combine_axis": True}})
    assert needed(call, s) == 0
