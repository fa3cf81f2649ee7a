#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <memory>
#include <utility>

#include "atp/cli/command/command.h"
#include "atp/cli/plan/plan_command.h"
#include "atp/config/interconnect/astra_network.h"
#include "atp/config/interconnect/interconnect_file.h"
#include "atp/config/interconnect/merged_hosts.h"
#include "atp/config/interconnect/nvidia_topology.h"
#include "atp/config/interconnect/slurm_topology.h"
#include "atp/config/text/file.h"
#include "atp/config/text/quantity.h"
#include "atp/config/text/words.h"
#include "atp/config/xml/nccl_topology.h"
#include "atp/config/xml/xml_document.h"

namespace atp {
namespace {

constexpr const char* kImportExamples = R"(Examples:
  nvidia-smi topo -m | atp plan import - > mine.yaml
  atp plan import topo.txt --link "SYS=12 GB/s per direction" --link "NV=50 GB/s per direction"
      use a measured bandwidth between sockets, and that of NVLink 5
  atp plan import gpu1.txt gpu2.txt --link "HOST=200 Gbit/s per direction" > cluster.yaml
      two equal hosts, from the output of nvidia-smi topo -m on each; the hosts are named after the
      files, or by --name HOST=FILE
  atp plan import topo.xml > mine.yaml
      import what a job run with NCCL_TOPO_DUMP_FILE=topo.xml wrote
  atp plan import Ring_Switch.yml --format astra-sim > cluster.yaml
  atp plan import topology.conf --link "NODE=200 Gbit/s per direction" > cluster.yaml
      import from Slurm, one device per node (UPLINK sets the bandwidth above a leaf switch))";

struct ImportOptions {
  std::vector<std::string> files;
  std::vector<std::string> names;
  std::string format = "auto";
  std::vector<std::string> links;
};

struct Input {
  std::string host;  // empty: not named
  std::string path;
  std::string file;  // as messages call it
  std::string text;
  std::string format;
};

// Only nvidia-smi's matrix contains GPU0, only an ASTRA-sim network npus_count, and only Slurm's
// file SwitchName, in upper or lower case.
std::string format_of(const std::string& text, const std::string& name) {
  if (xml_root_name(text) == "system") return "nccl";
  if (text.find("GPU0") != std::string::npos) return "nvidia-smi";
  if (text.find("npus_count") != std::string::npos) return "astra-sim";
  std::string lower = text;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower.find("switchname=") != std::string::npos) return "slurm";
  const std::string line = shown(text.substr(0, text.find('\n')));
  throw CommandError(
      fmt::format(
          "{}: found {}, expected the output of nvidia-smi topo -m (a line begins with GPU0), "
          "NCCL's topology (the XML element system), an ASTRA-sim network (with the key "
          "npus_count), or Slurm's topology.conf (with the key SwitchName)",
          name, line),
      kWrongUsage);
}

// The host's name if --name gives none: gpu1 for out/gpu1.txt. A host's name may have dots.
std::string host_of(const std::string& path) {
  std::string name = path.substr(path.find_last_of('/') + 1);
  for (const std::string_view ending : {".txt", ".xml", ".log", ".out"}) {
    if (name.size() > ending.size() && name.ends_with(ending)) {
      return name.substr(0, name.size() - ending.size());
    }
  }
  return name;
}

void add_name(const std::string& name, std::vector<Input>& inputs) {
  const std::size_t equals = name.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == name.size()) {
    throw CommandError(fmt::format("--name {}: expected HOST=FILE", shown(name)), kWrongUsage);
  }
  const std::string host = name.substr(0, equals), path = name.substr(equals + 1);
  const auto input = std::find_if(inputs.begin(), inputs.end(),
                                  [&](const Input& each) { return each.path == path; });
  if (input == inputs.end()) {
    inputs.push_back({.host = host, .path = path, .file = {}, .text = {}, .format = {}});
  } else if (input->host.empty()) {
    input->host = host;
  } else {
    throw CommandError(
        fmt::format("--name {}: found a second name for {}, already named {}; remove one",
                    shown(name), shown(path), shown(input->host)),
        kWrongUsage);
  }
}

std::vector<Input> inputs_of(const ImportOptions& options) {
  std::vector<Input> inputs;
  for (const std::string& path : options.files) {
    const bool again = std::any_of(inputs.begin(), inputs.end(),
                                   [&](const Input& each) { return each.path == path; });
    if (again) {
      throw CommandError(fmt::format("{}: found twice, expected once; each host needs its own file",
                                     shown(input_name(path))),
                         kWrongUsage);
    }
    inputs.push_back({.host = {}, .path = path, .file = {}, .text = {}, .format = {}});
  }
  for (const std::string& name : options.names) add_name(name, inputs);
  if (inputs.empty()) {
    throw CommandError("found no file, expected FILE, or - for standard input", kWrongUsage);
  }
  for (Input& input : inputs) {
    input.file = input_name(input.path);
    input.text = value_or_throw(read_or_error([&] { return read_text_file(input.path); }));
    input.format = options.format == "auto" ? format_of(input.text, input.file) : options.format;
  }
  return inputs;
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

// The bandwidths of --link by the names' positions, 0 where none is given.
std::vector<double> parse_links(const ImportOptions& options,
                                const std::vector<std::string_view>& names) {
  std::vector<double> bandwidths(names.size());
  for (const std::string& link : options.links) {
    const auto [kind, bandwidth] = parse_link(link, names);
    bandwidths[kind] = bandwidth;
  }
  return bandwidths;
}

// A machine's importer, and the bandwidth of a host's link if it is given.
struct MachineImporter {
  std::function<Result<ImportedMachine>(const Input&)> import;
  double host_bandwidth = 0;
};

MachineImporter nvidia_importer(const ImportOptions& options) {
  std::vector<std::string_view> names;
  names.reserve(kGpuLinkKinds + 1);
  for (int kind = 0; kind < kGpuLinkKinds; ++kind) {
    names.push_back(gpu_link_name(static_cast<GpuLink>(kind)));
  }
  names.emplace_back("HOST");
  const std::vector<double> given = parse_links(options, names);
  GpuLinkBandwidths bandwidths;
  for (int kind = 0; kind < kGpuLinkKinds; ++kind) {
    if (given[kind] > 0) bandwidths.bytes_per_second[kind] = given[kind];
  }
  return {.import =
              [bandwidths](const Input& input) {
                return import_nvidia_topology(input.text, input.file, bandwidths);
              },
          .host_bandwidth = given.back()};
}

MachineImporter nccl_importer(const ImportOptions& options) {
  const std::vector<double> given = parse_links(options, {"NV", "PCIE", "SYS", "HOST"});
  const NcclBandwidths bandwidths{.nvlink = given[0], .pcie = given[1], .sys = given[2]};
  return {.import =
              [bandwidths](const Input& input) {
                return import_nccl_topology(input.text, input.file, bandwidths);
              },
          .host_bandwidth = given[3]};
}

Result<Imported> import_machines(const std::vector<Input>& inputs,
                                 const MachineImporter& importer) {
  std::vector<ImportedHost> hosts;
  hosts.reserve(inputs.size());
  for (const Input& input : inputs) {
    hosts.push_back({.name = input.host,
                     .file = input.file,
                     .machine = value_or_throw(importer.import(input))});
  }
  if (hosts.size() == 1) {
    if (importer.host_bandwidth == 0) return imported_machine(hosts.front());
    throw CommandError("--link HOST is for several hosts; found one file", kWrongUsage);
  }
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i].name.empty()) hosts[i].name = host_of(inputs[i].path);
  }
  return merged_hosts(hosts, importer.host_bandwidth);
}

Result<Imported> import_slurm(const Input& input, const ImportOptions& options) {
  const std::vector<double> given = parse_links(options, {"NODE", "UPLINK"});
  return import_slurm_topology(input.text, input.file, {.node = given[0], .uplink = given[1]});
}

Result<Imported> import_any(const ImportOptions& options) {
  const std::vector<Input> inputs = inputs_of(options);
  const Input& first = inputs.front();
  for (const Input& input : inputs) {
    if (input.format == first.format) continue;
    throw CommandError(fmt::format("{}: found the format {}, expected {}, like {}", input.file,
                                   input.format, first.format, first.file),
                       kWrongUsage);
  }
  if (first.format == "nvidia-smi") return import_machines(inputs, nvidia_importer(options));
  if (first.format == "nccl") return import_machines(inputs, nccl_importer(options));
  if (inputs.size() > 1) {
    throw CommandError(fmt::format("{}: found a second file, expected one, because a file of the "
                                   "format {} describes a whole network",
                                   inputs[1].file, first.format),
                       kWrongUsage);
  }
  if (first.format == "slurm") return import_slurm(first, options);
  if (options.links.empty()) return import_astra_network(first.text, first.file);
  throw CommandError("--link is for nvidia-smi, NCCL and Slurm; this is an ASTRA-sim network",
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
      "Convert the output of `nvidia-smi topo -m`, a topology dumped by NCCL, Slurm's "
      "topology.conf or an ASTRA-sim network to a cluster file");
  command.footer(kImportExamples);
  const auto options = std::make_shared<ImportOptions>();
  command
      .add_option(
          "file", options->files,
          "Input file, - for standard input; several files, one per host, from nvidia-smi or NCCL")
      .type_name("FILE");
  command
      .add_option(
          "--name", options->names,
          "Name of the host that a file is from (default: the file's name without its suffix)")
      .type_name("HOST=FILE");
  command.add_option("--format", options->format, "Format of the files")
      .one_of({"auto", "nvidia-smi", "nccl", "slurm", "astra-sim"})
      .type_name("FORMAT")
      .show_default();
  command
      .add_option("--link", options->links,
                  "Bandwidth of a class of links, instead of the usual bandwidth: NV (per NVLink), "
                  "PIX, PXB, PHB, NODE, SYS, HOST; for NCCL: NV, PCIE, SYS, HOST; for Slurm: NODE, "
                  "UPLINK")
      .type_name("CLASS=BANDWIDTH");
  command.callback([options] { run_import(*options); });
}

}  // namespace atp
