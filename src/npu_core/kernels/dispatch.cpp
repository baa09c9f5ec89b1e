// Chooses one of the kernel tables compiled into this build.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "npu_core/kernels/kernels.h"

namespace npu {

namespace baseline { void fill_table(KernelTable& t); }
namespace avx2 { void fill_table(KernelTable& t); }
namespace avx512 { void fill_table(KernelTable& t); }

namespace {

struct Tables {
    KernelTable table[3];
    const char* name[3];
    int count = 0;                        // best first

    void add(void (*fill)(KernelTable&)) {
        fill(table[count]);
        name[count] = table[count].isa;
        ++count;
    }
    Tables() {
#if defined(NPU_HAVE_avx512)
        if (has_avx512()) add(avx512::fill_table);
#endif
#if defined(NPU_HAVE_avx2)
        if (has_avx2()) add(avx2::fill_table);
#endif
        add(baseline::fill_table);
    }
#if defined(NPU_HAVE_avx2)
    static bool has_avx512() {
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && has_avx2();
    }
    // Machines with these have the rest of x86-64-v3 (f16c, lzcnt, movbe) too.
    static bool has_avx2() {
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
               __builtin_cpu_supports("bmi2");
    }
#endif
    const KernelTable& find(const char* wanted) const {
        std::string known;
        for (int i = 0; i < count; ++i) {
            if (std::strcmp(name[i], wanted) == 0) return table[i];
            known += (i ? ", " : "") + std::string(name[i]);
        }
        throw std::invalid_argument("instruction set '" + std::string(wanted) +
                                    "' is not available here; choose one of: " + known);
    }
};

const Tables& tables() {
    static const Tables t;
    return t;
}

std::atomic<const KernelTable*> in_use{nullptr};

}  // namespace

const KernelTable& kernels() {
    const KernelTable* t = in_use.load(std::memory_order_acquire);
    if (t) return *t;
    const char* wanted = std::getenv("PYPTO_SIM_ISA");
    t = wanted && *wanted ? &tables().find(wanted) : &tables().table[0];
    in_use.store(t, std::memory_order_release);
    return *t;
}

const char* const* available_isas(int* count) {
    *count = tables().count;
    return tables().name;
}

void select_isa(const char* name) { in_use.store(&tables().find(name), std::memory_order_release); }

}  // namespace npu
