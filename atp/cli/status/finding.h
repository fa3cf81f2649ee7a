#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atp/cli/command/log.h"
#include "atp/cli/status/job_name.h"

// What is wrong, with whom, and how to mend it. Everything that judges gives its judgement in this
// form: the log and the status of a node, `atp view`, `atp doctor` and `atp report`.

namespace atp {

enum class Severity : std::uint8_t { kGood, kNote, kWarning, kBad };
std::string_view to_string(Severity severity);

struct Finding {
  Severity severity = Severity::kGood;
  std::string kind;  // "stuck", "mtu": for programs
  std::string node;  // its name or address; empty: it is about no node but, perhaps, this host
  std::optional<JobName> job = std::nullopt;
  std::vector<std::size_t> ranks = {};  // in ascending order
  std::string text = {};
  std::string expected = {};
  std::string fix = {};
  std::string over = {};                         // what to say once it has ended; empty: nothing
  std::optional<double> since_s = std::nullopt;  // by the clock of whoever found it
};

Severity worst_of(const std::vector<Finding>& findings);

// "job 7 waits for rank 2: 3.2 s so far", if it says since when it is so.
std::string text_of(const Finding& finding, double now_s);
LogLine log_line(const Finding& finding, double now_s);
// With columns for the kind and the node, and lines for what was expected and the fix.
std::string table_row(const Finding& finding);
// A key that does not apply is left out, but not `severity`, `kind`, `text`, `node` and `ranks`.
nlohmann::ordered_json to_json(const Finding& finding);

// "3.2 s"
std::string tenths_text(double seconds);

}  // namespace atp
