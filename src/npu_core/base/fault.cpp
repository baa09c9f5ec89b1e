#include "npu_core/base/fault.h"

namespace npu {

void fail(const char* code, std::string message) { throw Fault(code, std::move(message)); }

std::string to_text(const Shape& s) {
    std::string out = "[";
    for (int i = 0; i < s.rank; ++i) out += (i ? ", " : "") + std::to_string(s[i]);
    return out + "]";
}

const char* dtype_name(DType t) {
    constexpr const char* names[] = {"FP32", "FP16", "BF16", "FP64", "INT8", "INT16", "INT32", "INT64",
                                     "UINT8", "UINT16", "UINT32", "UINT64", "BOOL", "INT4", "FP8", "HF4", "HF8", "FP8E4M3",
                                     "FP8E5M2", "FP8E8M0", "FP4_E2M1", "FP4_E2M1X2", "FP4_E1M2", "FP4_E1M2X2"};
    return t < DType::COUNT ? names[static_cast<int>(t)] : "unknown";
}

}  // namespace npu
