#pragma once

#include <string>
#include <string_view>

#include "atp/config/text/yaml.h"

// Quantities with units, as text in a file. "Gb/s" is ambiguous by a factor of eight, and "600 GB/s
// NVLink" (both directions) by a factor of two. So a bandwidth spells out bits or bytes, and says
// which directions it counts:
//
//   200 Gbit/s per direction       one direction of a full-duplex link
//   600 GB/s both directions       the sum of both, as for NVLink; 300 GB/s per direction

namespace atp {

struct Parsed {
  double value = 0;
  std::string problem;  // empty: the value is valid
  std::string advice;
};

// Bytes per second in one direction, more than 0.
Parsed parse_bandwidth(std::string_view text);
// Bytes per second of a tensor rather than a link, so without a direction.
Parsed parse_rate(std::string_view text);
// Floating-point operations per second, more than 0.
Parsed parse_speed(std::string_view text);
// Seconds, at least 0.
Parsed parse_duration(std::string_view text);

inline constexpr std::string_view kBandwidthExpected =
    "a bandwidth such as \"200 Gbit/s per direction\" or \"600 GB/s both directions\"";
inline constexpr std::string_view kRateExpected =
    "a rank's tensor bytes per second of one all-reduce, such as \"1.2 GB/s\"";
inline constexpr std::string_view kSpeedExpected =
    "the speed of matrix products such as \"300 TFLOP/s\"";
inline constexpr std::string_view kDurationExpected = "a time such as \"5 us\"";

// The same for a value in a file, with its place in the message.
double read_bandwidth(const YamlValue& value);
double read_rate(const YamlValue& value);
double read_speed(const YamlValue& value);
double read_duration(const YamlValue& value);

}  // namespace atp
