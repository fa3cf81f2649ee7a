#include "atp/cli/job_environment.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

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
  add("ATP_ROUTE", route);
  if (!own_servers.empty()) add("ATP_OWN_SERVER", own_servers[rank - first_rank]);
  if (values > 0) add("ATP_VALUES_PER_FRAGMENT", std::to_string(values));
  // Gloo would go by the host's name, which need not resolve to the address of the cluster file.
  if (!interface_name.empty()) add_if_unset("GLOO_SOCKET_IFNAME", interface_name);
  // As torchrun does: several ranks with a thread for each core would only stand in their own way.
  if (local_ranks > 1) add_if_unset("OMP_NUM_THREADS", "1");
  return variables;
}

Result<std::uint16_t> free_tcp_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  const bool found = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  const int problem = errno;
  if (fd >= 0) close(fd);
  if (!found) return Error{std::string("no free TCP port: ") + std::strerror(problem)};
  return ntohs(address.sin_port);
}

}  // namespace atp
