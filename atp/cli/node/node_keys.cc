#include "atp/cli/node/node_keys.h"

#include <fmt/format.h>

#include <algorithm>

#include "atp/cli/command/command.h"
#include "atp/cli/command/log.h"
#include "atp/config/text/file.h"
#include "atp/wire/packet_view.h"

namespace atp {
namespace {

std::string count_of(std::size_t tenants) {
  return fmt::format("{} tenant{}", tenants, tenants == 1 ? "" : "s");
}

const Tenant* find(const std::vector<Tenant>& tenants, const std::string& name) {
  const auto found = std::find_if(tenants.begin(), tenants.end(),
                                  [&](const Tenant& tenant) { return tenant.name == name; });
  return found == tenants.end() ? nullptr : &*found;
}

}  // namespace

std::string changes_text(const std::vector<Tenant>& before, const std::vector<Tenant>& now) {
  std::vector<std::string> added, other_key, other_limits, removed;
  for (const Tenant& tenant : now) {
    const Tenant* old = find(before, tenant.name);
    if (old == nullptr) {
      added.push_back(tenant.name);
    } else if (old->key != tenant.key) {
      other_key.push_back(tenant.name);
    } else if (*old != tenant) {
      other_limits.push_back(tenant.name);
    }
  }
  for (const Tenant& tenant : before) {
    if (find(now, tenant.name) == nullptr) removed.push_back(tenant.name);
  }
  std::vector<std::string> parts;
  const auto add = [&](const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) parts.push_back(fmt::format("{} {}", what, fmt::join(names, ", ")));
  };
  add("added", added);
  add("other limits for", other_limits);
  add("another key for", other_key);
  add("removed", removed);
  std::string text = parts.empty() ? "no change" : fmt::format("{}", fmt::join(parts, "; "));
  if (!other_key.empty() || !removed.empty()) text += " (which ends their running jobs)";
  return text;
}

std::unique_ptr<NodeKeys> NodeKeys::open(const std::string& path) {
  if (path.empty()) return nullptr;
  auto tenants = read_key_file(path);
  if (!tenants) throw CommandError("--keys: " + tenants.error().message, kWrongUsage);
  log_info("read the keys of {} from {}", count_of(tenants.value().size()), path);
  return std::unique_ptr<NodeKeys>(new NodeKeys(path, std::move(tenants).value()));
}

void NodeKeys::reload() {
  if (const auto why = why_reading_may_wait(path_)) {
    log_error("{}; the keys stay as they are", *why);
    return;
  }
  auto tenants = read_key_file(path_);
  if (!tenants) {
    log_refused("--keys: " + tenants.error().message, "keys");
    return;
  }
  const std::string news =
      fmt::format("read the keys of {} from {} again: {}", count_of(tenants.value().size()), path_,
                  changes_text(ring_.tenants(), tenants.value()));
  if (const Status replaced = ring_.replace(std::move(tenants).value()); !replaced) {
    log_error("{}: {}; the keys stay as they are", path_, replaced.error().message);
    return;
  }
  log_info("{}", news);
}

void log_refused(const std::string& problem, const char* what) {
  log_error("{}; the {} stay as they are, but this node would not start with this file", problem,
            what);
}

LogAbout about(const JobName& job, const RankSet& ranks) {
  LogAbout about{.job = static_cast<std::uint32_t>(job.job),
                 .incarnation = static_cast<std::uint32_t>(job.incarnation),
                 .tenant = job.tenant,
                 .ranks = {}};
  ranks.for_each([&](Rank rank) { about.ranks.push_back(rank); });
  return about;
}

void KeyRefusalLog::add(Instant now, const Endpoint& from, std::span<const std::uint8_t> join,
                        KeyProblem problem, const std::function<bool(std::uint32_t)>& runs) {
  std::erase_if(said_, [&](const Said& said) { return now - said.at >= kPause; });
  const bool is_known = std::any_of(said_.begin(), said_.end(), [&](const Said& said) {
    return said.host == from.address && said.problem == problem;
  });
  if (is_known || said_.size() == kMaxHosts) return;
  const ParsedPacket parsed = parse_packet(join);
  if (!parsed.ok()) return;
  said_.push_back({from.address, problem, now});
  const PacketView& packet = parsed.view();
  const auto rank = packet.ranks.empty() ? 0 : static_cast<std::uint32_t>(packet.ranks.lowest());
  log(LogLevel::kWarning,
      fmt::format("refused a JOIN in the name of rank {} of job {} from {}: {}{}", rank,
                  packet.header.job, to_string(from), to_string(problem),
                  runs(packet.header.job)
                      ? "; the job of this number that runs here is not affected (if you have not "
                        "just started a rank there, somebody forges packets)"
                      : ""),
      about(JobNames().of(packet.job()), RankSet::of(static_cast<Rank>(rank))));
}

}  // namespace atp
