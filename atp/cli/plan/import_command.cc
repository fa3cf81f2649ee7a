#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <utility>

#include "atp/cli/command/command.h"
#include "atp/cli/plan/plan_command.h"
#include "atp/config/interconnect/astra_network.h"
#include "atp/config/interconnect/interconnect_file.h"
#include "atp/config/interconnect/nvidia_topology.h"
#include "atp/config/interconnect/slurm_topology.h"
#include "atp/config/text/file.h"
#include "atp/config/text/quantity.h"
#include "atp/config/text/words.h"

namespace atp {
namespace {

constexpr const char* kExamples = R"(Examples:
  nvidia-smi topo -m | atp plan import - > mine.yaml
  atp plan import topo.txt --link "SYS=12 GB/s per direction" --link "NV=50 GB/s per direction"
      use a measured bandwidth between sockets, and that of NVLink 5
  atp plan import Ring_Switch.yml --format astra-sim > cluster.yaml
  atp plan import topology.conf --link "NODE=200 Gbit/s per direction" > cluster.yaml
      import from Slurm, one device per node (UPLINK sets the bandwidth above a leaf switch))";

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

// Only nvidia-smi's matrix contains GPU0, only an ASTRA-sim network npus_count, and only Slurm's
// file SwitchName, in upper or lower case.
std::string format_of(const std::string& text, const std::string& name) {
  if (text.find("GPU0") != std::string::npos) return "nvidia-smi";
  if (text.find("npus_count") != std::string::npos) return "astra-sim";
  std::string lower = text;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower.find("switchname=") != std::string::npos) return "slurm";
  const std::string line = shown(text.substr(0, text.find('\n')));
  throw CommandError(
      fmt::format(
          "{}: found {}, expected the output of nvidia-smi topo -m (a line begins with GPU0), an "
          "ASTRA-sim network (with the key npus_count), or Slurm's topology.conf (with the key "
          "SwitchName)",
          name, line),
      kWrongUsage);
}

// Returns the index of the name, and the bandwidth.
std::pair<std::size_t, double> parse_link(const std::string& text,
                                          const std::vector<std::string_view>& names) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const auto found = std::find(names.begin(), names.end(), name);
  if (equals == std::string::npos || found == names.end()) {
    throw CommandError(fmt::format("--link {}: expected CLASS=BANDWIDTH, where the class is {}",
                                   text, listed(names)),
                       kWrongUsage);
  }
  const Parsed parsed = parse_bandwidth(text.substr(equals + 1));
  if (!parsed.problem.empty()) {
    throw CommandError(fmt::format("--link {}: found {}, expected {}; {}", name, parsed.problem,
                                   kBandwidthExpected, parsed.advice),
                       kWrongUsage);
  }
  return {static_cast<std::size_t>(found - names.begin()), parsed.value};
}

Result<Imported> import_nvidia(const std::string& text, const std::string& name,
                               const ImportOptions& options) {
  std::vector<std::string_view> names;
  names.reserve(kGpuLinkKinds);
  for (int kind = 0; kind < kGpuLinkKinds; ++kind) {
    names.push_back(gpu_link_name(static_cast<GpuLink>(kind)));
  }
  GpuLinkBandwidths bandwidths;
  for (const std::string& link : options.links) {
    const auto [kind, bandwidth] = parse_link(link, names);
    bandwidths.bytes_per_second[kind] = bandwidth;
  }
  return import_nvidia_topology(text, name, bandwidths);
}

Result<Imported> import_slurm(const std::string& text, const std::string& name,
                              const ImportOptions& options) {
  SlurmBandwidths bandwidths;
  for (const std::string& link : options.links) {
    const auto [kind, bandwidth] = parse_link(link, {"NODE", "UPLINK"});
    (kind == 0 ? bandwidths.node : bandwidths.uplink) = bandwidth;
  }
  return import_slurm_topology(text, name, bandwidths);
}

Result<Imported> import_any(const ImportOptions& options) {
  const std::string text = read_input(options.file);
  const std::string name = input_name(options.file);
  const std::string format = options.format == "auto" ? format_of(text, name) : options.format;
  if (format == "nvidia-smi") return import_nvidia(text, name, options);
  if (format == "slurm") return import_slurm(text, name, options);
  if (options.links.empty()) return import_astra_network(text, name);
  throw CommandError("--link is for nvidia-smi and Slurm; this is an ASTRA-sim network",
                     kWrongUsage);
}

void run_import(const ImportOptions& options) {
  const Result<Imported> imported = import_any(options);
  if (!imported) throw CommandError(imported.error().message, kWrongUsage);
  fmt::print("{}", cluster_text(imported.value().interconnect, imported.value().remarks));
}

}  // namespace

void add_import_command(const Command& plan) {
  const Command command = plan.add_command(
      "import",
      "Convert `nvidia-smi topo -m`, Slurm's topology.conf or an ASTRA-sim network to a cluster "
      "file");
  command.footer(kExamples);
  const auto options = std::make_shared<ImportOptions>();
  command.add_option("file", options->file, "Input file, - for standard input")
      .required()
      .type_name("FILE");
  command.add_option("--format", options->format, "Format of the file")
      .one_of({"auto", "nvidia-smi", "slurm", "astra-sim"})
      .type_name("FORMAT")
      .show_default();
  command
      .add_option("--link", options->links,
                  "Bandwidth of a class of links, instead of the usual one: NV (per NVLink), PIX, "
                  "PXB, PHB, NODE, SYS; for Slurm NODE and UPLINK")
      .type_name("CLASS=BANDWIDTH");
  command.callback([options] { run_import(*options); });
}

}  // namespace atp
