#include "atp/cli/run/wills.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <system_error>

#include "atp/cli/command/log.h"
#include "atp/driver/keys/keyring.h"
#include "atp/driver/udp/address.h"

namespace atp {
namespace {

namespace fs = std::filesystem;

constexpr Duration kPause = std::chrono::milliseconds(50);

void no_wills(const std::string& path, const std::string& why) {
  log_warning(
      "cannot create the folder {}: {}: if a rank is killed, the others will notice only "
      "after a lease (set TMPDIR to a folder with room)",
      path, why);
}

std::string make_folder() {
  std::error_code problem;
  std::string path = fs::temp_directory_path(problem) / "atp-run-XXXXXX";
  if (problem || mkdtemp(path.data()) == nullptr) {
    no_wills(path, problem ? problem.message() : std::strerror(errno));
    return {};
  }
  return path;
}

std::vector<Will> wills_in(const std::string& folder) {
  std::vector<Will> wills;
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(folder, problem)) {
    if (entry.path().extension() == ".draft") continue;
    std::ifstream file(entry.path());
    std::string line;
    std::getline(file, line);
    if (const auto will = parse_will(line + "\n")) wills.push_back(*will);
  }
  return wills;
}

// Sent from the rank's port, which a surviving process of the rank may still use as well.
void send(const Will& will) {
  Endpoint local = any_address_for(std::span(&will.server, 1));
  local.port = will.port;
  const Result<UdpSocket> socket = UdpSocket::open(local);
  SocketAddress to;
  if (!socket || !to_socket_address(will.server, socket.value().family(), to)) {
    log_debug("cannot send a rank's will: {}", socket ? "no such address" : socket.error().message);
    return;
  }
  sendto(socket.value().fd(), will.leave.data(), will.leave.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
         &to.base, to.length);
}

void add_tag(Will& will) {
  const std::size_t length = will.leave.size();
  will.leave.resize(length + ATP_TAG_BYTES);
  will.leave.resize(Keyring(RankKey(*will.keys)).add_tag(will.leave, length, {}));
}

}  // namespace

Wills::Wills() : folder_(make_folder()) {}

Wills::~Wills() {
  std::error_code problem;
  if (!folder_.empty()) fs::remove_all(folder_, problem);
}

std::string Wills::folder_of(std::string_view rank) {
  if (folder_.empty()) return {};
  std::string path = folder_ + "/" + std::string(rank);
  std::replace(path.begin() + static_cast<std::ptrdiff_t>(folder_.size()), path.end(), ' ', '-');
  std::error_code problem;
  fs::create_directory(path, problem);
  if (problem) no_wills(path, problem.message());
  return problem ? std::string() : path;
}

void Wills::execute(Instant now, std::string_view rank, std::string_view cause) {
  if (folder_.empty()) return;
  for (Will& will : wills_in(folder_of(rank))) {
    if (!will.give_cause(cause)) continue;
    if (will.keys) add_tag(will);
    letters_.push_back({.will = std::move(will), .at = now});
  }
  send_due(now);
}

Instant Wills::next() const {
  Instant next = kNever;
  for (const Letter& letter : letters_) next = std::min(next, letter.at);
  return next;
}

void Wills::send_due(Instant now) {
  for (Letter& letter : letters_) {
    if (letter.at > now) continue;
    send(letter.will);
    --letter.left;
    letter.at = now + kPause;
  }
  std::erase_if(letters_, [](const Letter& letter) { return letter.left == 0; });
}

}  // namespace atp
