# What the binding uses of the Program, its builder, its listing and the Machine.
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
        void dynamic_axes(int32_t t, const vector[int]& axes) except +
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
