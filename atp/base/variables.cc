#include "atp/base/variables.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>
#include <vector>

#include "atp/base/check.h"

namespace atp {
namespace {

using enum VariableKind;

constexpr double kMax32 = 4294967295;
constexpr double kLeastSeconds = 0.001;
constexpr double kMostSeconds = 1e6;
constexpr double kMostRanks = 1024;
constexpr double kMostValues = 2226;  // ATP_VALUES_MAX

// In the order of the page, and of the options in torch.
constexpr Variable kVariables[] = {
    {.name = "ATP_ROUTE",
     .readers = kCpp | kTorch | kAtpRun,
     .option = "route",
     .help = "the path to the server (atp help routes)",
     .meaning =
         "the route: switches first, the server last; the server alone is enough, and on one host "
         "no route is needed. To spread tensors over several servers, give the routes to all of "
         "them, separated by `;`, in the same order on every rank. For nodes with lanes give all "
         "ports: `10.0.0.1:5700-5703,10.0.0.9:5600-5603` is four routes",
     .otherwise = "ranks on one host sum in shared memory; on several hosts torch uses a ring, "
                  "and C++ reports an error",
     .form = "HOST:PORT,..."},
    {.name = "ATP_ALGORITHM",
     .kind = kChoice,
     .readers = kTorch | kAtpRun,
     .option = "algorithm",
     .help = "auto (the faster one), innetwork or ring",
     .meaning = "how torch's groups sum: `innetwork`, through the route's switches and servers; "
                "`ring`, over TCP from rank to rank, without a route; or `auto`, for each sum the "
                "faster of these, or the only one that is possible, but with a key always "
                "`innetwork` (`docs/use/torch.md`); the same on every rank",
     .otherwise = "`auto`; `atp run --switch` sets `innetwork`",
     .choices = {"auto", "innetwork", "ring"}},
    {.name = "ATP_HOST_MEMORY",
     .kind = kSwitch,
     .readers = kCpp | kTorch | kAtpRun,
     .option = "host_memory",
     .help = "0: ranks on one host do not sum in shared memory",
     .meaning = "`1`: if all ranks are on one host, they sum in shared memory, without a switch "
                "or server, even if a route is given, with the same bits (not with "
                "`ATP_SCALE=fixed` or `ATP_ALGORITHM=ring`); `0`: they use the route. The same on "
                "every rank (`docs/results/performance.md`)",
     .otherwise = "torch: `1`; C++: `1` if `LOCAL_WORLD_SIZE` equals `WORLD_SIZE`. `atp run` sets "
                  "`0` if it starts a switch or server for a job on one host"},
    {.name = "ATP_HIERARCHY",
     .kind = kSwitch,
     .readers = kCpp | kTorch | kAtpRun,
     .option = "hierarchy",
     .help = "0: do not sum within each host before summing across hosts",
     .meaning = "`1`: in a job over several hosts, with several ranks on one of them, the ranks of "
                "each host sum in shared memory, and one sends for all, with the same bits; `0`: "
                "every rank sends. Not with `ATP_HOST_MEMORY=0`, `ATP_EXACT=1` or "
                "`ATP_SCALE=fixed`. The same on every rank (`docs/results/performance.md`)",
     .otherwise = "`1`, but `0` with `ATP_COLOCATED_SERVER`, and in C++ without `ATP_HOST_RANKS`"},
    {.name = "ATP_HOST_RANKS",
     .readers = kCpp,
     .meaning = "ranks per host, in rank order. Set by `atp run --cluster`; torch's ranks find "
                "out themselves",
     .otherwise = "every rank sends; with `ATP_HIERARCHY=1` an error",
     .form = "4,1,3"},
    {.name = "ATP_COLOCATED_SERVER",
     .meaning = "where this rank's process serves part of the job: a server in every rank's "
                "`ATP_ROUTE`. With one per rank, the routes are in rank order. `atp run "
                "--colocated-servers` sets both",
     .otherwise = "it serves nothing",
     .form = "HOST:PORT"},
    {.name = "ATP_WILLS",
     .meaning = "a folder into which a rank writes what its supervisor sends when the process "
                "dies (`docs/inside/protocol` §2). Set by `atp run`",
     .otherwise = "the others notice a death when the lease ends",
     .form = "FOLDER"},
    {.name = "RANK",
     .kind = kWhole,
     .readers = kCpp,
     .meaning = "this rank; torch reads it through its `init_method`",
     .otherwise = "an error",
     .most = kMostRanks - 1},
    {.name = "WORLD_SIZE",
     .kind = kWhole,
     .readers = kCpp,
     .meaning = "the number of ranks, likewise",
     .otherwise = "an error",
     .least = 1,
     .most = kMostRanks},
    {.name = "ATP_JOB",
     .kind = kWhole,
     .help = "the job's number",
     .meaning = "the job's number, the same on every rank; in torch that of the default group",
     .otherwise = "C++: an error; torch: the group agrees on one, as other groups always do",
     .most = kMax32},
    {.name = "ATP_INCARNATION",
     .kind = kWhole,
     .help = "the number of this start of it",
     .meaning = "the number of this start of the job: new at each start, the same on every rank",
     .otherwise = "as for `ATP_JOB`",
     .most = kMax32},
    {.name = "ATP_VALUES_PER_FRAGMENT",
     .kind = kWhole,
     .option = "values_per_fragment",
     .help = "maximum values per fragment",
     .meaning = "maximum float32 values per packet; the minimum over all ranks and switches "
                "applies. 0: as if absent",
     .otherwise = "what fits the smallest path MTU to the nodes of the route",
     .most = kMostValues},
    {.name = "ATP_SCALE",
     .kind = kChoice,
     .readers = kCpp | kTorch | kAtpRun,
     .option = "scale",
     .help = "blocks, or fixed: the fixed scale of the paper",
     .meaning = "how float sums become integer sums: `blocks` (a power of two per 256 values, "
                "agreed on in advance) or `fixed` (the paper's 1e8, for float32 in the network "
                "only); the same on every rank (`docs/inside/protocol` §5)",
     .otherwise = "`blocks`",
     .choices = {"blocks", "fixed"}},
    {.name = "ATP_WIRE",
     .kind = kChoice,
     .option = "wire",
     .help = "type of values on the wire: int32 or int16",
     .meaning = "type of a block's values: `int32`, or `int16`, which is half the size, is less "
                "precise, and allows up to 64 ranks; the same on every rank",
     .otherwise = "`int32`",
     .choices = {"int32", "int16"}},
    {.name = "ATP_EXACT",
     .kind = kSwitch,
     .readers = kCpp | kTorch | kAtpRun,
     .option = "exact",
     .help = "1: exact float sums",
     .meaning = "`1`: each float sum that would use blocks is computed exactly and rounded once; "
                "the server, or each rank of a ring, adds up what all ranks send. The same on "
                "every rank. A group can use only one of `ATP_SCALE=fixed`, `ATP_WIRE=int16` and "
                "`ATP_EXACT=1`",
     .otherwise = "`0`"},
    {.name = "ATP_OVERFLOW",
     .kind = kChoice,
     .option = "overflow",
     .help = "reactive, or proactive: what might overflow bypasses switches",
     .meaning = "`proactive`: what might overflow bypasses the switches, and the worker counts "
                "where that was unnecessary (`docs/inside/protocol` §5)",
     .otherwise = "`reactive`",
     .choices = {"reactive", "proactive"}},
    {.name = "ATP_CONGESTION",
     .kind = kChoice,
     .option = "congestion",
     .help = "aimd; none: a fixed window; paper: as in the paper",
     .meaning = "`aimd`: the window follows ECN and loss (`docs/results/congestion.md`); for "
                "comparisons `none`: a fixed window, which collisions do not bound either, or "
                "`paper`: the paper's rules (`docs/results/sharing.md`)",
     .otherwise = "`aimd`",
     .choices = {"aimd", "none", "paper"}},
    {.name = "ATP_TIMEOUT",
     .kind = kSeconds,
     .option = "timeout",
     .help = "seconds that an operation may take, from its call to its end",
     .meaning = "how long an operation may take, from its call to its end, whether or not it "
                "makes progress",
     .otherwise = "30 minutes; in torch the group's `timeout`",
     .least = kLeastSeconds,
     .most = kMostSeconds},
    {.name = "ATP_JOIN_TIMEOUT",
     .kind = kSeconds,
     .option = "join_timeout",
     .help = "seconds to wait in joining, for the server and all ranks",
     .meaning = "how long a rank waits in joining, for the server and for all other ranks. A torch "
                "group joins once its ranks have met in the store, anew for each algorithm; its "
                "`timeout` bounds the whole",
     .otherwise = "30 s",
     .least = kLeastSeconds,
     .most = kMostSeconds},
    {.name = "ATP_DIGEST",
     .kind = kSwitch,
     .option = "digest",
     .help = "1: keep a digest of all results",
     .meaning = "`1`: keep a digest of all results (`docs/use/torch.md`)",
     .otherwise = "`0`"},
    {.name = "ATP_DIGEST_EVERY",
     .kind = kWhole,
     .option = "digest_every",
     .help = "compare digests across ranks every N operations",
     .meaning = "compare digests across ranks every N operations, and name the rank that differs "
                "(so a digest is kept, too); 0: never; the same on every rank",
     .otherwise = "0",
     .most = 1e9},
    {.name = "ATP_EXPECTED_TIMES",
     .readers = kTorch,
     .help = "expected times in the network and over a ring, for auto",
     .meaning = "expected times of both algorithms, for `auto`, in seconds, e.g. "
                "`innetwork=2.4e-4,4e-8;ring=3.6e-4,1.3e-8`; the same on every rank. `atp run "
                "--cluster` sets it, unless it is set, if the file has all bandwidths on the "
                "path: the fullest link's time per byte, and as latency 30 µs per rank, switch "
                "and server, plus the links' own. Only for the group of all ranks",
     .otherwise = "the ranks measure it",
     .form = "innetwork=LATENCY,TIME_PER_BYTE;ring=LATENCY,TIME_PER_BYTE"},
    {.name = "ATP_SOCKET_IFNAME",
     .readers = kTorch,
     .help = "interface that other ranks connect to",
     .meaning = "the interface whose address (IPv4, else IPv6) other ranks connect to",
     .otherwise = "the one towards `MASTER_ADDR`, or the route; where these lead to loopback only "
                  "(as in Debian), the one towards ranks on other hosts",
     .form = "NAME"},
    {.name = "ATP_KEY_FILE",
     .readers = kCpp | kTorch | kAtpRun,
     .help = "file with the key that tags the rank's packets (atp key)",
     .meaning = "a file with one line, the tenant's key (`atp key`), with which the rank tags its "
                "packets. `atp run`, whose `--key` sets it, gives it to its switches and servers, "
                "too "
                "([operations](../operate/operations.md#keys-who-may-use-a-switch-and-a-server))",
     .otherwise = "torch: what rank 0 gives; else no tags",
     .form = "FILE"},
    {.name = "ATP_PORT_RANGE",
     .help = "ports on which a rank may receive",
     .meaning = "ports on which a rank receives: one UDP port per lane and server, one TCP port "
                "per process group; the ranks of a host share the range",
     .otherwise = "ephemeral",
     .form = "FIRST-LAST"},
    {.name = "ATP_METRICS",
     .readers = kTorch,
     .help = "address on which ranks serve metrics",
     .meaning = "each rank serves metrics for Prometheus over HTTP, on that port plus its "
                "`LOCAL_RANK` (`docs/operate/metrics.md`)",
     .otherwise = "no metrics",
     .form = "ADDR:PORT"},
    {.name = "ATP_FLIGHT_RECORDER",
     .help = "folder for each rank's last operations, if the job fails",
     .meaning = "a folder into which each rank writes its last operations when the job fails, on "
                "`SIGUSR1` and on `SIGTERM`, for `atp report` and torch's analyzer "
                "(`docs/operate/flight-recorder.md`)",
     .otherwise = "the prefix in `TORCH_FR_DUMP_TEMP_FILE` or `TORCH_NCCL_DEBUG_INFO_TEMP_FILE`; "
                  "without them no files",
     .form = "FOLDER"},
    {.name = "ATP_FLIGHT_RECORDER_SIZE",
     .kind = kWhole,
     .help = "operations kept for that; 0: none",
     .meaning = "how many operations each rank keeps for that; 0: none",
     .otherwise = "`TORCH_FR_BUFFER_SIZE`, or 2000",
     .most = 1e6},
    {.name = "ATP_PYTHON",
     .readers = kAtpPlan,
     .meaning = "the Python that runs `atp plan import`, and `calibrate` and `compare`, for which "
                "it must have `atp` and torch",
     .otherwise = "in a checkout its `.venv/bin/python`, otherwise `python3`",
     .form = "PROGRAM"},
    {.name = "ATP_BUILD",
     .readers = kTests,
     .meaning = "the build folder whose programs tests, experiments and demos run",
     .otherwise = "`build/release`",
     .form = "FOLDER"},
    {.name = "ATP_WRITE_DOCS",
     .kind = kSwitch,
     .readers = kTests,
     .meaning = "`1`: tests rewrite this table and those of `docs/operate/metrics.md`",
     .otherwise = "they only compare"},
};

std::string whole_text(double number) { return std::to_string(static_cast<std::uint64_t>(number)); }

std::string joined(std::span<const std::string_view> words, const char* mark,
                   std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 < words.size() ? ", " : last;
    text.append(mark).append(words[i]).append(mark);
  }
  return text;
}

std::string values_text(const Variable& of) {
  switch (of.kind) {
    case kText: return "`" + std::string(of.form) + "`";
    case kChoice:
    case kSwitch: return joined(choices_of(of), "`", ", ");
    case kWhole: return whole_text(of.least) + " to " + whole_text(of.most);
    case kSeconds: break;
  }
  return "seconds";
}

template <class Number>
bool is_between(std::string_view text, const Variable& of) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto value = static_cast<double>(number);
  return error == std::errc{} && end == text.data() + text.size() && value >= of.least &&
         value <= of.most;
}

std::string readers_text(VariableReaders readers) {
  constexpr std::pair<VariableReaders, std::string_view> kNames[] = {{kCpp, "C++"},
                                                                     {kTorch, "torch"},
                                                                     {kAtpRun, "`atp run`"},
                                                                     {kAtpPlan, "`atp plan`"},
                                                                     {kTests, "tests"}};
  std::vector<std::string_view> names;
  for (const auto& [reader, name] : kNames) {
    if ((readers & reader) != 0) names.push_back(name);
  }
  return joined(names, "", ", ");
}

}  // namespace

std::span<const Variable> variables() { return kVariables; }

const Variable& variable(std::string_view name) {
  const auto* found = std::find_if(std::begin(kVariables), std::end(kVariables),
                                   [&](const Variable& each) { return each.name == name; });
  ATP_CHECK(found != std::end(kVariables));
  return *found;
}

std::span<const std::string_view> choices_of(const Variable& of) {
  static constexpr std::string_view kOffOn[] = {"0", "1"};
  if (of.kind == kSwitch) return kOffOn;
  const auto none = std::find(of.choices.begin(), of.choices.end(), "");
  return {of.choices.begin(), none};
}

std::string expected_text(const Variable& of) {
  switch (of.kind) {
    case kText: return "\"" + std::string(of.form) + "\"";
    case kChoice:
    case kSwitch: return joined(choices_of(of), "\"", " or ");
    case kWhole:
      return "a whole number from " + whole_text(of.least) + " to " + whole_text(of.most);
    case kSeconds: break;
  }
  return "a number of seconds from 0.001 to " + whole_text(of.most) + ", e.g. 30 or 0.5";
}

std::string_view value_of(const Variable& of) {
  const char* text = std::getenv(std::string(of.name).c_str());
  return text == nullptr ? std::string_view{} : std::string_view{text};
}

std::string_view value_of(std::string_view name) { return value_of(variable(name)); }

Status check(const Variable& of, std::string_view text) {
  bool is_right = text.empty() || of.kind == kText;
  if (of.kind == kChoice || of.kind == kSwitch) {
    const auto choices = choices_of(of);
    is_right |= std::find(choices.begin(), choices.end(), text) != choices.end();
  } else if (of.kind == kWhole) {
    is_right |= is_between<std::uint64_t>(text, of);
  } else if (of.kind == kSeconds) {
    is_right |= is_between<double>(text, of);
  }
  if (is_right) return ok_status();
  return Error{std::string(of.name) + "=\"" + std::string(text) + "\" is not " + expected_text(of)};
}

std::string variables_table() {
  std::string text =
      "| variable | value | meaning | read by | if absent |\n|---|---|---|---|---|\n";
  for (const Variable& each : kVariables) {
    text.append("| `").append(each.name).append("` | ").append(values_text(each)).append(" | ");
    text.append(each.meaning).append(" | ").append(readers_text(each.readers)).append(" | ");
    text.append(each.otherwise).append(" |\n");
  }
  return text;
}

std::string variables_help() {
  constexpr std::size_t kColumn = 27;
  std::string text;
  for (const Variable& each : kVariables) {
    if (each.help.empty()) continue;
    text.append("  ").append(each.name).append(kColumn - each.name.size(), ' ').append(each.help);
    text.append((each.readers & kCpp) == 0 ? " (torch)\n" : "\n");
  }
  return text;
}

}  // namespace atp
