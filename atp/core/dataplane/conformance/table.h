#pragma once

#include <span>

#include "atp/core/dataplane/conformance/flush_rows.h"
#include "atp/core/dataplane/conformance/gradient_admission_rows.h"
#include "atp/core/dataplane/conformance/gradient_empty_rows.h"
#include "atp/core/dataplane/conformance/gradient_other_rows.h"
#include "atp/core/dataplane/conformance/gradient_same_rows.h"
#include "atp/core/dataplane/conformance/gradient_share_rows.h"
#include "atp/core/dataplane/conformance/parameter_rows.h"
#include "atp/core/dataplane/conformance/sweep_rows.h"

// The table of docs/protocol.md §4 as data. Every switch engine (user space, eBPF, P4) runs these
// same rows, so that none has rules of its own.

namespace atp::conformance {

inline constexpr std::span<const Row> kTable[] = {
    kGradientAdmissionRows, kGradientShareRows, kGradientEmptyRows, kGradientOtherRows,
    kGradientSameRows,      kParameterRows,     kFlushRows,         kSweepRows,
};

template <class Visit>
void for_each_row(Visit&& visit) {
  for (const std::span<const Row> rows : kTable) {
    for (const Row& row : rows) visit(row);
  }
}

}  // namespace atp::conformance
