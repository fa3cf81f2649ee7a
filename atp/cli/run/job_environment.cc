#include "atp/cli/run/job_environment.h"

#include <cstdlib>

#include "atp/driver/tcp/tcp_socket.h"

namespace atp {

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
  // What the user has set himself is left alone.
  const auto add_if_unset = [&add](const char* name, const std::string& value) {
    if (std::getenv(name) == nullptr) add(name, value);
  };
  if (incarnation) add("ATP_INCARNATION", std::to_string(*incarnation));
  if (!route.empty()) add("ATP_ROUTE", route);
  if (takes_network) add_if_unset("ATP_HOST_MEMORY", "0");
  if (!own_servers.empty()) add("ATP_OWN_SERVER", own_servers[rank - first_rank]);
  if (values > 0) add("ATP_VALUES_PER_FRAGMENT", std::to_string(values));
  // Gloo would go by the host's name, which need not resolve to the address of the cluster file.
  if (!interface_name.empty()) add_if_unset("GLOO_SOCKET_IFNAME", interface_name);
  // As torchrun does: several ranks with a thread for each core would only stand in their own way.
  if (local_ranks > 1) add_if_unset("OMP_NUM_THREADS", "1");
  return variables;
}

Result<std::uint16_t> free_tcp_port() {
  const Result<TcpSocket> socket = TcpSocket::listen(Endpoint::ipv4(127, 0, 0, 1, 0));
  if (!socket) return socket.error();
  const Result<Endpoint> local = socket.value().local();
  if (!local) return local.error();
  return local.value().port;
}

}  // namespace atp
