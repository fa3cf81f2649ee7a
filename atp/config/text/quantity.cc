#include "atp/config/text/quantity.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "atp/config/text/words.h"

namespace atp {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array<Unit, 11> kBandwidthUnits{{{"kB/s", 1e3},
                                                {"MB/s", 1e6},
                                                {"GB/s", 1e9},
                                                {"TB/s", 1e12},
                                                {"MiB/s", 0x1p20},
                                                {"GiB/s", 0x1p30},
                                                {"kbit/s", 1e3 / 8},
                                                {"Mbit/s", 1e6 / 8},
                                                {"Gbit/s", 1e9 / 8},
                                                {"Tbit/s", 1e12 / 8},
                                                {"B/s", 1}}};
// A value beyond these is an error in the file, and sums of times might overflow.
constexpr double kMinBandwidth = 1;
constexpr double kMaxBandwidth = 1e18;
constexpr double kLongestDuration = 1000;
constexpr std::array<Unit, 4> kSpeedUnits{
    {{"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}}};
constexpr std::array<Unit, 4> kTimeUnits{{{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}}};

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t begin = text.find_first_not_of(" \t");
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(text.find_first_of(" \t", begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    text.remove_prefix(end);
  }
  return words;
}

// Splits "25GB/s" into number and unit.
void split_number_from_unit(std::vector<std::string_view>& words) {
  if (words.empty()) return;
  const std::string_view first = words.front();
  std::size_t end = first.find_first_not_of("+-.0123456789");
  if (end == 0 || end == std::string_view::npos) return;
  // An e followed by digits is an exponent: no unit has digits.
  if ((first[end] == 'e' || first[end] == 'E') && end + 1 < first.size() &&
      first.find_first_of("+-0123456789", end + 1) == end + 1) {
    end = first.find_first_not_of("+-0123456789", end + 1);
    if (end == std::string_view::npos) return;
  }
  words.front() = first.substr(0, end);
  words.insert(words.begin() + 1, first.substr(end));
}

const Unit* find_unit(std::span<const Unit> units, std::string_view name) {
  const auto* unit = std::find_if(units.data(), units.data() + units.size(),
                                  [&](const Unit& candidate) { return candidate.name == name; });
  return unit == units.data() + units.size() ? nullptr : unit;
}

std::string units_text(std::span<const Unit> units) {
  std::vector<std::string_view> names;
  for (const Unit& unit : units) names.push_back(unit.name);
  return listed(names);
}

// The prefix of units that distinguish bits from bytes only by the case of a letter, or not at all:
// "Gb/s", "Gbps", "GBps", "gbit". Empty for anything else.
std::string ambiguous_prefix(std::string_view unit) {
  std::string rest(unit);
  std::string prefix;
  if (!rest.empty() && std::string_view("kKmMgGtT").find(rest[0]) != std::string_view::npos) {
    prefix =
        rest[0] == 'k' || rest[0] == 'K' ? "k" : std::string(1, static_cast<char>(rest[0] & ~0x20));
    rest.erase(0, 1);
  }
  std::transform(rest.begin(), rest.end(), rest.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
  });
  for (const std::string_view form : {"b/s", "bps", "b", "bit", "bits/s", "bit/s"}) {
    if (rest == form) return prefix.empty() ? "M" : prefix;
  }
  return "";
}

Parsed problem(std::string text, std::string advice) {
  return {.problem = std::move(text), .advice = std::move(advice)};
}

Parsed refuse_unit(std::string_view unit, std::string_view number) {
  const std::string prefix = ambiguous_prefix(unit);
  const std::string n(number);
  if (!prefix.empty()) {
    return problem("the unit " + shown(unit) + ", which may mean bits or bytes",
                   "write \"" + n + " " + prefix + "bit/s ...\" for bits or \"" + n + " " + prefix +
                       "B/s ...\" for bytes");
  }
  return problem("the unknown unit " + shown(unit), "the units are " + units_text(kBandwidthUnits));
}

// "25 GB/s ...": a positive number, a unit, and the words after it.
struct Amount {
  Parsed parsed;
  std::string text;  // "25 GB/s"
  std::string_view rest;
};

Amount parse_amount(std::string_view text, const std::string& direction) {
  std::vector<std::string_view> words = words_of(text);
  split_number_from_unit(words);
  const std::optional<double> number = words.empty() ? std::nullopt : parse_number(words[0]);
  if (!number) return {problem(shown(text), "start with a number")};
  if (*number <= 0) return {problem("the bandwidth " + shown(text), "write one above 0")};
  const std::string count(words[0]);
  if (words.size() == 1) {
    return {problem(shown(text) + " without a unit", "write \"" + count + " Gbit/s" + direction +
                                                         "\" for bits or \"" + count + " GB/s" +
                                                         direction + "\" for bytes")};
  }
  const Unit* unit = find_unit(kBandwidthUnits, words[1]);
  if (unit == nullptr) return {refuse_unit(words[1], words[0])};
  Amount amount{.parsed = {.value = *number * unit->factor},
                .text = count + " " + std::string(words[1])};
  if (words.size() > 2) {
    const auto from = static_cast<std::size_t>(words[2].data() - text.data());
    const auto end = static_cast<std::size_t>(words.back().data() - text.data());
    amount.rest = text.substr(from, end + words.back().size() - from);
  }
  return amount;
}

Parsed in_range(double bytes_per_second, std::string_view text) {
  if (bytes_per_second >= kMinBandwidth && bytes_per_second <= kMaxBandwidth) {
    return {.value = bytes_per_second};
  }
  return problem("the bandwidth " + shown(text), "write one from 1 B/s to 1000000 TB/s");
}

double read(const YamlValue& value, Parsed (*parse)(std::string_view), std::string_view expected) {
  const Parsed parsed = parse(value.text(expected));
  if (!parsed.problem.empty()) refuse(value.place(), parsed.problem, expected, parsed.advice);
  return parsed.value;
}

}  // namespace

Parsed parse_bandwidth(std::string_view text) {
  const Amount amount = parse_amount(text, " per direction");
  if (!amount.parsed.problem.empty()) return amount.parsed;
  const std::string given = amount.text;
  if (amount.rest.empty()) {
    return problem(shown(text) + " without a direction",
                   "write \"" + given + " per direction\" if each direction carries that much, \"" +
                       given + " both directions\" if it is the sum of both");
  }
  const bool per_direction = amount.rest == "per direction";
  if (!per_direction && amount.rest != "both directions") {
    return problem("the direction " + shown(amount.rest),
                   "write \"per direction\" or \"both directions\"");
  }
  return in_range(amount.parsed.value / (per_direction ? 1 : 2), text);
}

Parsed parse_rate(std::string_view text) {
  const Amount amount = parse_amount(text, "");
  if (!amount.parsed.problem.empty()) return amount.parsed;
  if (!amount.rest.empty()) {
    return problem(shown(text), "write \"" + amount.text + "\": a tensor has no direction");
  }
  return in_range(amount.parsed.value, text);
}

Parsed parse_speed(std::string_view text) {
  std::vector<std::string_view> words = words_of(text);
  split_number_from_unit(words);
  const std::optional<double> number = words.empty() ? std::nullopt : parse_number(words[0]);
  if (!number) return problem(shown(text), "start with a number");
  if (*number <= 0) return problem("the speed " + shown(text), "write one above 0");
  const Unit* unit = words.size() == 2 ? find_unit(kSpeedUnits, words[1]) : nullptr;
  if (unit == nullptr) {
    return problem(shown(text) + " with an unknown unit",
                   "the units are " + units_text(kSpeedUnits));
  }
  const double value = *number * unit->factor;
  if (value <= kMaxBandwidth) return {.value = value};
  return problem("the speed " + shown(text), "write one of at most 1000 PFLOP/s");
}

Parsed parse_duration(std::string_view text) {
  std::vector<std::string_view> words = words_of(text);
  split_number_from_unit(words);
  const std::optional<double> number = words.empty() ? std::nullopt : parse_number(words[0]);
  if (!number) return problem(shown(text), "start with a number");
  if (*number < 0) return problem("the negative time " + shown(text), "write 0 us or more");
  const std::string units = units_text(kTimeUnits);
  if (words.size() == 1) return problem(shown(text) + " without a unit", "add " + units);
  const Unit* unit = words.size() == 2 ? find_unit(kTimeUnits, words[1]) : nullptr;
  if (unit == nullptr) {
    return problem(shown(text) + " with an unknown unit", "the units are " + units);
  }
  const double value = *number * unit->factor;
  if (value > kLongestDuration) {
    return problem("the time " + shown(text), "write one of at most 1000 s");
  }
  return {.value = value};
}

double read_bandwidth(const YamlValue& value) {
  return read(value, parse_bandwidth, kBandwidthExpected);
}

double read_rate(const YamlValue& value) { return read(value, parse_rate, kRateExpected); }

double read_speed(const YamlValue& value) { return read(value, parse_speed, kSpeedExpected); }

double read_duration(const YamlValue& value) {
  return read(value, parse_duration, kDurationExpected);
}

}  // namespace atp
