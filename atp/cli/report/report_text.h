#pragma once

#include <string>

#include "atp/cli/report/host_clocks.h"
#include "atp/cli/report/story.h"

namespace atp {

// A finding as one line: its `text`.
std::string headline(const Diagnosis& finding);

// The report for people, and for programs (docs/operate/flight-recorder.md).
std::string report_text(const Story& story, const HostClocks& clocks, const RecordFolder& folder);
std::string report_json(const Story& story, const HostClocks& clocks, const RecordFolder& folder);

}  // namespace atp
