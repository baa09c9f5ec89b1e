# Machine: executes a Program on the buffers of its arguments.

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
