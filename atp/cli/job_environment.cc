#include "atp/cli/job_environment.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace atp {

std::vector<std::pair<std::string, std::string>> JobEnvironment::of_rank(std::size_t rank) const {
  const std::string world = std::to_string(ranks);
  std::vector<std::pair<std::string, std::string>> variables = {
      {"RANK", std::to_string(rank)},
      {"LOCAL_RANK", std::to_string(rank)},
      {"WORLD_SIZE", world},
      {"LOCAL_WORLD_SIZE", world},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(master_port)},
      {"ATP_JOB", std::to_string(job)},
      {"ATP_INCARNATION", std::to_string(incarnation)},
      {"ATP_ROUTE", route},
  };
  if (values > 0) variables.emplace_back("ATP_VALUES_PER_FRAGMENT", std::to_string(values));
  // As torchrun does: several ranks with a thread for each core would only stand in their own way.
  if (ranks > 1 && std::getenv("OMP_NUM_THREADS") == nullptr) {
    variables.emplace_back("OMP_NUM_THREADS", "1");
  }
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
