#include "atp/config/number.h"

#include <charconv>
#include <cmath>

namespace atp {
namespace {

template <class Number>
std::optional<Number> parse(std::string_view text) {
  // from_chars takes no plus sign, people do.
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<double> parse_number(std::string_view text) {
  const std::optional<double> value = parse<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<long long> parse_integer(std::string_view text) { return parse<long long>(text); }

std::string count_text(long long least, long long most) {
  return "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
}

}  // namespace atp
