#include <fmt/core.h>

#include "atp/base/check.h"
#include "atp/planner/communication_matrix.h"
#include "atp/planner/paper_model.h"
#include "atp/planner/text.h"
#include "experiments/planner/paper/paper_case.h"
#include "experiments/planner/paper/paper_rows.h"

namespace atp::paper {
namespace {

using planner::CostMode;
using planner::Interconnect;
using planner::Mesh;

// "25 between two, group 25; ... GB/s"
std::string matrix_text(const Interconnect& interconnect) {
  const Result<planner::CommunicationMatrix> matrix = planner::communication_matrix(interconnect);
  ATP_CHECK(matrix.ok());
  std::string text;
  for (const planner::CommunicationLayer& layer : matrix.value().layers) {
    text += fmt::format("{}{} between two, group {}", text.empty() ? "" : "; ",
                        layer.at(0, 1).value / 1e9, layer.group.value / 1e9);
  }
  return text + " GB/s";
}

std::string bandwidths(const Interconnect& interconnect, Mesh mesh, CostMode mode,
                       bool correction = true) {
  const planner::PaperBandwidths found =
      planner::paper_bandwidths(interconnect, mesh, mode, correction);
  return fmt::format("{:g}, {:g} GB/s", found.dimension1.bandwidth.value / 1e9,
                     found.dimension2.bandwidth.value / 1e9);
}

}  // namespace

std::vector<Row> matrix_rows() {
  const Interconnect papers_7a = figure_7a(200, 25);  // NVLink in both directions, as the paper
  const Interconnect ours_7a = figure_7a(100, 25);
  return {
      {"Fig. 7a", "matrix, nodes and then GPUs",
       "25 between two, group 25; 200 between two, group 600 GB/s", matrix_text(ours_7a),
       "NVLink's 50 GB/s per link counts both directions, HDR's 25 GB/s one; equation 4 needs one"},
      {"Fig. 7b", "matrix, rings and then devices",
       "100 between two, group 200; 25 between two, group 50 GB/s", matrix_text(figure_7b()),
       "agrees"},
      {"3.5", "B1', B2' of mesh (8,2) on Fig. 7a, in the paper's units", "12.5, 200 GB/s",
       bandwidths(papers_7a, {8, 2}, CostMode::kPaper),
       "agrees (the sentence that names B2' means B1')"},
      {"Eq. 3", "B1', B2' of mesh (4,4) on Fig. 7a, in the paper's units",
       bandwidths(papers_7a, {4, 4}, CostMode::kPaperLiteral) + " as printed",
       bandwidths(papers_7a, {4, 4}, CostMode::kPaper),
       "the second dimension starts one layer further down when d1 EQUALS the product of the "
       "counts above, not when it differs: a whole node stays inside"},
      {"Eq. 3", "B1', B2' of mesh (8,2) on a flat switch of 25 GB/s",
       bandwidths(flat_switch(16, 25), {8, 2}, CostMode::kPaperLiteral) + " as printed",
       bandwidths(flat_switch(16, 25), {8, 2}, CostMode::kPaper),
       "min(d2, devices below a link) groups share it, not d2; 5.3 and 5.4 hold only this way"},
      {"Eq. 3", "best mesh on Fig. 7a, in the paper's units",
       fmt::format("{} as printed",
                   mesh_text(best(request(papers_7a, CostMode::kPaperLiteral)).mesh)),
       mesh_text(best(request(papers_7a)).mesh),
       "as printed, dimension 2 of (1,16) starts inside a node, though it spans all four"},
      {"Eq. 3", "best mesh on flat switches of 2 to 1,024", "(N,1) as printed",
       fmt::format("{} for 16", mesh_text(best(request(flat_switch(16))).mesh)),
       "the printed sharing contradicts Fig. 12; the corrected one reproduces it"},
  };
}

}  // namespace atp::paper
