# Program: what tracing fills, item by item.

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

    def dynamic_axes(self, int32_t tensor, axes):
        """Axes of an argument that are annotated as dynamic; read by model `official` only."""
        cdef vector[int] a = axes
        self.builder.get().dynamic_axes(tensor, a)

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
