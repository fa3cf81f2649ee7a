#include "atp/planner/replicas.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "atp/planner/feasibility.h"
#include "atp/planner/layer_cost.h"
#include "atp/planner/memory.h"
#include "atp/planner/step_time.h"
#include "atp/planner/text.h"

namespace atp::planner {
namespace {

// DistributedDataParallel's default size of a bucket.
constexpr double kBucketBytes = 25 * 1024 * 1024;

Status check_replicas(const Request& request) {
  const Options& options = request.options;
  if (options.mode != CostMode::kLinkLoad) {
    return Error{"replicas are not in the paper's equations; use link-load mode, or one replica"};
  }
  if (request.interconnect.point_to_point) {
    return Error{
        "replicas cannot be planned with a point-to-point matrix; remove it, or describe the part "
        "that one replica runs on"};
  }
  const auto& ranks = request.interconnect.job_ranks;
  if (!std::is_sorted(ranks.begin(), ranks.end())) {
    return Error{
        "replicas are on consecutive ranks of the job, which are not consecutive in the cluster "
        "file; name the hosts in the file's order"};
  }
  const std::uint64_t devices = device_count(request.interconnect);
  if (options.replicas != 0 && devices % options.replicas != 0) {
    return Error{std::to_string(options.replicas) + " replicas cannot share " +
                 std::to_string(devices) + " devices equally; use a divisor"};
  }
  return ok_status();
}

// Why this number of replicas cannot be planned for; empty if it can.
std::string obstacle(const Request& request, std::uint32_t replicas) {
  if (request.workload.batch % replicas != 0) {
    return std::to_string(replicas) + " replicas do not divide the batch of " +
           std::to_string(request.workload.batch);
  }
  if (!replica_split(request.interconnect, replicas)) {
    return std::to_string(replicas) +
           " replicas on consecutive devices do not split the levels evenly";
  }
  return {};
}

Request request_of_replica(const Request& request, std::uint32_t replicas,
                           const std::vector<std::uint32_t>& split) {
  Request part = request;
  part.interconnect =
      replicas == 1 ? request.interconnect : part_of_replica(request.interconnect, split);
  part.workload.batch /= replicas;
  part.world_size = 0;
  part.options.replicas = 1;
  part.options.runners_up = std::numeric_limits<std::uint32_t>::max();
  part.options.sensitivities = false;
  // Sharding by replicas changes the memory, so its limit is checked below.
  part.options.device_memory_bytes = 0;
  return part;
}

// Two layers' weights are whole, that of one that computes and of the next, one layer's gradients,
// and those of embedding and head.
void shard_memory(const Request& request, Candidate& candidate) {
  const double replicas = candidate.data.replicas;
  if (!request.options.fully_shard || replicas == 1) return;
  Transformer layers = request.model;
  layers.vocabulary = 0;
  const double of_layers = trained_per_rank(layers, candidate.mesh);
  const double ends = trained_per_rank(request.model, candidate.mesh) - of_layers;
  const double one = of_layers / request.model.layers, element = request.model.bytes_per_element;
  const double missing = 1 - 1 / replicas;
  MemoryPerRank& memory = candidate.memory;
  const double two = std::min(2 * one, of_layers);
  memory.weights = memory.weights / replicas + (two + ends) * element * missing;
  memory.gradients = memory.gradients / replicas + (one + ends) * element * missing;
  memory.optimizer /= replicas;
}

// Adds what the replicas exchange to a mesh of one of them.
void add_data(const Request& request, const Request& part, Candidate& candidate,
              std::uint32_t replicas) {
  DataCost& data = candidate.data;
  data = data_cost(request, candidate.mesh, replicas);
  const bool is_timed = candidate.cost.step.seconds > 0;
  data.waited = data.seconds;
  if (is_timed && replicas > 1 && std::isfinite(data.seconds)) {
    const CostInputs inputs = cost_inputs(part);
    data.waited = waited_between_replicas(inputs, candidate.mesh, candidate.cost, data);
  }
  candidate.cost.step_seconds += data.waited;
  shard_memory(request, candidate);
}

// All feasible meshes with this number of replicas.
void add_candidates(const Request& request, std::uint32_t replicas, std::vector<Candidate>& found,
                    Plan& plan) {
  const auto size = static_cast<std::uint32_t>(device_count(request.interconnect) / replicas);
  if (std::string why = obstacle(request, replicas); !why.empty()) {
    plan.rejected.push_back({{size, 1}, {std::move(why)}, replicas});
    return;
  }
  const auto split = *replica_split(request.interconnect, replicas);
  const Request part = request_of_replica(request, replicas, split);
  Result<Plan> planned = planner::plan(part);
  if (!planned) {
    plan.rejected.push_back({{size, 1}, {planned.error().message}, replicas});
    return;
  }
  Plan& of_part = planned.value();
  for (RejectedMesh& rejected : of_part.rejected) {
    rejected.replicas = replicas;
    plan.rejected.push_back(std::move(rejected));
  }
  plan.layouts_searched += of_part.layouts_searched;
  of_part.runners_up.insert(of_part.runners_up.begin(), std::move(of_part.best));
  for (Candidate& candidate : of_part.runners_up) {
    add_data(request, part, candidate, replicas);
    const std::string why =
        lacking_memory(candidate.memory.total(), request.options.device_memory_bytes);
    if (why.empty()) {
      found.push_back(std::move(candidate));
    } else {
      plan.rejected.push_back({candidate.mesh, {why}, replicas});
    }
  }
}

// The bytes of a rank's gradients as they are summed, and of its weights.
Demand demand_of(const Request& request, double gradients, double weights) {
  if (!request.options.fully_shard) {
    return {.all_reduced_bytes = gradients, .all_reduces = std::ceil(gradients / kBucketBytes)};
  }
  // Every layer is gathered in the forward and in the backward pass.
  const double parts = request.model.layers + 1.0;
  return {.scattered_bytes = gradients,
          .reduce_scatters = parts,
          .gathered_bytes = 2 * weights,
          .all_gathers = 2 * parts};
}

std::vector<std::uint32_t> numbers_of_replicas(const Request& request) {
  if (request.options.replicas != 0) return {request.options.replicas};
  std::vector<std::uint32_t> numbers;
  const std::uint64_t devices = device_count(request.interconnect);
  for (std::uint32_t replicas = 1; replicas <= devices; ++replicas) {
    if (devices % replicas == 0) numbers.push_back(replicas);
  }
  return numbers;
}

}  // namespace

std::optional<std::vector<std::uint32_t>> replica_split(const Interconnect& interconnect,
                                                        std::uint32_t replicas) {
  std::vector<std::uint32_t> split;
  for (const Level& level : interconnect.levels) {
    const bool is_whole = replicas % level.count == 0;
    const bool can_part = level.kind == LevelKind::kSwitch || level.kind == LevelKind::kFull;
    if (!is_whole && (level.count % replicas != 0 || (replicas > 1 && !can_part))) return {};
    split.push_back(is_whole ? level.count : replicas);
    replicas /= split.back();
  }
  return split;
}

Interconnect part_of_replica(const Interconnect& interconnect,
                             const std::vector<std::uint32_t>& split) {
  Interconnect part = interconnect;
  part.measured.clear();  // of the whole
  part.job_ranks.clear();
  for (std::size_t index = 0; index < split.size(); ++index) {
    Level& level = part.levels[index];
    if (split[index] == 1) continue;
    level.count /= split[index];
    // Nothing is sent between the children of such a level.
    if (level.count == 1) level.kind = LevelKind::kSwitch;
    if (!level.aggregation) continue;
    // The other replicas use the same switch and servers at the same time.
    Aggregation& aggregation = *level.aggregation;
    const std::uint32_t sharing = split[index];
    aggregation.shared_by *= sharing;
    aggregation.switch_bandwidth = aggregation.switch_bandwidth / sharing;
    if (aggregation.slots > 0) aggregation.slots = std::max(1u, aggregation.slots / sharing);
  }
  return part;
}

DataCost data_cost(const Request& request, Mesh mesh, std::uint32_t replicas) {
  DataCost cost{.replicas = replicas, .fully_shard = request.options.fully_shard};
  if (replicas == 1) return cost;
  MeshLayout layout;
  const auto split = *replica_split(request.interconnect, replicas);
  for (std::size_t index = 0; index < split.size(); ++index) {
    layout.push_back({split[index], request.interconnect.levels[index].count / split[index]});
  }
  const Options& options = request.options;
  const double element = request.model.bytes_per_element;
  const double parameters = trained_per_rank(request.model, mesh);
  CollectiveSet rings = options.data;
  rings.in_network = false;
  if (options.runtime) rings.hierarchical = false;
  CollectiveSet switches = CollectiveSet::only(Collective::kInNetwork);
  switches.in_network = options.data.in_network;
  // Rings of the runtime sum half precision as float32.
  const double summed_in_rings = options.runtime ? std::max(4.0, element) : element;
  const double gathers = 2 * (request.model.layers + 1.0);
  cost.seconds = std::numeric_limits<double>::infinity();
  for (const auto& [allowed, summed] :
       {std::pair{rings, summed_in_rings}, std::pair{switches, element}}) {
    const std::vector<DimensionCost> costs = dimension_costs(
        request.interconnect, geometry_of(layout, Dimension::k1),
        demand_of(request, parameters * summed, parameters * element), allowed, element);
    if (costs.empty() || costs.front().seconds() >= cost.seconds) continue;
    const DimensionCost& best = costs.front();
    cost.collective = options.fully_shard ? best.reduce_scatter : best.collective;
    cost.bytes = best.bytes;
    cost.seconds = best.seconds();
    cost.level = best.bottleneck.level;
    cost.gathering = options.fully_shard
                         ? gathers * best.all_gather_rate.of(2 * parameters * element / gathers)
                         : 0;
  }
  if (options.fully_shard) {
    const Workload of_replica{request.workload.batch / replicas, request.workload.sequence};
    const double times = 1.0 * of_replica.batch / micro_batch_of(of_replica, options).batch;
    for (double* each : {&cost.bytes, &cost.seconds, &cost.gathering}) *each *= times;
  }
  return cost;
}

Result<Plan> plan_with_replicas(const Request& request) {
  if (Status status = check_replicas(request); !status) return status.error();
  Plan plan;
  std::vector<Candidate> found;
  for (const std::uint32_t replicas : numbers_of_replicas(request)) {
    add_candidates(request, replicas, found, plan);
  }
  std::erase_if(found,
                [](const Candidate& each) { return !std::isfinite(each.cost.step_seconds); });
  if (found.empty()) return no_feasible_mesh(plan.rejected);
  // Ties go to fewer replicas, and then to the larger d1.
  const auto rank = [](const Candidate& each) {
    return std::tuple(comparable(each.cost.step_seconds), each.data.replicas, each.mesh.d2);
  };
  std::sort(found.begin(), found.end(),
            [&rank](const Candidate& a, const Candidate& b) { return rank(a) < rank(b); });
  plan.best = found.front();
  plan.seconds_per_step = plan.best.cost.step_seconds;
  plan.use_one_dimensional = plan.best.mesh.d2 == 1;
  const auto one = std::find_if(found.begin(), found.end(), [&plan](const Candidate& each) {
    return each.mesh.d2 == 1 && each.data.replicas == plan.best.data.replicas;
  });
  if (one != found.end()) {
    plan.one_dimensional = *one;
    plan.gain_over_one_dimensional = one->cost.step_seconds / plan.best.cost.step_seconds;
  }
  const std::size_t kept =
      std::min<std::size_t>(found.size(), std::size_t{1} + request.options.runners_up);
  plan.runners_up.assign(found.begin() + 1, found.begin() + static_cast<std::ptrdiff_t>(kept));
  return plan;
}

}  // namespace atp::planner
