#include "atp/config/interconnect/nvidia_topology.h"

#include "atp/config/text/file.h"

namespace atp {
namespace {

ImportedMachine import_matrix(NvidiaMatrix matrix, const GpuLinkBandwidths& bandwidths) {
  GpuMachine machine{.paths = std::move(matrix), .nvlink = bandwidths.of(GpuLink::kNvLink)};
  // GPUs connected by NVLink still have a PCIe slot each; groups connected by PCIe share a link.
  machine.group_link = [&](GpuLink link, const Gpus& group, const Gpus&, bool by_nvlink) {
    return bandwidths.of(link) * (by_nvlink ? static_cast<double>(group.size()) : 1);
  };
  machine.pair = [&](std::size_t from, std::size_t to) {
    const GpuPath& path = machine.paths.at(from, to);
    return bandwidths.of(path.link) * (path.link == GpuLink::kNvLink ? path.nvlinks : 1);
  };
  ImportedMachine imported = machine_of(machine);
  imported.source = "the output of nvidia-smi topo -m";
  imported.remarks.insert(
      imported.remarks.begin(),
      "It contains no bandwidths: these are typical ones for the classes of links. Replace them "
      "with yours.");
  return imported;
}

}  // namespace

Result<ImportedMachine> import_nvidia_topology(std::string_view text, const std::string& file,
                                               const GpuLinkBandwidths& bandwidths) {
  return read_or_error([&] { return import_matrix(parse_nvidia_matrix(text, file), bandwidths); });
}

}  // namespace atp
