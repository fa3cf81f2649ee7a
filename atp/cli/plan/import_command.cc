#include <fmt/core.h>

#include <memory>

#include "atp/cli/command/command.h"
#include "atp/cli/plan/plan_command.h"
#include "atp/config/interconnect/astra_network.h"
#include "atp/config/interconnect/interconnect_file.h"
#include "atp/config/interconnect/nvidia_topology.h"
#include "atp/config/text/file.h"
#include "atp/config/text/quantity.h"
#include "atp/config/text/words.h"

namespace atp {
namespace {

constexpr const char* kExamples = R"(Examples:
  nvidia-smi topo -m | atp plan import - > mine.yaml
  atp plan import topo.txt --link "SYS=12 GB/s per direction" --link "NV=50 GB/s per direction"
      with what was measured between sockets, and NVLink 5
  atp plan import Ring_Switch.yml --format astra-sim > cluster.yaml)";

struct ImportOptions {
  std::string file;
  std::string format = "auto";
  std::vector<std::string> links;
};

std::string read_input(const std::string& file) {
  const Result<std::string> text = read_or_error([&] { return read_text_file(file); });
  if (!text) throw CommandError(text.error().message, kWrongUsage);
  return text.value();
}

// Only the matrix of nvidia-smi has GPU0 in it, and only an ASTRA-sim network npus_count.
bool is_nvidia(const std::string& text, const std::string& name) {
  if (text.find("GPU0") != std::string::npos) return true;
  if (text.find("npus_count") != std::string::npos) return false;
  const std::string line = shown(text.substr(0, text.find('\n')));
  throw CommandError(
      fmt::format(
          "{}: found {}, expected the output of nvidia-smi topo -m, with a line that begins "
          "with GPU0, or an ASTRA-sim network, with the key npus_count",
          name, line),
      kWrongUsage);
}

void apply_link(const std::string& text, GpuLinkBandwidths& bandwidths) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  std::vector<std::string_view> names;
  for (int kind = 0; kind < kGpuLinkKinds; ++kind) {
    names.push_back(gpu_link_name(static_cast<GpuLink>(kind)));
    if (equals == std::string::npos || names.back() != name) continue;
    const Parsed parsed = parse_bandwidth(text.substr(equals + 1));
    if (!parsed.problem.empty()) {
      throw CommandError(fmt::format("--link {}: found {}, expected {}; {}", name, parsed.problem,
                                     kBandwidthExpected, parsed.advice),
                         kWrongUsage);
    }
    bandwidths.bytes_per_second[static_cast<std::size_t>(kind)] = parsed.value;
    return;
  }
  throw CommandError(fmt::format("--link {}: expected CLASS=BANDWIDTH, where the class is {}", text,
                                 listed(names)),
                     kWrongUsage);
}

void run_import(const ImportOptions& options) {
  const std::string text = read_input(options.file);
  const std::string name = input_name(options.file);
  const bool nvidia =
      options.format == "auto" ? is_nvidia(text, name) : options.format == "nvidia-smi";
  if (!nvidia && !options.links.empty()) {
    throw CommandError("--link is for the classes of nvidia-smi; this is an ASTRA-sim network",
                       kWrongUsage);
  }
  GpuLinkBandwidths bandwidths;
  for (const std::string& link : options.links) apply_link(link, bandwidths);
  const Result<Imported> imported =
      nvidia ? import_nvidia_topology(text, name, bandwidths) : import_astra_network(text, name);
  if (!imported) throw CommandError(imported.error().message, kWrongUsage);
  fmt::print("{}", cluster_text(imported.value().interconnect, imported.value().remarks));
}

}  // namespace

void add_import_command(const Command& plan) {
  const Command command = plan.add_command(
      "import", "Print a cluster file made from `nvidia-smi topo -m` or an ASTRA-sim network");
  command.footer(kExamples);
  const auto options = std::make_shared<ImportOptions>();
  command.add_option("file", options->file, "File to read, - for standard input")
      .required()
      .type_name("FILE");
  command.add_option("--format", options->format, "What the file is")
      .one_of({"auto", "nvidia-smi", "astra-sim"})
      .type_name("FORMAT")
      .show_default();
  command
      .add_option("--link", options->links,
                  "Bandwidth of a class of GPU links (NV is one NVLink), instead of the usual one")
      .type_name("CLASS=BANDWIDTH");
  command.callback([options] { run_import(*options); });
}

}  // namespace atp
