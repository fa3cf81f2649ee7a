#pragma once

#include "atp/cli/metrics/metrics_text.h"

namespace atp {

// Of this process, under the names that all exporters use: processor time, memory, descriptors.
void add_process_metrics(MetricsText& metrics);

}  // namespace atp
