#include "npu_core/program/cost_report.h"

#include <algorithm>
#include <new>

#include "npu_core/base/fault.h"
#include "npu_core/base/json.h"
#include "npu_core/base/patience.h"

namespace npu {

void CapacityFault::suggest_tile() {
    fits = tile;
    if (fits.empty()) return;
    const size_t last = fits.size() - 1;
    int64_t lead = 1;
    for (size_t i = 0; i < last; ++i) lead *= fits[i];
    const int64_t rows_now = std::max<int64_t>(lead, 1), per_row = std::max<int64_t>((bytes + rows_now - 1) / rows_now, 1);
    int64_t rows = limit / per_row;
    if (rows >= 1) {
        for (size_t i = 0; i < last; ++i) {
            const int64_t keep = std::max<int64_t>(1, std::min(fits[i], rows));
            fits[i] = keep;
            rows = std::max<int64_t>(1, rows / keep);
        }
        return;
    }
    for (size_t i = 0; i < last; ++i) fits[i] = 1;
    fits.back() = std::max<int64_t>(8, fits.back() * limit / per_row / 64 * 64);
}

namespace {

std::string capacity_text(const CapacityFault& f) {
    Json j;
    j.string("op", f.op).string("memory", f.memory).integer("bytes", f.bytes).integer("limit", f.limit);
    j.integer("largest_gap", f.largest_gap).integers("tile", f.tile).integers("fits", f.fits);
    std::vector<std::string> entries;
    for (const CapacityFault::Live& x : f.live) {
        Json e;
        e.string("name", x.name).integers("shape", x.shape).integer("bytes", x.bytes);
        entries.push_back(e.text());
    }
    return j.raws("live", entries).text();
}

}  // namespace

EstimateReport report_of(const std::function<std::string()>& estimate) {
    EstimateReport report;
    auto fault = [&report](const char* code, std::string message, std::string line = "") {
        report.code = code;
        report.message = std::move(message);
        report.line = std::move(line);
    };
    try {
        report.json = estimate();
    } catch (const TrapSignal& t) {
        fault("trap", std::to_string(t.number));
    } catch (const Interrupted&) {
        fault("interrupted", "");
    } catch (const Fault& f) {
        fault(f.code.c_str(), f.message, f.line);
    } catch (const NeedsDataFault& f) {
        fault("needs_data", f.what(), f.line);
    } catch (const CapacityFault& f) {
        fault("capacity", capacity_text(f), f.line);
    } catch (const std::out_of_range& e) {
        fault("device", e.what());
    } catch (const std::bad_alloc&) {
        fault("estimate.memory", "not enough memory to plan this kernel");
    } catch (const std::exception& e) {
        fault("internal", e.what());
    }
    return report;
}

}  // namespace npu
