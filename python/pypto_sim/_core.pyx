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

include "binding/declarations.pxi"


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


include "binding/program.pxi"
include "binding/listing.pxi"
include "binding/machine.pxi"
include "binding/single_kernels.pxi"
include "binding/estimate.pxi"
