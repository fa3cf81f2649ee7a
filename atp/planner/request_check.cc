#include "atp/planner/request_check.h"

#include "atp/planner/text.h"

namespace atp::planner {
namespace {

Status check_options(const Options& options) {
  if (options.fused && (options.mode != CostMode::kLinkLoad || options.volume != Volume::kExact)) {
    return Error{
        "fused reduce-scatters are not in equation 2; ask for them in link-load mode with "
        "exact volumes"};
  }
  if (options.chunks == 0) return Error{"the number of chunks must be at least 1, found 0"};
  if (!(options.optimizer_bytes_per_parameter >= 0)) {
    return Error{"the optimizer's bytes per parameter must not be negative, found " +
                 number_text(options.optimizer_bytes_per_parameter)};
  }
  if (!(options.device_memory_bytes >= 0)) {
    return Error{"a device's memory must not be negative, found " +
                 number_text(options.device_memory_bytes)};
  }
  return ok_status();
}

}  // namespace

Status check_request(const Request& request) {
  if (Status status = validate(request.interconnect); !status) return status;
  if (Status status = validate(request.model); !status) return status;
  if (Status status = validate(request.workload); !status) return status;
  if (Status status = check_options(request.options); !status) return status;
  const std::uint64_t devices = device_count(request.interconnect);
  if (request.world_size != 0 && request.world_size != devices) {
    return Error{"the world size is " + std::to_string(request.world_size) +
                 ", but the levels of the interconnect multiply to " + std::to_string(devices) +
                 " devices; describe the part that the group runs on, or ask for " +
                 std::to_string(devices)};
  }
  return ok_status();
}

Status check_layout(const Interconnect& interconnect, const MeshLayout& layout) {
  const auto& levels = interconnect.levels;
  if (layout.size() != levels.size()) {
    return Error{"a layout must split each of the " + std::to_string(levels.size()) +
                 " levels, found " + std::to_string(layout.size()) + " splits"};
  }
  for (std::size_t index = 0; index < levels.size(); ++index) {
    const LevelSplit& split = layout[index];
    if (std::uint64_t{split.d1} * split.d2 == levels[index].count) continue;
    return Error{"level " + std::to_string(index + 1) + " " + quoted(levels[index].name) + " has " +
                 std::to_string(levels[index].count) + " children, but its split is " +
                 std::to_string(split.d1) + " x " + std::to_string(split.d2)};
  }
  return ok_status();
}

}  // namespace atp::planner
