#pragma once

#include <string>
#include <string_view>

#include "atp/config/text/yaml.h"

// Quantities with their units in the file's text. A factor of eight hides in "Gb/s" and a factor of
// two in "600 GB/s NVLink" (both directions of it), so a bandwidth names its unit without
// abbreviating bits or bytes, and says which directions it counts:
//
//   200 Gbit/s per direction       one way of a full-duplex link
//   600 GB/s both directions       the sum of both ways, as NVLink is sold; 300 GB/s each way

namespace atp {

struct Parsed {
  double value = 0;
  std::string problem;  // empty: the value is right
  std::string advice;
};

// Bytes per second in one direction, more than 0.
Parsed parse_bandwidth(std::string_view text);
// Bytes per second of a tensor rather than of a link: without a direction.
Parsed parse_rate(std::string_view text);
// Floating-point operations per second, more than 0.
Parsed parse_speed(std::string_view text);
// Seconds, at least 0.
Parsed parse_duration(std::string_view text);

inline constexpr std::string_view kBandwidthExpected =
    "a bandwidth such as \"200 Gbit/s per direction\" or \"600 GB/s both directions\"";
inline constexpr std::string_view kRateExpected =
    "the bytes of a rank's tensor over the seconds of one all-reduce, such as \"1.2 GB/s\"";
inline constexpr std::string_view kSpeedExpected =
    "the speed of matrix products such as \"300 TFLOP/s\"";
inline constexpr std::string_view kDurationExpected = "a time such as \"5 us\"";

// The same, with the place in the message.
double read_bandwidth(const YamlValue& value);
double read_rate(const YamlValue& value);
double read_speed(const YamlValue& value);
double read_duration(const YamlValue& value);

// Text that reads back as the same: "25 GB/s per direction", "5 us".
std::string bandwidth_text(double bytes_per_second);
std::string rate_text(double bytes_per_second);
std::string speed_text(double flops_per_second);
std::string duration_text(double seconds);

}  // namespace atp
