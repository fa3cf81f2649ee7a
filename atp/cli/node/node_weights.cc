#include "atp/cli/node/node_weights.h"

#include <algorithm>
#include <string_view>

#include "atp/cli/command/command.h"
#include "atp/cli/command/log.h"
#include "atp/cli/node/node_keys.h"
#include "atp/config/text/file.h"
#include "atp/config/text/words.h"

namespace atp {

static_assert(kMostJobWeight == kMostWeight);

std::string why_idle(const JobWeight& entry, const Keyring* keys) {
  if (keys == nullptr) {
    if (entry.tenant.empty()) return "";
    return "names a tenant, but this switch has no --keys: start it with the keys of its tenants, "
           "or leave out tenant";
  }
  if (entry.tenant.empty()) {
    return "names no tenant, but with --keys each job is one tenant's: add tenant: NAME";
  }
  std::vector<std::string_view> names;
  for (const Tenant& tenant : keys->tenants()) names.push_back(tenant.name);
  if (std::find(names.begin(), names.end(), entry.tenant) != names.end()) return "";
  return "names " + shown(entry.tenant) + ", which has no key in the file of --keys; " +
         hint(entry.tenant, names);
}

std::unique_ptr<NodeWeights> NodeWeights::open(const std::string& path, const Keyring* keys) {
  if (path.empty()) return nullptr;
  if (path == "-") throw CommandError("--weights: " + *why_reading_may_wait(path), kWrongUsage);
  auto entries = read_job_weights_file(path);
  if (!entries) throw CommandError("--weights: " + entries.error().message, kWrongUsage);
  std::unique_ptr<NodeWeights> weights(new NodeWeights(path, keys, std::move(entries).value()));
  weights->log_entries("");
  return weights;
}

void NodeWeights::reload() {
  if (const auto why = why_reading_may_wait(path_)) {
    log_error("{}; the weights stay as they are", *why);
    return;
  }
  auto entries = read_job_weights_file(path_);
  if (!entries) {
    log_refused("--weights: " + entries.error().message, "weights");
    return;
  }
  const bool had_entries = !entries_.empty();
  entries_ = std::move(entries).value();
  log_entries(" again");
  if (!had_entries || !entries_.empty()) return;
  log_warning("{}: no job has a weight there any more; jobs that begin now have weight 1", path_);
}

std::uint32_t NodeWeights::weight_of(const JobKey& job) const {
  const std::string_view tenant =
      keys_ == nullptr ? std::string_view() : std::string_view(keys_->name_of(job.tenant));
  for (const JobWeight& entry : entries_) {
    if (entry.holds(job.job, tenant)) return entry.weight;
  }
  return of_tenant(job.tenant).weight;
}

// The first entry that holds for nobody is named: the others most likely have the same reason.
void NodeWeights::log_entries(const char* again) const {
  log_info("read the weights of jobs from {}{}: {} {}", path_, again, entries_.size(),
           entries_.size() == 1 ? "entry" : "entries");
  const auto idle = std::find_if(entries_.begin(), entries_.end(), [this](const JobWeight& entry) {
    return !why_idle(entry, keys_).empty();
  });
  if (idle == entries_.end()) return;
  log_warning("{}: holds for no job: it {}", idle->place.text(), why_idle(*idle, keys_));
}

}  // namespace atp
