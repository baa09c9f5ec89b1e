# Predicted cost of a Program under either model.

cdef extern from "npu_core/program/cost_report.h" namespace "npu" nogil:
    cdef cppclass IntData:
        const uint8_t* data
        int64_t bytes
    cdef cppclass Assumed:
        string key
        int64_t low, high
    cdef cppclass EstimateReport:
        string json, code, message, line

cdef extern from "npu_core/plan/estimate.h" namespace "npu::plan" nogil:
    EstimateReport cpp_plan_and_cost "npu::plan::plan_and_cost"(
        const CppProgram& p, const unordered_map[string, double]& device, const vector[IntData]& data,
        const vector[Assumed]& assume, int64_t timeline_tasks) except +

cdef extern from "npu_core/lowering/estimate.h" namespace "npu::lowering" nogil:
    EstimateReport official_estimate(
        const CppProgram& p, const vector[IntData]& data, const vector[Assumed]& assume, int64_t timeline_tasks) except +
    EstimateReport cpp_official_record "npu::lowering::official_record"(
        const CppProgram& p, const vector[IntData]& data, const vector[Assumed]& assume) except +


cdef list int_data(int_args, vector[IntData]& data):
    """Appends one entry per argument; the list keeps the buffers alive."""
    cdef IntData d
    cdef ArgBuffer b
    cdef list held = []
    for array in int_args:
        d.data = NULL
        d.bytes = 0
        if array is not None:
            b = ArgBuffer(array)
            held.append(b)
            d.data = <const uint8_t*>b.view.buf
            d.bytes = b.view.len
        data.push_back(d)
    return held


cdef str checked(const EstimateReport& r):
    if r.code == b"interrupted":
        raised()
    if r.code.size():
        raise CoreError(text(r.code), text(r.message), text(r.line))
    return text(r.json)


def content(int_args):
    """What a result depends on of the data: short arrays as they are, long ones by a digest."""
    views = [None if a is None else memoryview(a).cast("B") for a in int_args]
    return tuple(v if v is None else bytes(v) if len(v) <= 4096 else hashlib.blake2b(v).digest() for v in views)


cdef vector[Assumed] assumed_values(assume):
    cdef vector[Assumed] assumed
    cdef Assumed a
    for key, (low, high) in assume.items():
        a.key = str(key).encode()
        a.low = low
        a.high = high
        assumed.push_back(a)
    return assumed


# Results kept per Program. Longer ones, such as timelines, and those that depend on much data are not kept.
KEPT_RESULTS, KEPT_BYTES, KEPT_DATA_BYTES = 8, 1 << 20, 16 << 20


def plan_and_cost(Program program, device, str model, int_args, assume, int64_t timeline_tasks=0):
    """Fields of an estimate. device: numbers of a device table, which only model "calibrated" reads."""
    cdef unordered_map[string, double] table
    cdef vector[IntData] data
    cdef vector[Assumed] assumed = assumed_values(assume)
    cdef EstimateReport r
    cdef cbool official = model == "official"
    cdef list held = int_data(int_args, data)
    cdef object asked = None
    if not official and model != "calibrated":
        raise CoreError("usage", f"model is official or calibrated, not {model}", "")
    if official and device.get("chip.is_950", 0):
        raise CoreError("usage", "the official model has no 950 table: its constants cover A2/A3 only", "")
    if not program.builder.get().finished():
        raise RuntimeError("finish() the Program before plan_and_cost()")
    # A Program does not change once it is finished: the same question has the same answer.
    if sum(0 if a is None else a.nbytes for a in int_args) <= KEPT_DATA_BYTES:
        asked = (model, () if official else tuple(device.items()), content(int_args), tuple(sorted(assume.items())),
                 timeline_tasks)
        if asked in program.estimates:
            return json.loads(program.estimates[asked])
    for key, value in device.items():
        table[key.encode()] = value
    cdef const CppProgram* p = &program.builder.get().program()
    with nogil:
        if official:
            r = official_estimate(p[0], data, assumed, timeline_tasks)
        else:
            r = cpp_plan_and_cost(p[0], table, data, assumed, timeline_tasks)
    found = checked(r)
    if asked is not None and len(found) <= KEPT_BYTES:
        if len(program.estimates) >= KEPT_RESULTS:
            program.estimates.pop(next(iter(program.estimates)), None)
        program.estimates[asked] = found
    return json.loads(found)


def kept_results(Program program):
    """Number of results that a Program keeps."""
    return len(program.estimates)


def official_record(Program program, int_args, assume):
    """Fields that the public simulator reports of a run (dict)."""
    cdef vector[IntData] data
    cdef vector[Assumed] assumed = assumed_values(assume)
    cdef EstimateReport r
    cdef list held = int_data(int_args, data)
    if not program.builder.get().finished():
        raise RuntimeError("finish() the Program before official_record()")
    cdef const CppProgram* p = &program.builder.get().program()
    with nogil:
        r = cpp_official_record(p[0], data, assumed)
    return json.loads(checked(r))
