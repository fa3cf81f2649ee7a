#include "atp/cli/node/connection_owner.h"

#include <fmt/core.h>

#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <sstream>
#include <string>

namespace atp {
namespace {

// The kernel prints each four bytes of an address as one number in this machine's byte order.
std::string kernel_text(std::span<const std::uint8_t> address, std::uint16_t port) {
  std::string text;
  for (std::size_t i = 0; i < address.size(); i += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, address.data() + i, sizeof word);
    text += fmt::format("{:08X}", word);
  }
  return text + fmt::format(":{:04X}", port);
}

// An IPv4 address is the last four bytes of an endpoint's 16; a socket of family AF_INET6 that is
// connected over IPv4 is listed with all of them.
bool is_named(std::string_view text, const Endpoint& endpoint) {
  const std::span<const std::uint8_t> all(endpoint.address);
  if (text == kernel_text(all, endpoint.port)) return true;
  return endpoint.is_ipv4() && text == kernel_text(all.last(4), endpoint.port);
}

constexpr std::string_view kEstablished = "01";

std::string text_of_file(const char* path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

std::optional<uid_t> owner_in_table(std::string_view table, const Endpoint& own,
                                    const Endpoint& peer) {
  std::istringstream lines{std::string(table)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user;
    words >> timeout >> inode;
    if (!words || !is_named(local, peer) || !is_named(remote, own)) continue;
    // A socket that its process has closed has no inode. Linux before 6.17 prints user 0 for it,
    // whoever it was.
    if (state != kEstablished || inode == "0") continue;
    uid_t uid = 0;
    const auto [end, error] = std::from_chars(user.data(), user.data() + user.size(), uid);
    if (error == std::errc() && end == user.data() + user.size()) return uid;
  }
  return std::nullopt;
}

std::optional<uid_t> owner_of_connection(const Endpoint& own, const Endpoint& peer) {
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    if (const auto uid = owner_in_table(text_of_file(path), own, peer)) return uid;
  }
  return std::nullopt;
}

}  // namespace atp
