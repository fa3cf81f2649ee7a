#include "atp/cli/run/job_environment.h"

#include <cstdlib>
#include <fstream>
#include <map>

#include "atp/base/random.h"
#include "atp/base/system_random.h"
#include "atp/driver/tcp/tcp_socket.h"

namespace atp {
namespace {

std::string host_ranks_text(const std::vector<std::size_t>& ranks_of_hosts) {
  std::string text;
  for (const std::size_t ranks : ranks_of_hosts) {
    text += (text.empty() ? "" : ",") + std::to_string(ranks);
  }
  return text;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> JobEnvironment::of_rank(std::size_t rank) const {
  std::vector<std::pair<std::string, std::string>> variables = {
      {"RANK", std::to_string(rank)},        {"LOCAL_RANK", std::to_string(rank - first_rank)},
      {"WORLD_SIZE", std::to_string(ranks)}, {"LOCAL_WORLD_SIZE", std::to_string(local_ranks)},
      {"MASTER_ADDR", master_address},       {"MASTER_PORT", std::to_string(master_port)},
      {"ATP_JOB", std::to_string(job)},
  };
  const auto add = [&variables](const char* name, const std::string& value) {
    variables.emplace_back(name, value);
  };
  // The user's own setting takes precedence.
  const auto add_if_unset = [&add](const char* name, const std::string& value) {
    if (std::getenv(name) == nullptr) add(name, value);
  };
  if (incarnation) add("ATP_INCARNATION", std::to_string(*incarnation));
  if (!route.empty()) add("ATP_ROUTE", route);
  if (!ranks_of_hosts.empty()) add("ATP_HOST_RANKS", host_ranks_text(ranks_of_hosts));
  if (takes_network) {
    add_if_unset("ATP_HOST_MEMORY", "0");
    add_if_unset("ATP_ALGORITHM", "innetwork");
  }
  if (!colocated_servers.empty()) add("ATP_COLOCATED_SERVER", colocated_servers[rank - first_rank]);
  if (values > 0) add("ATP_VALUES_PER_FRAGMENT", std::to_string(values));
  if (!expected_times.empty()) add_if_unset("ATP_EXPECTED_TIMES", expected_times);
  // By default Gloo resolves the host's name, which may not yield the address in the cluster file.
  if (!interface_name.empty()) add_if_unset("GLOO_SOCKET_IFNAME", interface_name);
  // As torchrun does: several ranks with one thread per core each would compete for the cores.
  if (local_ranks > 1) add_if_unset("OMP_NUM_THREADS", "1");
  return variables;
}

std::string JobEnvironment::replaced() const {
  std::map<std::string, std::string> different;
  for (std::size_t rank = first_rank; rank < first_rank + local_ranks; ++rank) {
    for (const auto& [name, value] : of_rank(rank)) {
      const char* given = std::getenv(name.c_str());
      if (given != nullptr && *given != '\0' && given != value) different[name] = given;
    }
  }
  std::string text;
  for (const auto& [name, value] : different) {
    if (!text.empty()) text += ", ";
    text.append(name).append("=").append(value);
  }
  return text;
}

// Picks a port below the kernel's ephemeral range: rank 0 may need seconds until it listens, and
// until then any connection of this machine could get an ephemeral port.
Result<std::uint16_t> free_tcp_port() {
  constexpr unsigned kLeast = 10'000;
  constexpr int kAttempts = 100;
  unsigned connections = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> connections;
  if (connections <= 2 * kLeast) connections = 32'768;  // the kernel's own default
  Random random(random_seed());
  Error error;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto port = static_cast<std::uint16_t>(kLeast + random.below(connections - kLeast));
    const Result<TcpSocket> socket = TcpSocket::listen(Endpoint::ipv4(0, 0, 0, 0, port));
    if (socket) return port;
    error = socket.error();
  }
  return error;
}

}  // namespace atp
