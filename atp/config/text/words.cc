#include "atp/config/text/words.h"

#include <charconv>
#include <cmath>

#include "atp/base/nearest_name.h"

namespace atp {
namespace {

template <class Number>
std::optional<Number> parse(std::string_view text) {
  // from_chars does not accept a plus sign.
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string listed(std::span<const std::string_view> names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

std::string hint(std::string_view name, std::span<const std::string_view> known) {
  const std::string_view near = nearest_name(name, known);
  if (!near.empty()) return "did you mean " + std::string(near) + "?";
  return "use " + listed(known);
}

std::optional<double> parse_number(std::string_view text) {
  const std::optional<double> value = parse<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<long long> parse_integer(std::string_view text) { return parse<long long>(text); }

std::string count_text(long long least, long long most) {
  return "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
}

}  // namespace atp
