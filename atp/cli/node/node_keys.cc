#include "atp/cli/node/node_keys.h"

#include <fmt/core.h>

#include <algorithm>

#include "atp/cli/command/command.h"
#include "atp/cli/command/log.h"
#include "atp/wire/packet_view.h"

namespace atp {
namespace {

std::string count_of(std::size_t tenants) {
  return fmt::format("{} tenant{}", tenants, tenants == 1 ? "" : "s");
}

}  // namespace

std::unique_ptr<NodeKeys> NodeKeys::open(const std::string& path) {
  if (path.empty()) return nullptr;
  auto tenants = read_key_file(path);
  if (!tenants) throw CommandError("--keys: " + tenants.error().message);
  log_info("read the keys of {} from {}", count_of(tenants.value().size()), path);
  return std::unique_ptr<NodeKeys>(new NodeKeys(path, std::move(tenants).value()));
}

void NodeKeys::reload() {
  auto tenants = read_key_file(path_);
  if (!tenants) {
    log_error("{}; the keys stay as they are", tenants.error().message);
    return;
  }
  const auto is_new = [this](const Tenant& tenant) {
    const auto& old = ring_.tenants();
    return std::find(old.begin(), old.end(), tenant) == old.end();
  };
  const auto changed = std::count_if(tenants.value().begin(), tenants.value().end(), is_new);
  log_info("read the keys of {} from {} again, {} of them new or changed",
           count_of(tenants.value().size()), path_, changed);
  ring_.replace(std::move(tenants).value());
}

void KeyRefusalLog::add(Instant now, const Endpoint& from, std::span<const std::uint8_t> join,
                        KeyProblem problem) {
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
      fmt::format("refused rank {} of job {} at {}: {}", rank, packet.header.job, to_string(from),
                  to_string(problem)),
      {.job = packet.header.job, .incarnation = packet.header.incarnation, .ranks = {rank}});
}

}  // namespace atp
