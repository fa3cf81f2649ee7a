#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "atp/config/interconnect/interconnect_file.h"
#include "atp/config/model_file.h"
#include "atp/config/plan_json.h"
#include "atp/planner/planner.h"

// The module atp._planner: the planner as two functions of plain values. Types and documentation
// are Python's, in atp/planner.py; JSON crosses the border, the same that `atp plan best` prints.

namespace py = pybind11;

namespace atp {
namespace {

// What is wrong with an argument or a file.
template <class T>
T valid(Result<T> result) {
  if (!result) throw py::value_error(result.error().message);
  return std::move(result).value();
}

planner::CollectiveSet collective_set(const std::vector<std::string>& names) {
  planner::CollectiveSet set{false, false, false};
  for (const std::string& name : names) {
    if (name == "ring") {
      set.ring = true;
    } else if (name == "hierarchical") {
      set.hierarchical = true;
    } else if (name == "aggregation") {
      set.aggregation = true;
    } else {
      throw py::value_error("collectives: found \"" + name +
                            "\", expected ring, hierarchical or aggregation");
    }
  }
  return set;
}

planner::CostMode cost_mode(const std::string& name) {
  if (name == "linkload") return planner::CostMode::kLinkLoad;
  if (name == "paper") return planner::CostMode::kPaper;
  if (name == "paper-literal") return planner::CostMode::kPaperLiteral;
  throw py::value_error("mode: found \"" + name + "\", expected linkload, paper or paper-literal");
}

planner::Volume volume(const std::string& name) {
  if (name == "exact") return planner::Volume::kExact;
  if (name == "equation2") return planner::Volume::kEquation2;
  throw py::value_error("volume: found \"" + name + "\", expected exact or equation2");
}

// A description that is text already has the name that messages shall give it.
struct Description {
  std::string path;
  std::string text;
  bool is_text = false;
};

struct Choices {
  std::string mode;
  std::vector<std::string> collectives;
  std::uint32_t batch;
  std::uint32_t sequence;
  std::uint32_t element_bytes;
  bool point_to_point_correction;
  std::string volume;
  bool fused;
  bool count_norms;
  std::uint32_t chunks;
  double device_memory_bytes;
};

planner::Request request_of(const Description& topology, const Description& model,
                            std::uint32_t world_size, const Choices& choices) {
  const Cluster cluster = valid(topology.is_text ? parse_cluster(topology.text, topology.path)
                                                 : read_cluster(topology.path));
  valid(check_world_size(cluster, world_size));
  planner::Request request;
  request.interconnect = cluster.interconnect;
  request.model =
      valid(model.is_text ? parse_model(model.text, model.path) : read_model(model.path))
          .transformer;
  if (choices.element_bytes != 0) request.model.bytes_per_element = choices.element_bytes;
  request.workload = {choices.batch, choices.sequence};
  request.world_size = world_size;
  request.options.mode = cost_mode(choices.mode);
  request.options.dimension1 = request.options.dimension2 = collective_set(choices.collectives);
  request.options.point_to_point_correction = choices.point_to_point_correction;
  request.options.volume = volume(choices.volume);
  request.options.fused = choices.fused;
  request.options.count_norm_statistics = choices.count_norms;
  request.options.chunks = choices.chunks;
  request.options.device_memory_bytes = choices.device_memory_bytes;
  valid(planner::check_request(request));
  return request;
}

std::string plan_json_text(const Description& topology, const Description& model,
                           std::uint32_t world_size, const Choices& choices) {
  const planner::Request request = request_of(topology, model, world_size, choices);
  const Result<planner::Plan> plan = planner::plan(request);
  if (!plan) throw std::runtime_error(plan.error().message);
  return plan_json(request, plan.value());
}

std::vector<std::uint32_t> ranks_of(
    const std::vector<std::pair<std::uint32_t, std::uint32_t>>& layout) {
  planner::MeshLayout splits;
  for (const auto& [d1, d2] : layout) splits.push_back({d1, d2});
  return planner::ranks_by_position(splits);
}

}  // namespace
}  // namespace atp

PYBIND11_MODULE(_planner, module) {
  using atp::Choices;
  using atp::Description;
  py::class_<Description>(module, "Description")
      .def(py::init([](std::string path, std::string text, bool is_text) {
             return Description{std::move(path), std::move(text), is_text};
           }),
           py::arg("path"), py::arg("text") = "", py::arg("is_text") = false);
  py::class_<Choices>(module, "Choices")
      .def(py::init([](std::string mode, std::vector<std::string> collectives, std::uint32_t batch,
                       std::uint32_t sequence, std::uint32_t element_bytes,
                       bool point_to_point_correction, std::string volume, bool fused,
                       bool count_norms, std::uint32_t chunks, double device_memory_bytes) {
             return Choices{std::move(mode),
                            std::move(collectives),
                            batch,
                            sequence,
                            element_bytes,
                            point_to_point_correction,
                            std::move(volume),
                            fused,
                            count_norms,
                            chunks,
                            device_memory_bytes};
           }),
           py::kw_only(), py::arg("mode"), py::arg("collectives"), py::arg("batch"),
           py::arg("sequence"), py::arg("element_bytes"), py::arg("point_to_point_correction"),
           py::arg("volume"), py::arg("fused"), py::arg("count_norms"), py::arg("chunks"),
           py::arg("device_memory_bytes"));
  // Searching touches no Python object, so other threads may run.
  module.def("plan_json", &atp::plan_json_text, py::arg("topology"), py::arg("model"),
             py::arg("world_size"), py::arg("choices"), py::call_guard<py::gil_scoped_release>());
  module.def("ranks_by_position", &atp::ranks_of, py::arg("layout"));
}
