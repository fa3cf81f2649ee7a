#include "atp/collective/base/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atp/base/check.h"
#include "atp/base/variable_names.h"
#include "atp/base/variables.h"
#include "atp/collective/base/number_text.h"
#include "atp/collective/recorder/record_files.h"
#include "atp/collective/waits/late_ranks.h"
#include "atp/driver/udp/address.h"

// CommunicatorOptions::from_environment(). Each error names the variable, what was found, what was
// expected and what to do.

namespace atp {
namespace {

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

Error missing(const char* name, const std::string& expected, const char* under = "`atp run`") {
  return {std::string(name) + " is not set (expected " + expected + "): run the program under " +
          under + ", or set it yourself"};
}

Error malformed(const char* name, std::string_view found, const std::string& expected) {
  return {std::string(name) + "=" + quoted(found) + " is not " + expected};
}

std::string_view lookup(std::string_view name) { return value_of(name); }

// A variable's own range, or a narrower one.
struct Whole {
  const char* name;
  double least = variable(name).least;
  double most = variable(name).most;
};

std::string range_text(const Whole& what) {
  return expected_text({.kind = VariableKind::kWhole, .least = what.least, .most = what.most});
}

Result<std::uint64_t> read_whole(const Whole& what, std::string_view text) {
  const Variable range{
      .name = what.name, .kind = VariableKind::kWhole, .least = what.least, .most = what.most};
  if (text.empty()) return malformed(what.name, text, expected_text(range));
  if (const Status right = check(range, text); !right) return right.error();
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Result<std::uint64_t> required_whole(const Whole& what, const char* under = "`atp run`") {
  const std::string_view text = lookup(what.name);
  if (text.empty()) return missing(what.name, range_text(what), under);
  return read_whole(what, text);
}

Result<std::uint64_t> optional_whole(const char* name) {
  const std::string_view text = lookup(name);
  if (text.empty()) return std::uint64_t{0};
  return read_whole({name}, text);
}

Result<std::chrono::milliseconds> optional_seconds(const char* name,
                                                   std::chrono::milliseconds otherwise) {
  const Variable& of = variable(name);
  const std::string_view text = value_of(of);
  if (text.empty()) return otherwise;
  if (const Status right = check(of, text); !right) return right.error();
  double seconds = 0;
  std::from_chars(text.data(), text.data() + text.size(), seconds);
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

// The first choice if the variable is unset.
Result<std::string> optional_choice(const char* name) {
  const Variable& of = variable(name);
  const std::string_view text = value_of(of);
  if (const Status right = check(of, text); !right) return right.error();
  return std::string(text.empty() ? choices_of(of).front() : text);
}

Result<bool> optional_switch(const char* name) {
  const Result<std::string> word = optional_choice(name);
  if (!word) return word.error();
  return word.value() == "1";
}

// The enumerators of a policy are in the order of its choices.
std::size_t place_of(std::string_view choice, const char* name) {
  const std::span<const std::string_view> choices = choices_of(variable(name));
  const auto found = std::find(choices.begin(), choices.end(), choice);
  ATP_CHECK(found != choices.end());
  return static_cast<std::size_t>(found - choices.begin());
}

Result<NumberFormat> read_number_format() {
  const auto scale = optional_choice("ATP_SCALE");
  if (!scale) return scale.error();
  const auto wire = optional_choice("ATP_WIRE");
  if (!wire) return wire.error();
  const auto exact = optional_switch("ATP_EXACT");
  if (!exact) return exact.error();
  auto format = format_of({.scale = scale.value(), .wire = wire.value(), .exact = exact.value()});
  if (format) return format;
  return Error{"ATP_SCALE, ATP_WIRE and ATP_EXACT contradict each other: " +
               format.error().message};
}

// Those that say how the job runs rather than who is in it.
Status read_settings(CommunicatorOptions& options) {
  const auto values = optional_whole("ATP_VALUES_PER_FRAGMENT");
  if (!values) return values.error();
  const auto digest = optional_switch("ATP_DIGEST");
  if (!digest) return digest.error();
  const auto every = optional_whole("ATP_DIGEST_EVERY");
  if (!every) return every.error();
  const auto overflow = optional_choice("ATP_OVERFLOW");
  if (!overflow) return overflow.error();
  const auto congestion = optional_choice("ATP_CONGESTION");
  if (!congestion) return congestion.error();
  const auto join_timeout = optional_seconds("ATP_JOIN_TIMEOUT", options.join_timeout);
  if (!join_timeout) return join_timeout.error();
  const auto timeout = optional_seconds("ATP_TIMEOUT", options.operation_timeout);
  if (!timeout) return timeout.error();
  options.values_per_fragment = static_cast<std::size_t>(values.value());
  options.digest = digest.value();
  options.digest_every = every.value();
  options.overflow = overflow_of(overflow.value());
  options.congestion = congestion_of(congestion.value());
  options.join_timeout = join_timeout.value();
  options.operation_timeout = timeout.value();
  return ok_status();
}

// If unset, true if the launcher has counted all ranks as local.
Result<bool> read_host_memory() {
  if (!lookup("ATP_HOST_MEMORY").empty()) return optional_switch("ATP_HOST_MEMORY");
  const char* here = std::getenv("LOCAL_WORLD_SIZE");
  return here != nullptr && *here != '\0' && here == lookup("WORLD_SIZE");
}

// The numbers in ATP_HOST_RANKS, "4,1,3": how many ranks each host has, in the order of the ranks.
Result<std::vector<std::size_t>> read_host_ranks(std::size_t world_size) {
  const std::string expected = "how many of the " + std::to_string(world_size) +
                               " ranks each host has, in the order of the ranks, e.g. 4,1,3";
  const std::string_view text = lookup("ATP_HOST_RANKS");
  if (text.empty()) {
    return missing("ATP_HOST_RANKS", expected + "; ATP_HIERARCHY=1 needs it",
                   "`atp run --cluster`");
  }
  std::vector<std::size_t> host_of;
  for (std::size_t begin = 0, host = 0; begin <= text.size(); ++host) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto ranks = read_whole({"ATP_HOST_RANKS", 1, static_cast<double>(world_size)},
                                  text.substr(begin, end - begin));
    if (!ranks) return malformed("ATP_HOST_RANKS", text, expected);
    host_of.insert(host_of.end(), static_cast<std::size_t>(ranks.value()), host);
    begin = end + 1;
  }
  if (host_of.size() != world_size) return malformed("ATP_HOST_RANKS", text, expected);
  return host_of;
}

// Empty if each rank is to send for itself. If ATP_HIERARCHY is unset, a host's ranks sum in its
// memory first wherever that is possible.
Result<std::vector<std::size_t>> read_host_of(std::size_t world_size) {
  const auto hierarchy = optional_switch("ATP_HIERARCHY");
  if (!hierarchy) return hierarchy.error();
  const bool by_default = lookup("ATP_HIERARCHY").empty() && !lookup("ATP_HOST_RANKS").empty() &&
                          lookup("ATP_COLOCATED_SERVER").empty();
  const bool has_memory = lookup("ATP_HOST_MEMORY") != "0";
  if (!has_memory || (!hierarchy.value() && !by_default)) return std::vector<std::size_t>();
  return read_host_ranks(world_size);
}

Status read_routes(CommunicatorOptions& options) {
  const std::string expected =
      "the switches upward and then the server, e.g. 10.0.0.1:5501,10.0.0.9:5500, and a \";\" "
      "before the route to another server";
  const std::string_view text = lookup("ATP_ROUTE");
  if (text.empty() && options.host_memory) return ok_status();
  if (text.empty()) return missing("ATP_ROUTE", expected);
  Status read = options.set_routes(text);
  if (read) return read;
  return Error{"ATP_ROUTE=" + quoted(text) + ": " + read.error().message + " (expected " +
               expected + ")"};
}

}  // namespace

void CommunicatorOptions::warn(const std::string& text) const {
  on_warning ? on_warning(text) : tell_on_stderr(text);
}

Status CommunicatorOptions::read_ports() {
  const std::string_view text = lookup("ATP_PORT_RANGE");
  if (text.empty()) return ok_status();
  const std::size_t dash = std::min(text.find('-'), text.size());
  const Whole port{"ATP_PORT_RANGE", 1, 65535};
  const auto first = read_whole(port, text.substr(0, dash));
  const auto last = read_whole(port, text.substr(std::min(dash + 1, text.size())));
  if (!first || !last || last.value() < first.value()) {
    return malformed("ATP_PORT_RANGE", text,
                     "FIRST-LAST, two ports from 1 to 65535, e.g. 40000-40999");
  }
  ports = {static_cast<std::uint16_t>(first.value()), static_cast<std::uint16_t>(last.value())};
  return ok_status();
}

Status CommunicatorOptions::read_key() {
  const std::string_view path = lookup("ATP_KEY_FILE");
  if (path.empty()) return ok_status();
  const Result<Tenant> own = read_own_key(std::string(path));
  if (!own) return Error{"ATP_KEY_FILE: " + own.error().message};
  key = own.value();
  return ok_status();
}

Status CommunicatorOptions::read_colocated_server() {
  const std::string_view text = lookup("ATP_COLOCATED_SERVER");
  if (text.empty()) return ok_status();
  const Result<Endpoint> address = resolve_endpoint(text);
  if (address && address.value().port != 0) {
    colocated_server = address.value();
    return ok_status();
  }
  const std::string problem = address ? "the port is missing" : address.error().message;
  return Error{
      "ATP_COLOCATED_SERVER=" + quoted(text) + ": " + problem +
      " (expected the address at which this rank serves, as it is written in ATP_ROUTE, e.g. "
      "10.0.0.3:5500)"};
}

Status CommunicatorOptions::set_routes(std::string_view text) {
  auto routes = resolve_routes(text);
  if (!routes) return routes.error();
  route = std::move(routes.value().front());
  more_routes.assign(std::make_move_iterator(routes.value().begin() + 1),
                     std::make_move_iterator(routes.value().end()));
  return ok_status();
}

Status CommunicatorOptions::check_environment(const Variables& replaced) {
  const auto is_replaced = [&](std::string_view name) {
    return std::any_of(replaced.begin(), replaced.end(), [&](const auto& one) {
      return one.first == name && one.second != lookup(name);
    });
  };
  for (const Variable& each : variables()) {
    if ((each.readers & (kCpp | kTorch)) == 0 || is_replaced(each.name)) continue;
    if (const Status right = check(each, value_of(each)); !right) return right;
  }
  if (const auto format = read_number_format(); !format) return format.error();
  CommunicatorOptions options;
  options.host_memory = true;  // so that no route is right, too
  if (!is_replaced("ATP_ROUTE")) {
    if (const Status routes = read_routes(options); !routes) return routes;
  }
  if (!is_replaced("ATP_COLOCATED_SERVER")) {
    if (const Status server = options.read_colocated_server(); !server) return server;
  }
  return options.read_ports();
}

Result<CommunicatorOptions> CommunicatorOptions::from_environment() {
  // First: an error that a variable is missing may be due to another spelling of it.
  for (const std::string& sentence : untold_misspelt_variables()) {
    static_cast<void>(std::fprintf(stderr, "atp: environment variable %s\n", sentence.c_str()));
  }
  const auto world_size = required_whole({"WORLD_SIZE"});
  if (!world_size) return world_size.error();
  const auto rank = required_whole({"RANK", 0, static_cast<double>(world_size.value() - 1)});
  if (!rank) return rank.error();
  const auto job = required_whole({"ATP_JOB"});
  if (!job) return job.error();
  // `atp run` draws it for a job on one host; several hosts must be given the same one.
  const auto incarnation = required_whole(
      {"ATP_INCARNATION"},
      "`atp run` (for a job on several hosts with --incarnation N, the same on all hosts and new "
      "at each start)");
  if (!incarnation) return incarnation.error();
  const auto number_format = read_number_format();
  if (!number_format) return number_format.error();
  const auto host_memory = read_host_memory();
  if (!host_memory) return host_memory.error();
  CommunicatorOptions options;
  options.number_format = number_format.value();
  options.host_memory = host_memory.value() && options.number_format != NumberFormat::kFixed;
  auto host_of = read_host_of(static_cast<std::size_t>(world_size.value()));
  if (!host_of) return host_of.error();
  options.host_of = std::move(host_of).value();
  const Status routes = read_routes(options);
  if (!routes) return routes.error();
  const Status ports = options.read_ports();
  if (!ports) return ports.error();
  const Status key = options.read_key();
  if (!key) return key.error();
  const Status server = options.read_colocated_server();
  if (!server) return server.error();

  const auto recorder = RecorderSettings::from_environment();
  if (!recorder) return recorder.error();
  const Status settings = read_settings(options);
  if (!settings) return settings.error();

  options.job = {static_cast<std::uint32_t>(job.value()),
                 static_cast<std::uint32_t>(incarnation.value())};
  options.rank = static_cast<Rank>(rank.value());
  options.world_size = static_cast<std::size_t>(world_size.value());
  return options;
}

OverflowPolicy overflow_of(std::string_view choice) {
  return static_cast<OverflowPolicy>(place_of(choice, "ATP_OVERFLOW"));
}

CongestionPolicy congestion_of(std::string_view choice) {
  return static_cast<CongestionPolicy>(place_of(choice, "ATP_CONGESTION"));
}

static_assert(static_cast<int>(OverflowPolicy::kProactive) == 1);
static_assert(static_cast<int>(CongestionPolicy::kNone) == 1);
static_assert(static_cast<int>(CongestionPolicy::kPaper) == 2);

}  // namespace atp
