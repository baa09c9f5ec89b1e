# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=True
# distutils: language = c++
"""Thin binding of the compiled core: checks buffers, drops the GIL, calls C++."""
import hashlib
import json

from cpython.buffer cimport PyBUF_C_CONTIGUOUS, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr, unique_ptr
from libcpp.pair cimport pair
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector


cdef extern from "npu_core/base/types.h" namespace "npu" nogil:
    cdef cppclass Shape:
        int rank
        int64_t& operator[](int)

cdef extern from "npu_core/base/thread_pool.h" namespace "npu" nogil:
    void set_thread_count(int n) except +
    int thread_count()

cdef extern from "npu_core/kernels/kernels.h" namespace "npu" nogil:
    cdef struct KernelTable:
        const char* isa
    const KernelTable& kernels() except +
    const char* const* cpp_available_isas "npu::available_isas"(int* count)
    void cpp_select_isa "npu::select_isa"(const char* name) except +

cdef extern from *:
    """
    #include "npu_core/program/opcodes.h"
    static inline int npu_opcode_count() { return static_cast<int>(npu::Opcode::COUNT); }
    static inline std::string npu_opcode_name(int i) { return std::string(npu::info(static_cast<npu::Opcode>(i)).name); }
    """
    int npu_opcode_count() nogil
    string npu_opcode_name(int i) nogil

cdef extern from "npu_core/program/program.h" namespace "npu" nogil:
    cdef cppclass CppOpRow "npu::OpRow":
        string name, kernel, cost_class, instr
        cbool bf16_arith, fp16_arith
    const vector[CppOpRow]& op_rows()
    void cpp_set_op_rows "npu::set_op_rows"(vector[CppOpRow] rows) except +

    cdef enum class Numerics(uint8_t):
        CURRENT
        V0_2_0
    cdef cppclass Span:
        int32_t begin, count
    cdef cppclass TensorInfo:
        Shape shape
        int arg_index
        string name
    cdef cppclass CppOp "npu::Op":
        int32_t row, tile, options, label
        Span outs, ins, ints, floats, scalars
        unsigned int wide_ins
        cbool wide_out
    cdef cppclass TileInfo:
        vector[int64_t] vec, cube
        cbool split_k
    cdef enum class ItemKind(uint8_t):
        OP
    cdef cppclass Item:
        ItemKind kind
        int32_t a, b, c, line
        Span span, unroll
        cbool parallel, submit_before
    cdef cppclass Body:
        vector[Item] items
    cdef cppclass CppProgram "npu::Program":
        vector[TensorInfo] tensors
        vector[CppOp] ops
        vector[Body] bodies
        vector[int32_t] ids
        vector[int64_t] ints
        vector[double] floats
        vector[TileInfo] tiles
        vector[string] lines, labels, options
        int32_t scalar_slots

cdef extern from "npu_core/program/listing.h" namespace "npu" nogil:
    string expr_text(const CppProgram& p, int32_t e)
    string program_text(const CppProgram& p)
    const char* item_kind_text(ItemKind kind)

cdef extern from "npu_core/program/builder.h" namespace "npu" nogil:
    cdef cppclass OpRequest:
        int32_t row, tile, options, label, line
        vector[int32_t] outs, ins, scalars
        vector[int64_t] ints
        vector[double] floats
    cdef cppclass LoopRequest:
        int32_t slot, start, stop, step, line
        cbool parallel, submit_before
        vector[int64_t] unroll
    cdef cppclass Builder:
        Builder(Numerics numerics) except +
        const CppProgram& program()
        cbool finished()
        int32_t tensor(int dtype, const vector[int64_t]& shape, int arg_index, string name) except +
        void extents(int32_t t, const vector[int32_t]& valid) except +
        void carries(int32_t t, int axis, int32_t slot) except +
        int32_t constant(int64_t value) except +
        int32_t expr(int op, int32_t a, int32_t b) except +
        pair[int32_t, int32_t] scalar(int kind) except +
        int32_t tile(vector[int64_t] vec, vector[int64_t] cube, cbool split_k) except +
        int32_t line(string text) except +
        int32_t label(string text) except +
        int32_t options(string text) except +
        void op(const OpRequest& r) except +
        void decl(int32_t t, int32_t line) except +
        void set(int32_t dst, int32_t src, int32_t line) except +
        void assemble(int32_t dst, int32_t src, const vector[int32_t]& offsets, int32_t line, bint in_place) except +
        void load(int32_t slot, int32_t t, const vector[int32_t]& index, int32_t line) except +
        void store(int32_t t, int32_t value, const vector[int32_t]& index, int32_t line) except +
        void block() except +
        void held(const vector[int32_t]& tensors) except +
        void begin_loop(const LoopRequest& r) except +
        void end_loop() except +
        void begin_if(int32_t cond, int32_t line) except +
        void begin_else() except +
        void end_if() except +
        void trap(int32_t number, int32_t line) except +
        void finish() except +

cdef extern from "npu_core/numeric/schedule.h" namespace "npu" nogil:
    cdef cppclass Schedule:
        pass
    shared_ptr[const Schedule] make_schedule(const CppProgram& p) except +

cdef extern from "npu_core/numeric/machine.h" namespace "npu" nogil:
    cdef cppclass ArgMemory:
        char* data
        int64_t bytes
        cbool writable
    cdef enum class Poison(uint8_t):
        OFF
        CHECK
        TRACE
    cdef cppclass MachineOptions:
        Poison poison
        cbool clamp_elements, fuse, keep
    cdef cppclass Candidate:
        string op, line, text
    cdef enum class Outcome(uint8_t):
        OK
        FAULT
        TRAP
        INTERRUPTED
    cdef cppclass Report:
        Outcome outcome
        string code, message, line
        int32_t trap
    cdef cppclass CppMachine "npu::Machine":
        Report run(const Schedule& schedule)
        Report step()
        int64_t scalar(int32_t slot) except +
        void enter_parallel(int32_t line) except +
        void next_iteration(int64_t i) except +
        void leave_parallel() except +
        Shape valid(int32_t t) except +
        vector[char] read(int32_t t, cbool wide) except +
        cbool is_ready(int32_t t)
        void release(int32_t t)
        const vector[Candidate]& candidates()
        const vector[Candidate]& warnings()

cdef extern from *:
    """
    #include "npu_core/numeric/machine.h"
    // Construction and reads report a Fault by value, so that Python can raise it with its code.
    static npu::Report npu_make_machine(const npu::Program& p, std::vector<npu::ArgMemory> args, npu::MachineOptions o,
                                        std::unique_ptr<npu::Machine>& out) {
        npu::Report r;
        try { out = std::make_unique<npu::Machine>(p, std::move(args), o); }
        catch (const npu::Fault& f) { r.outcome = npu::Outcome::FAULT; r.code = f.code; r.message = f.message; }
        return r;
    }
    static npu::Report npu_read(npu::Machine& m, int32_t t, bool wide, std::vector<char>& out) {
        npu::Report r;
        try { out = m.read(t, wide); }
        catch (const npu::Fault& f) { r.outcome = npu::Outcome::FAULT; r.code = f.code; r.message = f.message; }
        return r;
    }
    """
    Report npu_make_machine(const CppProgram& p, vector[ArgMemory] args, MachineOptions o, unique_ptr[CppMachine]& out) except +
    Report npu_read(CppMachine& m, int32_t t, cbool wide, vector[char]& out) except +


class CoreError(Exception):
    """Run-time fault found by the core. args: (code, message, line "file:line" or "")."""


class TrapReached(Exception):
    """A recorded Python exception has to be raised now. args: (trap number,)."""


cdef str text(const string& s):
    return s.decode("utf-8", "replace")


cdef int check(const Report& r) except -1:
    if r.outcome == Outcome.FAULT:
        raise CoreError(text(r.code), text(r.message), text(r.line))
    if r.outcome == Outcome.TRAP:
        raise TrapReached(r.trap)
    return -1 if r.outcome == Outcome.INTERRUPTED else 0         # -1: a signal handler has raised


cdef extern from "Python.h":
    int PyErr_CheckSignals()


cdef extern from "npu_core/base/patience.h" namespace "npu" nogil:
    void set_interrupt_check(cbool (*should_end)() noexcept nogil)


cdef cbool signal_raised() noexcept with gil:
    return PyErr_CheckSignals() != 0


cdef int raised() except -1:
    return -1


set_interrupt_check(&signal_raised)


def isa():
    return kernels().isa.decode()


def available_isas():
    cdef int count = 0
    cdef const char* const* names = cpp_available_isas(&count)
    return [names[i].decode() for i in range(count)]


def select_isa(str name):
    cpp_select_isa(name.encode())


def set_threads(int n):
    set_thread_count(n)


def threads():
    return thread_count()


def executor_kernels():
    return [text(npu_opcode_name(i)) for i in range(npu_opcode_count())]


def set_op_rows(rows):
    cdef vector[CppOpRow] out
    cdef CppOpRow row
    for name, kernel, cost_class, instr, bf16_arith, fp16_arith in rows:
        row.name = name.encode()
        row.kernel = kernel.encode()
        row.cost_class = cost_class.encode()
        row.instr = instr.encode()
        row.bf16_arith = bf16_arith
        row.fp16_arith = fp16_arith
        out.push_back(row)
    cpp_set_op_rows(out)


def op_rows_in_use():
    cdef size_t i
    return [(text(op_rows()[i].name), text(op_rows()[i].kernel), text(op_rows()[i].cost_class), text(op_rows()[i].instr),
             op_rows()[i].bf16_arith, op_rows()[i].fp16_arith) for i in range(op_rows().size())]


cdef class Program:
    cdef unique_ptr[Builder] builder
    cdef shared_ptr[const Schedule] schedule
    cdef dict estimates                # results of cost-only runs by what else they depend on

    def __cinit__(self, int numerics=0):
        if numerics not in (0, 1):
            raise ValueError("numerics is 0 (current) or 1 (0.2.0)")
        self.estimates = {}
        self.builder.reset(new Builder(Numerics.V0_2_0 if numerics else Numerics.CURRENT))

    def tensor(self, int dtype, shape, int arg_index=-1, str name=""):
        cdef vector[int64_t] s = shape
        return self.builder.get().tensor(dtype, s, arg_index, name.encode())

    def extents(self, int32_t tensor, valid):
        """Valid extents of a result, which differ from its shape or may do so; read by the cost models only."""
        cdef vector[int32_t] v = valid
        self.builder.get().extents(tensor, v)

    def carries(self, int32_t tensor, int axis, int32_t slot):
        """Scalar that holds the valid extent of a local on one axis, whenever it is written; set by the plan only."""
        self.builder.get().carries(tensor, axis, slot)

    def const(self, int64_t value):
        return self.builder.get().constant(value)

    def expr(self, int op, int32_t a, int32_t b=-1):
        return self.builder.get().expr(op, a, b)

    def scalar(self, int kind):
        cdef pair[int32_t, int32_t] r = self.builder.get().scalar(kind)
        return r.first, r.second

    def tile(self, vec, cube, bint split_k):
        cdef vector[int64_t] v = vec
        cdef vector[int64_t] c = cube
        return self.builder.get().tile(v, c, split_k)

    def line(self, str text):
        return self.builder.get().line(text.encode())

    def label(self, str text):
        return self.builder.get().label(text.encode())

    def options(self, str text):
        return self.builder.get().options(text.encode())

    def op(self, int32_t row, outs, ins, ints=(), floats=(), scalars=(), int32_t tile=-1, int32_t options=-1,
           int32_t label=-1, int32_t line=-1):
        cdef OpRequest r
        r.row = row
        for i in outs:
            r.outs.push_back(i)
        for i in ins:
            r.ins.push_back(i)
        for i in ints:
            r.ints.push_back(<int64_t>i)
        for x in floats:
            r.floats.push_back(<double>x)
        for i in scalars:
            r.scalars.push_back(i)
        r.tile = tile
        r.options = options
        r.label = label
        r.line = line
        self.builder.get().op(r)

    def decl(self, int32_t tensor, int32_t line=-1):
        self.builder.get().decl(tensor, line)

    def set(self, int32_t dst, int32_t src, int32_t line=-1):
        self.builder.get().set(dst, src, line)

    def assemble(self, int32_t dst, int32_t src, offsets, int32_t line=-1, bint in_place=False):
        cdef vector[int32_t] o = offsets
        self.builder.get().assemble(dst, src, o, line, in_place)

    def load(self, int32_t slot, int32_t tensor, index, int32_t line=-1):
        cdef vector[int32_t] i = index
        self.builder.get().load(slot, tensor, i, line)

    def store(self, int32_t tensor, int32_t value, index, int32_t line=-1):
        cdef vector[int32_t] i = index
        self.builder.get().store(tensor, value, i, line)

    def block(self):
        self.builder.get().block()

    def held(self, tensors):
        """Results that variables still hold where a block ends; no item."""
        self.builder.get().held(tensors)

    def begin_loop(self, int32_t slot, int32_t start, int32_t stop, int32_t step, bint parallel=False, int32_t line=-1,
                   unroll=(), bint submit_before=False):
        cdef LoopRequest r
        r.slot = slot
        r.start = start
        r.stop = stop
        r.step = step
        r.parallel = parallel
        r.submit_before = submit_before
        r.line = line
        for i in unroll:
            r.unroll.push_back(<int64_t>i)
        self.builder.get().begin_loop(r)

    def end_loop(self):
        self.builder.get().end_loop()

    def begin_if(self, int32_t cond, int32_t line=-1):
        self.builder.get().begin_if(cond, line)

    def begin_else(self):
        self.builder.get().begin_else()

    def end_if(self):
        self.builder.get().end_if()

    def trap(self, int32_t number, int32_t line=-1):
        self.builder.get().trap(number, line)

    def finish(self):
        self.builder.get().finish()
        if not self.schedule.get():
            self.schedule = make_schedule(self.builder.get().program())

    def finished(self):
        return self.builder.get().finished()

    def __str__(self):
        return text(program_text(self.builder.get().program()))

    def items(self):
        return list_body(self.builder.get().program(), 0)


cdef list id_list(const CppProgram& p, Span s):
    return [p.ids[s.begin + i] for i in range(s.count)]


cdef list expr_list(const CppProgram& p, Span s):
    return [text(expr_text(p, p.ids[s.begin + i])) for i in range(s.count)]


cdef str pool_text(const vector[string]& pool, int32_t i):
    return text(pool[i]) if i >= 0 else ""


cdef list list_body(const CppProgram& p, int32_t body):
    cdef list out = []
    cdef size_t i, count = p.bodies[body].items.size()
    for i in range(count):
        out.append(list_item(p, p.bodies[body].items[i]))
    return out


cdef dict list_op(const CppProgram& p, const CppOp& op):
    cdef dict d = {"op": text(op_rows()[op.row].name), "outs": id_list(p, op.outs), "ins": id_list(p, op.ins)}
    d["ints"] = [p.ints[op.ints.begin + i] for i in range(op.ints.count)]
    d["floats"] = [p.floats[op.floats.begin + i] for i in range(op.floats.count)]
    d["scalars"] = expr_list(p, op.scalars)
    d["tile"] = None
    if op.tile >= 0:
        d["tile"] = (tuple(p.tiles[op.tile].vec), tuple(p.tiles[op.tile].cube), p.tiles[op.tile].split_k)
    d["label"] = pool_text(p.labels, op.label)
    d["options"] = pool_text(p.options, op.options)
    d["wide_ins"] = op.wide_ins
    d["wide_out"] = op.wide_out
    return d


cdef dict list_item(const CppProgram& p, const Item& it):
    cdef str kind = item_kind_text(it.kind).decode()
    cdef dict d = {"kind": kind, "line": pool_text(p.lines, it.line)}
    if kind == "op":
        d.update(list_op(p, p.ops[it.a]))
    elif kind == "decl":
        d["tensor"] = it.a
    elif kind == "set":
        d["dst"] = it.a
        d["src"] = it.b
    elif kind == "assemble":
        d["dst"] = it.a
        d["src"] = it.b
        d["offsets"] = expr_list(p, it.span)
    elif kind == "load":
        d["slot"] = it.a
        d["tensor"] = it.b
        d["index"] = expr_list(p, it.span)
    elif kind == "store":
        d["tensor"] = it.a
        d["value"] = text(expr_text(p, it.b))
        d["index"] = expr_list(p, it.span)
    elif kind == "if":
        d["cond"] = text(expr_text(p, it.a))
        d["then"] = list_body(p, it.b)
        d["else"] = list_body(p, it.c)
    elif kind == "loop":
        d["slot"] = it.a
        d["bounds"] = expr_list(p, it.span)
        d["parallel"] = it.parallel
        d["unroll"] = [p.ints[it.unroll.begin + i] for i in range(it.unroll.count)]
        d["submit_before"] = it.submit_before
        d["body"] = list_body(p, it.b)
    elif kind == "trap":
        d["trap"] = it.a
    return d


cdef list candidate_list(const vector[Candidate]& found):
    return [(text(found[i].op), text(found[i].line), text(found[i].text)) for i in range(found.size())]


cdef class ArgBuffer:
    """Holds one argument's memory for the life of a Machine."""
    cdef Py_buffer view
    cdef bint held, writable

    def __cinit__(self, array):
        self.held = False
        try:
            PyObject_GetBuffer(array, &self.view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE)
            self.writable = True
        except (BufferError, ValueError):
            PyObject_GetBuffer(array, &self.view, PyBUF_C_CONTIGUOUS)
            self.writable = False
        self.held = True

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)


cdef class Machine:
    cdef unique_ptr[CppMachine] machine
    cdef Program program
    cdef list buffers
    cdef bint busy

    def __cinit__(self, Program program, args, int poison=1, bint clamp_elements=False, bint fuse=True, bint keep=False):
        cdef vector[ArgMemory] memory
        cdef ArgMemory m
        cdef MachineOptions options
        cdef ArgBuffer b
        if poison not in (0, 1, 2):
            raise ValueError("poison is 0 (off), 1 (check) or 2 (trace)")
        self.program = program
        self.buffers = [ArgBuffer(a) for a in args]
        for b in self.buffers:
            m.data = <char*>b.view.buf
            m.bytes = b.view.len
            m.writable = b.writable
            memory.push_back(m)
        options.poison = <Poison>poison
        options.clamp_elements = clamp_elements
        options.fuse = fuse
        options.keep = keep
        check(npu_make_machine(program.builder.get().program(), memory, options, self.machine))

    cdef int enter(self) except -1:
        if self.busy:
            raise RuntimeError("this Machine is already running")
        self.busy = True
        return 0

    def run(self):
        if not self.program.schedule.get():
            raise RuntimeError("finish() the Program before run()")
        cdef const Schedule* schedule = self.program.schedule.get()
        cdef CppMachine* m = self.machine.get()
        cdef Report r
        self.enter()
        with nogil:
            r = m.run(schedule[0])
        self.busy = False
        check(r)

    def step(self):
        cdef CppMachine* m = self.machine.get()
        cdef Report r
        self.enter()
        with nogil:
            r = m.step()
        self.busy = False
        check(r)

    def enter_parallel(self, int32_t line):
        self.machine.get().enter_parallel(line)

    def next_iteration(self, int64_t i):
        self.machine.get().next_iteration(i)

    def leave_parallel(self):
        self.machine.get().leave_parallel()

    def scalar(self, int32_t slot):
        return self.machine.get().scalar(slot)

    def valid(self, int32_t tensor):
        cdef Shape s = self.machine.get().valid(tensor)
        return [s[i] for i in range(s.rank)]

    def is_ready(self, int32_t tensor):
        return self.machine.get().is_ready(tensor)

    def read(self, int32_t tensor, bint wide=False):
        cdef vector[char] out
        check(npu_read(self.machine.get()[0], tensor, wide, out))
        return out.data()[:out.size()] if out.size() else b""

    def free(self, int32_t tensor):
        self.machine.get().release(tensor)

    def candidates(self):
        return candidate_list(self.machine.get().candidates())

    def warnings(self):
        return candidate_list(self.machine.get().warnings())


# --- single kernels of the instruction set in use, on byte views of contiguous arrays: for tests and benchmarks only

cdef extern from "npu_core/kernels/single.h" namespace "npu" nogil:
    void single_unary(int op, const void* x, void* y, int64_t n) except +
    void single_binary(int op, const void* a, const void* b, void* y, int64_t n) except +
    void single_compare(int op, const void* a, const void* b, void* y, int64_t n) except +
    void single_cast(int source, int target, const void* x, void* y, int64_t n) except +
    float single_reduction(int reduction, const void* x, int64_t n) except +
    void single_gemm(const void* a, int a_type, const int64_t* a_strides, const void* b, int b_type,
                     const int64_t* b_strides, const void* bias, void* c, const int64_t* sizes,
                     const int64_t* part) except +
    void single_gemm_i8(const void* a, const int64_t* a_strides, const void* b, const int64_t* b_strides,
                        const void* bias, void* c, const int64_t* sizes, const int64_t* part) except +


cdef int bytes_of(int dtype) except -1:
    cdef int[13] sizes = [4, 2, 2, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1]
    if not 0 <= dtype < 24:
        raise ValueError("no type has this code")
    return sizes[dtype] if dtype < 13 else 1


cdef int same_size(Py_ssize_t given, Py_ssize_t needed) except -1:
    if given != needed:
        raise ValueError(f"a buffer has {given} bytes, the kernel needs {needed}")
    return 0


def kernel_unary(int op, const uint8_t[::1] x, uint8_t[::1] y):
    cdef int64_t n = y.shape[0] // 4
    same_size(x.shape[0], 4 * n)
    if n:
        with nogil:
            single_unary(op, &x[0], &y[0], n)


def kernel_binary(int op, const uint8_t[::1] a, const uint8_t[::1] b, uint8_t[::1] y):
    cdef int64_t n = y.shape[0] // 4
    same_size(a.shape[0], 4 * n)
    same_size(b.shape[0], 4 * n)
    if n:
        with nogil:
            single_binary(op, &a[0], &b[0], &y[0], n)


def kernel_compare(int op, const uint8_t[::1] a, const uint8_t[::1] b, uint8_t[::1] y):
    cdef int64_t n = y.shape[0]
    same_size(a.shape[0], 4 * n)
    same_size(b.shape[0], 4 * n)
    if n:
        with nogil:
            single_compare(op, &a[0], &b[0], &y[0], n)


def kernel_cast(int source, int target, const uint8_t[::1] x, uint8_t[::1] y):
    cdef int64_t n = x.shape[0] // bytes_of(source)
    same_size(x.shape[0], n * bytes_of(source))
    same_size(y.shape[0], n * bytes_of(target))
    if n:
        with nogil:
            single_cast(source, target, &x[0], &y[0], n)


def kernel_reduction(int reduction, const uint8_t[::1] x):
    cdef int64_t n = x.shape[0] // 4
    same_size(x.shape[0], 4 * n)
    if n == 0:
        raise ValueError("an empty row")
    return single_reduction(reduction, &x[0], n)


def kernel_gemm(a, int a_type, a_strides, b, int b_type, b_strides, bias, c, sizes, part):
    """Fills part (m_begin, m_end, n_begin, n_end) of C; `sizes` is (m, n, k, k_block). int8 operands: whole rows."""
    cdef const uint8_t[::1] av = a, bv = b, start
    cdef uint8_t[::1] cv = c
    cdef int64_t[2] a_step = a_strides, b_step = b_strides
    cdef int64_t[4] size = sizes, cut = part
    cdef const void* first = NULL
    cdef int width_a = bytes_of(a_type), width_b = bytes_of(b_type)
    if min(size[0], size[1], size[2]) < 1 or min(a_step[0], a_step[1], b_step[0], b_step[1]) < 0:
        raise ValueError("a size below 1 or a negative stride")
    if ((size[0] - 1) * a_step[0] + (size[2] - 1) * a_step[1] + 1) * width_a > av.shape[0]:
        raise ValueError("a is too small")
    if ((size[2] - 1) * b_step[0] + (size[1] - 1) * b_step[1] + 1) * width_b > bv.shape[0]:
        raise ValueError("b is too small")
    same_size(cv.shape[0], 4 * size[0] * size[1])
    if cut[0] < 0 or cut[1] > size[0] or cut[2] < 0 or cut[3] > size[1] or (a_type == 4) != (b_type == 4):
        raise ValueError("part or types")
    if bias is not None:
        start = bias
        same_size(start.shape[0], 4 * size[1])
        first = &start[0]
    with nogil:
        if a_type == 4:
            single_gemm_i8(&av[0], a_step, &bv[0], b_step, first, &cv[0], size, cut)
        else:
            single_gemm(&av[0], a_type, a_step, &bv[0], b_type, b_step, first, &cv[0], size, cut)
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
