#include <deque>
#include <stdexcept>

#include "npu_core/program/opcodes.h"
#include "npu_core/program/program.h"

namespace npu {

namespace {
// Older tables stay alive: references into them may be held by running launches.
std::deque<std::vector<OpRow>>& tables() {
    static std::deque<std::vector<OpRow>> t(1);
    return t;
}
}  // namespace

const std::vector<OpRow>& op_rows() { return tables().back(); }

void set_op_rows(std::vector<OpRow> rows) {
    for (const OpRow& r : rows)
        if (!r.kernel.empty() && find_opcode(r.kernel) == NO_OPCODE)
            throw std::invalid_argument("operation `" + r.name + "` names kernel `" + r.kernel +
                                        "`, which the executor does not have");
    tables().push_back(std::move(rows));
}

}  // namespace npu
