#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "atp/cli/doctor/facts.h"

// Judges the facts: what is fine, what is not, and how to fix it.

namespace atp {

enum class Verdict : std::uint8_t { kFine, kWarning, kWrong };
std::string_view to_string(Verdict verdict);

struct Finding {
  Verdict verdict = Verdict::kFine;
  std::string check;  // "mtu"
  std::string node;   // HOST:PORT; empty: this host
  std::string found;
  std::string expected;  // empty if it is fine
  std::string fix;
};

std::vector<Finding> findings_of(const HostFacts& facts);
Verdict worst_of(const std::vector<Finding>& findings);

}  // namespace atp
