#include "atp/config/xml/nccl_topology.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "atp/config/interconnect/pcie_tree.h"
#include "atp/config/text/file.h"
#include "atp/config/text/plain_text.h"
#include "atp/config/text/quantity.h"
#include "atp/config/text/words.h"
#include "atp/config/xml/xml_document.h"

namespace atp {
namespace {

constexpr std::size_t kMaxGpus = 256;
constexpr double kUsualPcie = 32e9;
constexpr double kUsualSys = 20e9;

struct NvLinks {
  const XmlElement* element;
  std::string target;
  int count;
  enum class End { kGpu, kSwitch, kCpu } end;
};

struct Gpu {
  const XmlElement* element;
  std::string bus;
  int number;  // that of NVML
  int capability;
  std::vector<NvLinks> links;
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// The bandwidth of a lane by its transfers per second and its coding.
struct PcieSpeed {
  double gigatransfers;
  double bytes_per_second;
};
constexpr std::array<PcieSpeed, 6> kPcieSpeeds{{{2.5, 2.5e9 / 8 * 8 / 10},
                                                {5, 5e9 / 8 * 8 / 10},
                                                {8, 8e9 / 8 * 128 / 130},
                                                {16, 16e9 / 8 * 128 / 130},
                                                {32, 32e9 / 8 * 128 / 130},
                                                {64, 64e9 / 8 * 242 / 256}}};

// Bytes per second of one NVLink, by ten times the compute capability of its GPU.
double nvlink_of(int capability) {
  if (capability >= 100) return 50e9;
  if (capability >= 86 && capability < 90) return 14.0625e9;
  if (capability >= 70) return 25e9;
  return 20e9;
}

// Reads one file.
class NcclReader {
 public:
  NcclReader(std::string file, const NcclBandwidths& given)
      : file_(std::move(file)), given_(given) {}

  ImportedMachine read(const XmlElement& root) {
    check_root(root);
    for (const XmlElement& cpu : root.children) {
      check_element(cpu, root, {"cpu"});
      read_cpu(cpu);
    }
    if (gpus_.empty()) {
      refuse({file_, 0, ""}, "no GPU", "elements gpu with dev, sm and rank",
             "dump it with NCCL_TOPO_DUMP_FILE in a job that uses the GPUs");
    }
    return imported(machine());
  }

 private:
  [[noreturn]] void refuse_at(const XmlElement& element, std::string_view key,
                              std::string_view found, std::string_view expected,
                              std::string_view advice = {}) const {
    refuse(element.place(file_, key), found, expected, advice);
  }

  std::string_view required(const XmlElement& element, std::string_view key) const {
    const auto value = element.attribute(key);
    if (!value) refuse_at(element, key, "nothing", "this attribute", "was the file edited?");
    return *value;
  }

  int integer(const XmlElement& element, std::string_view key, int least, int most) const {
    const std::string_view text = required(element, key);
    const auto value = parse_integer(text);
    if (!value || *value < least || *value > most) {
      refuse_at(element, key, shown(text), count_text(least, most));
    }
    return static_cast<int>(*value);
  }

  void check_root(const XmlElement& root) const {
    if (root.name != "system") {
      refuse_at(root, "", "the element " + shown(root.name), "system, as NCCL writes it");
    }
    const std::string_view version = required(root, "version");
    if (version == "1") return;
    refuse_at(root, "version", shown(version), "1, which NCCL writes",
              version == "2" ? "RCCL's version 2 is for AMD's GPUs, which are not supported" : "");
  }

  // A skipped element could be a kind of link, so unknown ones are refused.
  void check_element(const XmlElement& element, const XmlElement& parent,
                     std::initializer_list<std::string_view> known) const {
    if (!element.text.empty()) {
      refuse_at(element, "", "the text " + shown(element.text), "elements only");
    }
    if (std::find(known.begin(), known.end(), element.name) != known.end()) return;
    const std::vector<std::string_view> names(known);
    refuse_at(element, "", "an unknown element in " + shown(parent.name), listed(names),
              element.name == "xgmi" ? "AMD's GPUs are not supported" : "");
  }

  void read_cpu(const XmlElement& cpu) {
    const int numa = integer(cpu, "numaid", -1, 1 << 20);
    const std::string host = lower(cpu.attribute("host_hash").value_or(""));
    if (!host_hash_.empty() && host_hash_.front() != host) {
      refuse_at(cpu, "host_hash", "a second host", "the GPUs of one",
                "dump each host's with NCCL_MNNVL_ENABLE=0, and import all the files at once");
    }
    host_hash_ = {host};
    if (!numa_nodes_.insert(numa).second) {
      refuse_at(cpu, "numaid", "the NUMA node " + std::to_string(numa) + " twice", "it once");
    }
    const double uplink = given_.sys > 0 ? given_.sys : kUsualSys;
    const std::size_t node = tree_.add(0, PcieTree::Kind::kNumaNode, uplink);
    for (const XmlElement& child : cpu.children) {
      check_element(child, cpu, {"pci", "nic"});
      if (child.name == "pci") read_pci(child, node);
      if (child.name == "nic") read_nic(child);
    }
  }

  static bool has_gpu(const XmlElement& element) {
    return element.name == "gpu" ||
           std::any_of(element.children.begin(), element.children.end(), has_gpu);
  }

  // Switches without GPUs are only searched for network cards.
  void read_pci(const XmlElement& pci, std::size_t parent) {
    const std::string bus = lower(required(pci, "busid"));
    const bool is_gpu = lower(required(pci, "class")).starts_with("0x03");
    const std::vector<const XmlElement*> gpus = check_pci(pci);
    if (is_gpu && gpus.empty()) {
      refuse_at(pci, "", "a GPU without its element gpu", "one with dev, sm and rank",
                "a file made for NCCL_TOPO_FILE lacks NVLinks; dump one with NCCL_TOPO_DUMP_FILE");
    }
    if (gpus.size() > 1) refuse_at(*gpus[1], "", "a second GPU in one device", "one");
    if (!gpus.empty()) {
      read_gpu(*gpus.front(), bus, tree_.add_gpu(parent, pcie_bandwidth(pci)));
      return;
    }
    const std::size_t node =
        has_gpu(pci) ? tree_.add(parent, PcieTree::Kind::kPcie, pcie_bandwidth(pci)) : parent;
    for (const XmlElement& child : pci.children) {
      if (child.name == "pci") read_pci(child, node);
      if (child.name == "nic") read_nic(child);
    }
  }

  std::vector<const XmlElement*> check_pci(const XmlElement& pci) {
    std::vector<const XmlElement*> gpus;
    for (const XmlElement& child : pci.children) {
      check_element(child, pci, {"pci", "gpu", "nic", "pcilink"});
      if (child.name == "gpu") gpus.push_back(&child);
      has_pcilink_ |= child.name == "pcilink";
    }
    for (const XmlElement& child : pci.children) {
      if (!gpus.empty() && child.name == "pci") {
        refuse_at(child, "", "a device below a GPU", "a GPU at the end of its branch");
      }
    }
    return gpus;
  }

  double pcie_bandwidth(const XmlElement& pci) {
    const double speed = lane_bandwidth(pci);
    const int lanes = lanes_of(pci);
    if (given_.pcie > 0) return given_.pcie;
    if (speed > 0 && lanes > 0) return speed * lanes;
    ++unknown_pcie_;
    return kUsualPcie;
  }

  // 0: unknown, as in many virtual machines.
  double lane_bandwidth(const XmlElement& pci) const {
    const std::string_view text = pci.attribute("link_speed").value_or("");
    if (text.empty() || text.starts_with("Unknown")) return 0;
    const std::size_t space = text.find(' ');
    const auto number = parse_number(text.substr(0, space));
    const std::string_view unit = space == std::string_view::npos ? "" : text.substr(space);
    if (number && (unit == " GT/s" || unit == " GT/s PCIe")) {
      for (const PcieSpeed& speed : kPcieSpeeds) {
        if (speed.gigatransfers == *number) return speed.bytes_per_second;
      }
    }
    refuse_at(pci, "link_speed", shown(text), "2.5, 5, 8, 16, 32 or 64 GT/s");
  }

  // 0: unknown. The kernel then reports 0, 63 or 255.
  int lanes_of(const XmlElement& pci) const {
    const std::string_view text = pci.attribute("link_width").value_or("");
    if (text.empty() || text == "0" || text == "63" || text == "255") return 0;
    const auto lanes = parse_integer(text);
    constexpr std::array<int, 7> kLanes{1, 2, 4, 8, 12, 16, 32};
    if (!lanes || std::find(kLanes.begin(), kLanes.end(), *lanes) == kLanes.end()) {
      refuse_at(pci, "link_width", shown(text), "1, 2, 4, 8, 12, 16 or 32 lanes");
    }
    return static_cast<int>(*lanes);
  }

  void read_gpu(const XmlElement& element, const std::string& bus, std::size_t position) {
    if (position >= kMaxGpus) refuse_at(element, "", "more than 256 GPUs", "at most 256");
    if (element.attribute("mlopart")) {
      refuse_at(element, "mlopart", "a part of a GPU", "whole GPUs");
    }
    Gpu gpu{.element = &element,
            .bus = bus,
            .number = integer(element, "dev", 0, 1 << 20),
            .capability = integer(element, "sm", 30, 999),
            .links = {}};
    integer(element, "rank", 0, 1 << 20);
    for (const Gpu& other : gpus_) {
      if (other.bus == bus || other.number == gpu.number) {
        refuse_at(element, "", "the GPU on line " + std::to_string(other.element->line) + " again",
                  "a different busid and dev");
      }
    }
    for (const XmlElement& link : element.children) {
      check_element(link, element, {"nvlink", "c2c"});
      if (link.name == "nvlink") gpu.links.push_back(read_nvlink(link));
      has_c2c_ |= link.name == "c2c";
    }
    gpus_.push_back(std::move(gpu));
  }

  NvLinks read_nvlink(const XmlElement& link) const {
    const std::string type = lower(required(link, "tclass"));
    NvLinks links{.element = &link,
                  .target = lower(link.attribute("target").value_or("")),
                  .count = integer(link, "count", 1, 1000),
                  .end = NvLinks::End::kGpu};
    if (type == "0x068000") {
      links.end = NvLinks::End::kSwitch;
    } else if (type == "0x068001") {
      links.end = NvLinks::End::kCpu;
    } else if (!type.starts_with("0x03")) {
      refuse_at(link, "tclass", shown(type),
                "0x03… (a GPU), 0x068000 (an NVSwitch) or 0x068001 (a processor)");
    }
    if (links.end == NvLinks::End::kGpu && links.target.empty()) required(link, "target");
    return links;
  }

  void read_nic(const XmlElement& nic) {
    for (const XmlElement& net : nic.children) {
      check_element(net, nic, {"net"});
      // Other interfaces of the same cards, such as those for collectives in the network.
      if (net.attribute("net").value_or("1") == "0") continue;
      const std::string_view text = net.attribute("speed").value_or("0");
      const auto megabits = parse_integer(text);
      if (!megabits || *megabits > 100'000'000) {
        refuse_at(net, "speed", shown(text), "Mbit/s, at most 100000000");
      }
      if (!cards_
               .insert(std::string(net.attribute("name").value_or("")) + "/" +
                       std::string(net.attribute("dev").value_or("")))
               .second) {
        continue;
      }
      if (*megabits <= 0) has_unknown_card_ = true;
      network_ += static_cast<double>(std::max(*megabits, 0LL)) * 1e6 / 8;
    }
  }

  // NVLinks between two GPUs: direct ones, else through switches.
  struct NvLinkMatrix {
    std::vector<int> direct;       // by from x to
    std::vector<int> to_switches;  // by GPU
  };

  NvLinkMatrix nvlinks() {
    const std::size_t count = gpus_.size();
    std::map<std::string, std::size_t> by_bus;
    for (std::size_t gpu = 0; gpu < count; ++gpu) by_bus.emplace(gpus_[gpu].bus, gpu);
    NvLinkMatrix links{.direct = std::vector<int>(count * count),
                       .to_switches = std::vector<int>(count)};
    for (std::size_t from = 0; from < count; ++from) {
      for (const NvLinks& link : gpus_[from].links) {
        if (link.end == NvLinks::End::kSwitch) links.to_switches[from] += link.count;
        if (link.end != NvLinks::End::kGpu) continue;
        const auto target = by_bus.find(link.target);
        if (target == by_bus.end()) {
          has_other_gpus_ = true;
        } else if (target->second == from) {
          refuse_at(*link.element, "target", "the GPU itself", "another GPU");
        } else {
          links.direct[from * count + target->second] += link.count;
        }
      }
    }
    check_symmetric(links);
    return links;
  }

  void check_symmetric(const NvLinkMatrix& links) const {
    for (std::size_t from = 0; from < gpus_.size(); ++from) {
      for (std::size_t to = 0; to < from; ++to) {
        const int there = links.direct[from * gpus_.size() + to];
        const int back = links.direct[to * gpus_.size() + from];
        if (there == back) continue;
        refuse_at(*gpus_[from].element, "nvlink",
                  std::to_string(there) + " NVLinks to the GPU on line " +
                      std::to_string(gpus_[to].element->line) + ", but " + std::to_string(back) +
                      " back",
                  "as many in both directions", "was the file edited?");
      }
    }
  }

  // The GPUs in the order of their numbers; `order_` has their positions in the tree.
  GpuMachine machine() {
    const NvLinkMatrix links = nvlinks();
    const std::size_t count = gpus_.size();
    for (std::size_t gpu = 0; gpu < count; ++gpu) order_.push_back(gpu);
    std::sort(order_.begin(), order_.end(),
              [&](std::size_t a, std::size_t b) { return gpus_[a].number < gpus_[b].number; });
    GpuMachine machine;
    machine.paths.gpus = count;
    machine.nvlink = nvlink_bandwidth();
    for (const std::size_t from : order_) {
      machine.numbers.push_back(gpus_[from].number);
      machine.has_nvswitch |= links.to_switches[from] > 0;
      for (const std::size_t to : order_) {
        machine.paths.paths.push_back(from == to ? GpuPath{} : path(links, from, to));
      }
    }
    return machine;
  }

  GpuPath path(const NvLinkMatrix& links, std::size_t from, std::size_t to) const {
    int count = links.direct[from * gpus_.size() + to];
    if (count == 0) count = std::min(links.to_switches[from], links.to_switches[to]);
    if (count > 0) return {.link = GpuLink::kNvLink, .nvlinks = count};
    return {.link = tree_.link(from, to)};
  }

  // If GPUs differ, the slowest counts.
  double nvlink_bandwidth() const {
    if (given_.nvlink > 0) return given_.nvlink;
    double slowest = nvlink_of(gpus_.front().capability);
    for (const Gpu& gpu : gpus_) slowest = std::min(slowest, nvlink_of(gpu.capability));
    return slowest;
  }

  ImportedMachine imported(GpuMachine machine) {
    const auto in_tree = [this](const Gpus& gpus) {
      Gpus positions;
      positions.reserve(gpus.size());
      for (const std::size_t gpu : gpus) positions.push_back(order_[gpu]);
      return positions;
    };
    machine.group_link = [&](GpuLink, const Gpus& group, const Gpus& whole, bool) {
      return tree_.group_link(in_tree(group), in_tree(whole));
    };
    machine.pair = [&](std::size_t from, std::size_t to) {
      const GpuPath& path = machine.paths.at(from, to);
      return path.link == GpuLink::kNvLink ? machine.nvlink * path.nvlinks
                                           : tree_.pair(order_[from], order_[to]);
    };
    ImportedMachine imported = machine_of(machine);
    imported.source = "a topology dumped by NCCL";
    imported.network = has_unknown_card_ ? 0 : network_;
    std::vector<std::string> remarks = remarks_of(machine);
    imported.remarks.insert(imported.remarks.begin(), remarks.begin(), remarks.end());
    return imported;
  }

  std::vector<std::string> remarks_of(const GpuMachine& machine) const {
    const auto uses = [&](GpuLink link) {
      for (std::size_t from = 0; from < machine.paths.gpus; ++from) {
        for (std::size_t to = 0; to < from; ++to) {
          if (machine.paths.at(from, to).link == link) return true;
        }
      }
      return false;
    };
    std::vector<std::string> remarks;
    if (uses(GpuLink::kNvLink)) {
      remarks.push_back("An NVLink has " + bandwidth_text(machine.nvlink) +
                        (given_.nvlink > 0 ? ", as given." : ", by the GPUs' generation."));
    }
    if (uses(GpuLink::kSys) && given_.sys == 0) {
      remarks.push_back(
          "The links between NUMA nodes are not in the file: 20 GB/s is typical. Replace it with "
          "yours.");
    }
    if (unknown_pcie_ > 0) {
      remarks.push_back(
          "The file lacks the speed of some PCIe links, as is common in virtual machines: 32 GB/s "
          "is assumed for these.");
    }
    if (has_other_gpus_)
      remarks.emplace_back("NVLinks to GPUs that are not in the file are left out.");
    if (has_c2c_) remarks.emplace_back("Links from GPUs to processors (c2c) are left out.");
    if (has_pcilink_) remarks.emplace_back("Links between PCIe switches (pcilink) are left out.");
    return remarks;
  }

  std::string file_;
  NcclBandwidths given_;
  PcieTree tree_;
  std::vector<Gpu> gpus_;  // in the order of the tree
  std::vector<std::size_t> order_;
  std::vector<std::string> host_hash_;  // empty or one
  std::set<int> numa_nodes_;
  std::set<std::string> cards_;
  double network_ = 0;
  bool has_unknown_card_ = false;
  bool has_pcilink_ = false;
  bool has_c2c_ = false;
  bool has_other_gpus_ = false;
  int unknown_pcie_ = 0;
};

}  // namespace

Result<ImportedMachine> import_nccl_topology(std::string_view text, const std::string& file,
                                             const NcclBandwidths& bandwidths) {
  return read_or_error([&] {
    const XmlElement root = parse_xml(text, file);
    return NcclReader(file, bandwidths).read(root);
  });
}

}  // namespace atp
