#include <fmt/core.h>

#include "atp/planner/text.h"
#include "experiments/planner/paper/paper_case.h"
#include "experiments/planner/paper/paper_rows.h"

namespace atp::paper {
namespace {

using planner::Collective;
using planner::CostMode;
using planner::Interconnect;
using planner::Request;

std::string best_text(const Interconnect& interconnect, Collective collective) {
  const Best found = best(only(request(interconnect, CostMode::kLinkLoad), collective));
  return fmt::format("{} at {:.4g}", mesh_text(found.mesh), found.units);
}

// One parameter server host, with a link like the others.
Interconnect one_server(std::uint32_t devices) {
  Interconnect interconnect = aggregating_switch(devices);
  interconnect.levels[0].aggregation->server_hosts = 1;
  return interconnect;
}

}  // namespace

std::vector<Row> beyond_rows() {
  const Interconnect nodes = figure_7a(100, 25);
  const Request served = only(request(one_server(16), CostMode::kLinkLoad), Collective::kInNetwork);
  const auto best_of_32 = [](planner::Volume volume) {
    Request asked = request(aggregating_switch(32), CostMode::kLinkLoad);
    asked.options.volume = volume;
    const Best found = best(asked);
    return fmt::format("{} at {:.4g}", mesh_text(found.mesh), found.units);
  };
  return {
      {"beyond", "best ring mesh on Fig. 7a against hierarchical all-reduce", "not compared",
       fmt::format("ring {}, hierarchical {}", best_text(nodes, Collective::kRing),
                   best_text(nodes, Collective::kHierarchical)),
       "on two levels with few nodes, a 2-D mesh beats 1-D only if both use rings"},
      {"beyond", "flat switch of 8: ring", "-", best_text(flat_switch(8), Collective::kRing), ""},
      {"beyond", "flat switch of 8: in-network aggregation", "-",
       best_text(aggregating_switch(8), Collective::kInNetwork),
       "there a large group costs no more than a small one, so 1-D is best again"},
      {"beyond", "the same, servers on the workers' machines", "-",
       best_text(serving_workers(8), Collective::kInNetwork),
       "each link carries an eighth more, for the servers"},
      {"beyond", "flat switch of 16: ring; aggregation", "-",
       best_text(flat_switch(16), Collective::kRing) + "; " +
           best_text(aggregating_switch(16), Collective::kInNetwork),
       "both dimensions are needed from here on"},
      {"beyond", "flat switch of 32, aggregation: by equation 2; by what is sent", "-",
       best_of_32(planner::Volume::kEquation2) + "; " + best_of_32(planner::Volume::kExact),
       "equation 2 counts an all-gather as half an all-reduce, which holds for rings; by what is "
       "sent, (8,4) costs the same as (16,2), and the larger d1 wins"},
      {"beyond", "flat switch of 16, mesh (8,2), with a single server host", "-",
       fmt::format("{:.4g}", units(served, {8, 2})),
       "all groups that run at once share its link: count the servers' links"},
  };
}

}  // namespace atp::paper
