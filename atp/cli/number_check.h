#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "atp/config/number.h"

// Checks of options that are numbers with a fraction. CLI11's own let nan pass, which no later
// comparison finds.

namespace atp {

inline CLI::Validator number_between(double least, double most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    const std::optional<double> value = parse_number(text);
    if (value && *value >= least && *value <= most) return {};
    return fmt::format("found {}, expected a number from {} to {}", text, least, most);
  };
  return {check, fmt::format("FLOAT in [{} - {}]", least, most)};
}

// Infinity, too, may be written in 309 digits.
inline CLI::Validator positive_number() {
  const auto check = [](const std::string& text) -> std::string {
    const std::optional<double> value = parse_number(text);
    if (value && *value > 0) return {};
    return fmt::format("found {}, expected a finite number above 0", text);
  };
  return {check, ""};
}

}  // namespace atp
