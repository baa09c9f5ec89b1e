"""Every stage of the graph lowering against the public 0.2.0 package: the package's graph before a pass goes in, its
graph after the pass must come out (official_sim/stages.json)."""

import json
import re

import pytest

lowering = pytest.importorskip("pypto_sim._lowering", reason="built with -C cmake.define.NPU_STAGE_TESTS=ON")

ATTRIBUTES = ("axis", "scalar", "trans_a", "trans_b", "direct")


@pytest.fixture(scope="module")
def kernels(shared_dir):
    return json.loads((shared_dir / "official_sim" / "stages.json").read_text())["kernels"]


NAMES = (
    "exp_float32_8x512", "ew_chain_tails_bf16_50x96", "ew_retile_64x512_32x512", "add_bfloat16_8x512",
    "ew_outer_sum_64x256", "ew_two_outputs_assemble", "softmax_one_row_8192_split", "rmsnorm_rope_fused_256x128",
    "mm_tails_200x320x144", "linear_A_matmul_add", "idx_topk_8x1024_k8_split", "loop_blocks_16",
    "loop_accumulate_8_unroll_2", "whole_24576_1",
)


def coordinate(entry):
    """(constant, symbol) of one offset: 16, 'i*32' or '(i*32)+16'."""
    if isinstance(entry, int):
        return entry, b""
    match = re.fullmatch(r"\((.*)\)\+(\d+)", entry)
    return (int(match[2]), match[1].encode()) if match else (0, entry.encode())


def tensor_row(row):
    ident, raw, shape, offset, dtype, memory, *raw_shape = row
    return ident, raw, shape, offset, dtype.encode(), memory.encode(), raw_shape[0] if raw_shape else shape


def op_row(row):
    ident, code, inputs, outputs, sub_graph, latency, *more = row
    attributes = more[0] if more else {}
    out = {"id": ident, "code": code.encode(), "in": inputs, "out": outputs, "sub_graph": sub_graph,
           "latency": latency}
    out.update({key: attributes[key] for key in ATTRIBUTES if key in attributes})
    out["transpose"] = attributes.get("transpose", False)
    out["to"] = attributes.get("to", "").encode()
    if "order" in attributes:
        out["ints"] = [attributes.get("k", 0), attributes["order"]]
    out.update({key: attributes[key] for key in ("vec_tile", "cube_shape") if key in attributes})
    if "at" in attributes:
        pairs = [coordinate(entry) for entry in attributes["at"]]
        out["at"], out["at_symbols"] = [p[0] for p in pairs], [p[1] for p in pairs]
    return out


def graph(tensors, ops, inputs=(), outputs=()):
    return lowering.Graph([tensor_row(t) for t in tensors], [op_row(o) for o in ops], list(inputs), list(outputs))


def leaf_graph(leaf):
    """The leaf's operations, with the ids that spill copies lack filled in; (graph, ids in order of `ops`)."""
    ids, ops = [], []
    fresh = max((o[0] for o in leaf["ops"] if o[0] is not None), default=0) + 1
    for row in leaf["ops"]:
        ident = row[0]
        if ident is None:
            ident, fresh = fresh, fresh + 1
        ids.append(ident)
        ops.append([ident, row[1], row[2], row[3], -1, row[4]])
    return graph(leaf["tensors"], ops), ids


@pytest.mark.parametrize("name", NAMES)
def test_leaf_cycles(kernels, name):
    """Start and end of every operation of every leaf that ran."""
    checked = 0
    for leaf in kernels[name]["leaves"]:
        if leaf["cycles"] is None or leaf["core"] == "HUB":
            continue
        built, ids = leaf_graph(leaf)
        order = [ids[i] for i in leaf["schedule"]]
        timings, _ = built.run_leaf(order)
        expected = [tuple(leaf["cycles"][i]) for i in leaf["schedule"]]
        assert timings == expected
        checked += len(expected)
    assert checked


@pytest.mark.parametrize("name", NAMES)
def test_device_timeline(kernels, name):
    """Core, start and end of every task, and the total."""
    kernel = kernels[name]
    leaves = [leaf_graph(leaf) if leaf["cycles"] and leaf["core"] != "HUB" else (None, []) for leaf in kernel["leaves"]]
    graphs = [g for g, _ in leaves]
    orders = [[ids[i] for i in leaf["schedule"]] if g else []
              for (g, ids), leaf in zip(leaves, kernel["leaves"], strict=True)]
    device_tasks, ids = [], []
    for number in sorted({row[0] for row in kernel["tasks"]}):
        rows = [row for row in kernel["tasks"] if row[0] == number]
        place = {row[1]: i for i, row in enumerate(rows)}
        ids.append([row[1] for row in rows])
        device_tasks.append([(row[2], -1 if row[3] is None or row[2] == "HUB" else row[3], [place[s] for s in row[5]])
                             for row in rows])
    timings, cycles = lowering.run_device(graphs, orders, device_tasks)
    found = sorted((d, ids[d][i], core, start, end) for d, rows in enumerate(timings)
                   for i, (core, start, end) in enumerate(rows) if core >= 0)
    assert found == sorted(tuple(row) for row in kernel["timeline"])
    assert cycles == kernel["cycles"]


def single_root(kernel):
    return len(kernel["instances"]) == 1


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith("loop_")])
def test_task_graph(kernels, name):
    """Tasks, hubs, ids and successor order of kernels with one root function."""
    kernel = kernels[name]
    (root,) = kernel["roots"]
    assert single_root(kernel)
    calls = [(sub_graph, leaf, kernel["leaves"][leaf]["core"] or "HUB", inputs, outputs)
             for sub_graph, leaf, inputs, outputs in root["calls"]]
    found = lowering.task_graph(calls, [t for t, _ in root["outputs"]])
    expected = [(core, sub_graph, successors) for _, _, core, _, sub_graph, successors in kernel["tasks"]]
    assert [(core, None if call < 0 else calls[call][0], successors) for core, call, successors in found] == expected


def unscheduled_graph(leaf):
    """The leaf as the in-core scheduler gets it: no spill copies, operands before redirection."""
    ops = []
    for row in leaf["ops"]:
        if row[0] is None:
            continue
        more = row[5] if len(row) > 5 else {}
        inputs, outputs = more.get("unscheduled", (row[2], row[3]))
        ops.append([row[0], row[1], inputs, outputs, -1, row[4]])
    return graph(leaf["tensors"], ops)


@pytest.mark.parametrize("name", NAMES)
def test_in_core_schedule(kernels, name):
    """Final order, shared buffers and spill copies of every leaf."""
    for leaf in kernels[name]["leaves"]:
        order, shared, spills, after = lowering.schedule_leaf(unscheduled_graph(leaf))
        assert sorted(shared) == sorted(sorted(group) for group in leaf["shared_buffers"])
        assert spills == leaf["spills"]
        by_id = {op["id"]: op for op in after.ops()}
        expected = [leaf["ops"][i] for i in leaf["schedule"]]
        assert [by_id[i]["code"] for i in order] == [row[1] for row in expected]
        assert [i if row[0] is not None else None for i, row in zip(order, expected, strict=True)] == [
            row[0] for row in expected]


def stages_of(root):
    """(pass, tensors, ops) of a root, with the lists that did not change filled in."""
    tensors, ops = [], []
    for stage in root["stages"]:
        tensors, ops = stage.get("tensors", tensors), stage.get("ops", ops)
        yield stage["pass"], tensors, ops


ENDS = {"whole_24576_1"}   # graph stages only up to AutoCast


def transitions(kernel, name):
    """(root, graph before, tensors after, ops after) of one pass, for every root function that has it."""
    for root in kernel["roots"]:
        before = None
        for stage, tensors, ops in stages_of(root):
            if stage == name and before is not None:
                yield root, before, tensors, ops
            before = tensors, ops


def changed(root, name):
    return any(stage["pass"] == name and "ops" in stage for stage in root["stages"])


def built(root, before):
    return graph(*before, [t for t, _ in root["inputs"]], [t for t, _ in root["outputs"]])


GRAPH_NAMES = [n for n in NAMES if n not in ENDS]


@pytest.mark.parametrize("name", GRAPH_NAMES)
def test_graph_partition(kernels, name):
    """Sub-graph of every operation."""
    for root, before, _, ops in transitions(kernels[name], "GraphPartition"):
        found = built(root, before)
        if changed(root, "InsertOpForViewAssemble"):
            lowering.run(found, "Sort")          # operations were added, so the next pass sorts first
        lowering.run(found, "GraphPartition")
        assert [(op["id"], op["sub_graph"]) for op in found.ops()] == [(op[0], op[4]) for op in ops]


@pytest.mark.parametrize("name", GRAPH_NAMES)
@pytest.mark.parametrize("stage", ["NBufferMerge", "L1CopyInReuseMerge"])
def test_sub_graph_merges(kernels, name, stage):
    """Sub-graph of every operation after the vector and the cube merge."""
    for root, before, _, ops in transitions(kernels[name], stage):
        found = built(root, before)
        lowering.run(found, stage)
        assert [(op["id"], op["sub_graph"]) for op in found.ops()] == [(op[0], op[4]) for op in ops]


def coordinate_text(constant, symbol):
    if not symbol:
        return constant
    return f"({symbol})+{constant}" if constant else symbol


def found_rows(found):
    """Tensors and operations of a graph in the form of the reference rows."""
    tensors = [[i, raw, shape, offset, dtype, memory, *([raw_shape] if raw_shape != shape else [])]
               for i, raw, shape, offset, dtype, memory, raw_shape in found.tensors()]
    ops = []
    for op in found.ops():
        more = {"at": [coordinate_text(*pair) for pair in zip(op["at"], op["at_symbols"], strict=True)]}
        if op["to"]:
            more["to"] = op["to"]
        if op["transpose"]:
            more["transpose"] = True
        ops.append([op["id"], op["code"], op["in"], op["out"], op["sub_graph"], op["latency"], more])
    return tensors, ops


class Renaming:
    """Names tensors and storage by first appearance, so that two graphs compare up to ids."""

    def __init__(self, tensors, root, keep_raw):
        self.rows = {row[0]: row for row in tensors}
        self.names, self.raws, self.keep_raw = {}, {}, keep_raw
        for ident, _ in root["inputs"] + root["outputs"]:
            self.tensor(ident)

    def tensor(self, ident):
        if ident not in self.names:
            _, raw, shape, offset, dtype, memory, *raw_shape = self.rows[ident]
            self.raws.setdefault(raw, len(self.raws))
            place = (self.raws[raw], offset, raw_shape) if self.keep_raw else ()
            self.names[ident] = (len(self.names), shape, dtype, memory, *place)
        return self.names[ident]


TEXTS = ("at", "to", "transpose")


def canonical(tensors, ops, root, keep_raw=True, keep_sub_graph=True):
    """Operation list with ids replaced by order of appearance."""
    rename = Renaming(tensors, root, keep_raw)
    rows = []
    for _, code, inputs, outputs, sub_graph, latency, *more in ops:
        attributes = {key: value for key, value in (more[0] if more else {}).items() if key in TEXTS and value != []}
        rows.append((code, [rename.tensor(t) for t in inputs], [rename.tensor(t) for t in outputs],
                     sub_graph if keep_sub_graph else None, latency, attributes))
    return rows


MOVE_STAGES = ("GenerateMoveOp", "CommonOperationEliminate", "PadLocalBuffer", "InferDynShape")


@pytest.mark.parametrize("name", GRAPH_NAMES)
@pytest.mark.parametrize("stage", MOVE_STAGES)
def test_moves(kernels, name, stage):
    """Copies between sub-graphs, moves, equal operations, padding, shared storage, final numbers."""
    for root, before, tensors, ops in transitions(kernels[name], stage):
        found = built(root, before)
        lowering.run(found, stage)
        assert canonical(*found_rows(found), root) == canonical(tensors, ops, root)


@pytest.mark.parametrize("name", GRAPH_NAMES)
@pytest.mark.parametrize("stage", ["MergeViewAssemble", "SplitLargeFanoutTensor", "DuplicateOp", "AssignMemoryType",
                                   "RemoveRedundantOp"])
def test_clean_up(kernels, name, stage):
    """Merged chains, split tensors, repeated views: operations, operands and order."""
    for root, before, tensors, ops in transitions(kernels[name], stage):
        found = built(root, before)
        lowering.run(found, stage)
        assert canonical(*found_rows(found), root) == canonical(tensors, ops, root)


@pytest.mark.parametrize("name", GRAPH_NAMES)
def test_insert_op_for_view_assemble(kernels, name):
    """Detours through global memory; the package's place of new operations is not reproducible, so both are sorted."""
    for root, before, tensors, ops in transitions(kernels[name], "InsertOpForViewAssemble"):
        found, expected = built(root, before), built(root, (tensors, ops))
        lowering.run(found, "InsertOpForViewAssemble")
        if changed(root, "InsertOpForViewAssemble"):
            lowering.run(found, "Sort")
            lowering.run(expected, "Sort")
        assert canonical(*found_rows(found), root) == canonical(*found_rows(expected), root)


@pytest.mark.parametrize("name", NAMES)
def test_auto_cast(kernels, name):
    """Casts around operations without 16-bit arithmetic."""
    for root, before, tensors, ops in transitions(kernels[name], "AutoCast"):
        found = built(root, before)
        lowering.run(found, "AutoCast")
        assert canonical(*found_rows(found), root) == canonical(tensors, ops, root)


TILE_SOURCE = {"TOPK": "BITSORT"}


def with_tiles(ops, expanded, tensors):
    """The tensor operations with the tile shapes their tile operations report, or show by a larger first output."""
    vec, cube, shapes = {}, {}, {row[0]: row[2] for row in tensors}
    for _, code, _, outputs, *_, more in (row for row in expanded if len(row) > 6):
        if "tile" in more:
            shown = shapes[outputs[0]]
            larger = len(shown) == len(more["tile"]) and any(a > b for a, b in zip(shown, more["tile"], strict=True))
            vec.setdefault(code, shown if larger and code not in ("BITSORT", "MRGSORT") else more["tile"])
        if "cube_tile" in more:
            (m0, m1), (k, ka, kb), (n0, n1) = more["cube_tile"]
            cube.setdefault(code, [m0, m1, k, ka, kb, n0, n1])
    rows = []
    for row in ops:
        more = dict(row[6]) if len(row) > 6 else {}
        code = TILE_SOURCE.get(row[1], row[1])
        if code in vec:
            more["vec_tile"] = vec[code]
        if code in cube:
            more["cube_shape"] = cube[code]
        rows.append([*row[:6], more])
    return rows


@pytest.mark.parametrize("name", GRAPH_NAMES)
def test_expand_function(kernels, name):
    """Tile operations of every operation, with the links between windows, in emission order."""
    for root, before, tensors, ops in transitions(kernels[name], "ExpandFunction"):
        found = built(root, (before[0], with_tiles(before[1], ops, tensors)))
        lowering.run(found, "ExpandFunction")
        assert canonical(*found_rows(found), root) == canonical(tensors, ops, root)
