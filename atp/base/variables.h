#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "atp/base/result.h"

// Every environment variable that a user may set, in one table. C++ and torch take their types,
// ranges and errors from it; `atp help environment`, the help of torch's Options, the table of
// docs/use/variables.md and the hints about misspelt names are written from it.

namespace atp {

inline constexpr std::chrono::seconds kDefaultJoinTimeout{30};
inline constexpr std::chrono::minutes kDefaultTimeout{30};

enum class VariableKind : std::uint8_t { kText, kChoice, kSwitch, kWhole, kSeconds };

// Who reads a variable, as bits.
using VariableReaders = unsigned;
inline constexpr VariableReaders kCpp = 1, kTorch = 2, kAtpRun = 4, kAtpPlan = 8, kTests = 16;

struct Variable {
  std::string_view name;
  VariableKind kind = VariableKind::kText;
  VariableReaders readers = kCpp | kTorch;
  std::string_view option = {};  // the name in atp.torch.Options; empty: it has none
  // A line of `atp help environment`; empty: nobody sets it by hand for a rank.
  std::string_view help = {};
  std::string_view meaning = {};                 // for the page and Options, in Markdown
  std::string_view otherwise = {};               // what holds if it is absent, likewise
  std::string_view form = {};                    // of a text
  std::array<std::string_view, 3> choices = {};  // the first is the default
  double least = 0;                              // of a number
  double most = 0;
};

std::span<const Variable> variables();
// There must be one of this name.
const Variable& variable(std::string_view name);

std::span<const std::string_view> choices_of(const Variable& of);
// For errors: "\"blocks\" or \"fixed\"", "a whole number from 0 to 2226".
std::string expected_text(const Variable& of);
// What the environment says; an empty variable counts as unset.
std::string_view value_of(const Variable& of);
std::string_view value_of(std::string_view name);
// An error that names the variable, if the text is not what the table says. Any text is right for a
// variable of kind kText, and an empty one for each.
Status check(const Variable& of, std::string_view text);

// The table in docs/use/variables.md, between its markers.
std::string variables_table();
// The lines of `atp help environment`.
std::string variables_help();

}  // namespace atp
