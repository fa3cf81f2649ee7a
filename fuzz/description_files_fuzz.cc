#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "atp/config/interconnect/astra_network.h"
#include "atp/config/interconnect/interconnect_file.h"
#include "atp/config/interconnect/merged_hosts.h"
#include "atp/config/interconnect/nvidia_topology.h"
#include "atp/config/model_file.h"
#include "atp/config/plan_json.h"
#include "atp/config/site/site_reader.h"
#include "atp/config/xml/nccl_topology.h"

// Whatever bytes a description file has, its reader returns a value or an error that names the
// file. A valid cluster is written and read again and must not change: 15 digits of each bandwidth
// survive, so the second writing is compared with the first. And a small plan for it can be written
// as JSON, whatever its names are.

namespace {

[[noreturn]] void fail(const char* what, const std::string& text) {
  std::fprintf(stderr, "%s:\n%s\n", what, text.c_str());
  std::abort();
}

template <class T>
void check_error(const atp::Result<T>& result) {
  if (!result.ok() && !result.error().message.starts_with("f")) {
    fail("an error that does not name the file", result.error().message);
  }
}

void check_round_trip(const atp::planner::Interconnect& interconnect) {
  const std::string written = atp::cluster_text(interconnect, {});
  const atp::Result<atp::Cluster> again = atp::parse_cluster(written, "f");
  if (!again.ok()) fail(again.error().message.c_str(), written);
  const std::string twice = atp::cluster_text(again.value().interconnect, {});
  if (twice != written) fail("the second writing differs", written + "\n---\n" + twice);
}

void check_plan(const atp::planner::Interconnect& interconnect,
                const atp::planner::Transformer& model) {
  if (atp::planner::device_count(interconnect) > 64) return;
  const atp::planner::Request request{
      .interconnect = interconnect, .model = model, .workload = {.batch = 64, .sequence = 16}};
  const atp::Result<atp::planner::Plan> plan = atp::planner::plan(request);
  // dump() throws if a string is not UTF-8.
  if (plan.ok() && atp::plan_json(request, plan.value()).empty()) fail("no JSON", "");
}

// Alone and as two hosts.
void check_machine(const atp::Result<atp::ImportedMachine>& machine) {
  check_error(machine);
  if (!machine.ok()) return;
  atp::ImportedHost host{.name = "a", .file = "f", .machine = machine.value()};
  const atp::Result<atp::Imported> alone = atp::imported_machine(host);
  check_error(alone);
  if (alone.ok()) check_round_trip(alone.value().interconnect);
  atp::ImportedHost other = host;
  other.name = "b";
  const atp::Result<atp::Imported> both = atp::merged_hosts({host, other});
  check_error(both);
  if (both.ok()) check_round_trip(both.value().interconnect);
}

const atp::planner::Transformer kModel{.name = "gpt", .hidden = 960, .layers = 2, .heads = 240};
const atp::planner::Interconnect kPair{.name = "pair",
                                       .levels = {{.name = "gpu", .count = 2, .bandwidth = {1e9}}}};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const atp::Result<atp::Cluster> cluster = atp::parse_cluster(text, "f");
  check_error(cluster);
  if (cluster.ok()) {
    check_round_trip(cluster.value().interconnect);
    check_plan(cluster.value().interconnect, kModel);
  }
  check_error(atp::parse_site(text, "f"));
  const atp::Result<atp::Imported> astra = atp::import_astra_network(text, "f");
  check_error(astra);
  if (astra.ok()) check_round_trip(astra.value().interconnect);
  check_machine(atp::import_nvidia_topology(text, "f"));
  check_machine(atp::import_nccl_topology(text, "f"));
  const atp::Result<atp::Model> model = atp::parse_model(text, "f");
  check_error(model);
  if (model.ok()) check_plan(kPair, model.value().transformer);
  return 0;
}
