#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "atp/config/interconnect/interconnect_file.h"
#include "atp/config/model_file.h"
#include "atp/config/plan_json.h"
#include "atp/planner/feasibility.h"
#include "atp/planner/planner.h"

// The module atp._planner: the planner as functions of plain values. Types and documentation are in
// atp/planner.py; the results are JSON, the same as `atp plan best` prints.

namespace py = pybind11;

namespace atp {
namespace {

// The value, or a ValueError with what is wrong with an argument or a file.
template <class T>
T valid(Result<T> result) {
  if (!result) throw py::value_error(result.error().message);
  return std::move(result).value();
}

planner::CollectiveSet collective_set(const std::vector<std::string>& names) {
  planner::CollectiveSet set{false, false, false, false};
  for (const std::string& name : names) {
    if (name == "ring") {
      set.ring = true;
    } else if (name == "hierarchical") {
      set.hierarchical = true;
    } else if (name == "innetwork") {
      set.in_network = true;
    } else if (name == "gloo") {
      set.gloo = true;
    } else {
      throw py::value_error("collectives: found \"" + name +
                            "\", expected ring, hierarchical, innetwork or gloo");
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

planner::Recompute recompute(const std::string& name) {
  if (name == "none") return planner::Recompute::kNone;
  if (name == "selective") return planner::Recompute::kSelective;
  if (name == "full") return planner::Recompute::kFull;
  throw py::value_error("recompute: found \"" + name + "\", expected none, selective or full");
}

planner::Volume volume(const std::string& name) {
  if (name == "exact") return planner::Volume::kExact;
  if (name == "equation2") return planner::Volume::kEquation2;
  throw py::value_error("volume: found \"" + name + "\", expected exact or equation2");
}

// For a description that is already text, `path` is its name in messages.
struct Description {
  std::string path;
  std::string text;
  bool is_text = false;
};

struct Choices {
  std::string mode;
  std::vector<std::string> collectives;
  std::vector<std::string> collectives2;
  std::uint32_t batch;
  std::uint32_t sequence;
  std::uint32_t element_bytes;
  bool full_attention;
  bool point_to_point_correction;
  std::string volume;
  std::optional<bool> fused;
  bool count_norms;
  std::uint32_t chunks;
  std::uint32_t micro_batch;
  std::string recompute;
  double device_memory_bytes;
  bool runtime;
  bool stores_attention_scores;
  bool by_heads;
  bool whole_logits;
  bool sequence_parallel;
  bool searches_sequence_parallel;
  std::vector<std::string> hosts;
  std::uint32_t ranks_per_host;
  std::uint32_t replicas;
  bool fully_shard;
  std::vector<std::string> data_collectives;
};

planner::Transformer transformer_of(const Description& model) {
  return valid(model.is_text ? parse_model(model.text, model.path) : read_model(model.path))
      .transformer;
}

Cluster cluster_of(const Description& cluster, const Choices& choices) {
  const ClusterPart part{choices.hosts, choices.ranks_per_host};
  return valid(cluster.is_text ? parse_cluster(cluster.text, cluster.path, part)
                               : read_cluster(cluster.path, part));
}

planner::Request request_of(const Cluster& cluster, const Description& model, std::uint32_t ranks,
                            const Choices& choices) {
  valid(check_ranks(cluster, ranks));
  planner::Request request;
  request.interconnect = cluster.interconnect;
  request.model = transformer_of(model);
  request.model.causal = !choices.full_attention;
  if (choices.element_bytes != 0) request.model.bytes_per_element = choices.element_bytes;
  request.workload = {choices.batch, choices.sequence};
  request.world_size = ranks;
  request.options.mode = cost_mode(choices.mode);
  request.options.dimension1 = collective_set(choices.collectives);
  request.options.dimension2 = collective_set(choices.collectives2);
  request.options.runtime = choices.runtime;
  request.options.by_heads = choices.by_heads;
  request.options.whole_logits = choices.whole_logits;
  request.options.sequence_parallel = choices.sequence_parallel;
  request.options.searches_sequence_parallel = choices.searches_sequence_parallel;
  request.options.stores_attention_scores = choices.stores_attention_scores;
  request.options.point_to_point_correction = choices.point_to_point_correction;
  request.options.volume = volume(choices.volume);
  request.options.fused = choices.fused;
  request.options.count_norm_statistics = choices.count_norms;
  request.options.chunks = choices.chunks;
  request.options.micro_batch = choices.micro_batch;
  request.options.recompute = recompute(choices.recompute);
  request.options.device_memory_bytes = choices.device_memory_bytes;
  request.options.replicas = choices.replicas;
  request.options.fully_shard = choices.fully_shard;
  request.options.data = collective_set(choices.data_collectives);
  valid(planner::check_request(request));
  return request;
}

std::string plan_json_text(const Description& cluster, const Description& model,
                           std::uint32_t ranks, const Choices& choices) {
  const planner::Request request = request_of(cluster_of(cluster, choices), model, ranks, choices);
  const Result<planner::Plan> plan = planner::plan(request);
  if (!plan) throw std::runtime_error(plan.error().message);
  return plan_json(request, plan.value());
}

struct Shape {
  std::uint32_t heads;
  std::uint32_t kv_heads;
  std::uint32_t d1;
  std::uint32_t d2;
  std::uint32_t batch;
};

// How the ranks of a row share the attention core, or "" if they cannot.
std::string core_spread_text(const Shape& shape) {
  const planner::Transformer model{.heads = shape.heads, .kv_heads = shape.kv_heads};
  const auto spread = planner::core_spread(model, shape.batch, {shape.d1, shape.d2});
  if (!spread) return "";
  switch (*spread) {
    case planner::CoreSpread::kWhole: return "whole";
    case planner::CoreSpread::kHeads: return "heads";
    case planner::CoreSpread::kSequences: return "sequences";
    case planner::CoreSpread::kHeadsWithSharedKv: return "heads with shared kv";
  }
  return "";
}

// (reasons why it cannot run, notes).
std::pair<std::vector<std::string>, std::vector<std::string>> feasibility(
    const Description& description, std::pair<std::uint32_t, std::uint32_t> mesh,
    std::uint32_t batch, std::uint32_t chunks) {
  planner::Options options;
  options.chunks = chunks;
  auto found = planner::feasibility_of(transformer_of(description), {batch, 1},
                                       {mesh.first, mesh.second}, options);
  return {std::move(found.reasons), std::move(found.notes)};
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
      .def(py::init([](std::string mode, std::vector<std::string> collectives,
                       std::vector<std::string> collectives2, std::uint32_t batch,
                       std::uint32_t sequence, std::uint32_t element_bytes, bool full_attention,
                       bool point_to_point_correction, std::string volume,
                       std::optional<bool> fused, bool count_norms, std::uint32_t chunks,
                       std::uint32_t micro_batch, std::string recompute, double device_memory_bytes,
                       bool runtime, bool stores_attention_scores, bool by_heads, bool whole_logits,
                       bool sequence_parallel, bool searches_sequence_parallel,
                       std::vector<std::string> hosts, std::uint32_t ranks_per_host,
                       std::uint32_t replicas, bool fully_shard,
                       std::vector<std::string> data_collectives) {
             return Choices{std::move(mode),
                            std::move(collectives),
                            std::move(collectives2),
                            batch,
                            sequence,
                            element_bytes,
                            full_attention,
                            point_to_point_correction,
                            std::move(volume),
                            fused,
                            count_norms,
                            chunks,
                            micro_batch,
                            std::move(recompute),
                            device_memory_bytes,
                            runtime,
                            stores_attention_scores,
                            by_heads,
                            whole_logits,
                            sequence_parallel,
                            searches_sequence_parallel,
                            std::move(hosts),
                            ranks_per_host,
                            replicas,
                            fully_shard,
                            std::move(data_collectives)};
           }),
           py::kw_only(), py::arg("mode"), py::arg("collectives"), py::arg("collectives2"),
           py::arg("batch"), py::arg("sequence"), py::arg("element_bytes"),
           py::arg("full_attention"), py::arg("point_to_point_correction"), py::arg("volume"),
           py::arg("fused"), py::arg("count_norms"), py::arg("chunks"), py::arg("micro_batch"),
           py::arg("recompute"), py::arg("device_memory_bytes"), py::arg("runtime"),
           py::arg("stores_attention_scores"), py::arg("by_heads"), py::arg("whole_logits"),
           py::arg("sequence_parallel"), py::arg("searches_sequence_parallel"), py::arg("hosts"),
           py::arg("ranks_per_host"), py::arg("replicas"), py::arg("fully_shard"),
           py::arg("data_collectives"));
  // The search touches no Python object, so other threads may run.
  module.def("plan_json", &atp::plan_json_text, py::arg("cluster"), py::arg("model"),
             py::arg("ranks"), py::arg("choices"), py::call_guard<py::gil_scoped_release>());
  module.def("ranks_by_position", &atp::ranks_of, py::arg("layout"));
  module.def(
      "core_spread",
      [](std::uint32_t heads, std::uint32_t kv_heads, std::uint32_t d1, std::uint32_t d2,
         std::uint32_t batch) { return atp::core_spread_text({heads, kv_heads, d1, d2, batch}); },
      py::arg("heads"), py::arg("kv_heads"), py::arg("d1"), py::arg("d2"), py::arg("batch"));
  module.def("feasibility", &atp::feasibility, py::arg("model"), py::arg("mesh"), py::arg("batch"),
             py::arg("chunks"));
}
