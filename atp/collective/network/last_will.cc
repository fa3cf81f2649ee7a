// Writes, reads and removes the files in which ranks leave their LEAVE for their supervisor.
#include "atp/collective/network/last_will.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

#include "atp/core/outbox.h"
#include "atp/driver/keys/hex.h"
#include "atp/driver/udp/address.h"

namespace atp {
namespace {

template <class Number>
bool read_number(std::string_view text, Number& value) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto [at, problem] = std::from_chars(begin, end, value);
  return problem == std::errc{} && at == end;
}

// Without those of other jobs.
std::optional<JobKeys> keys_of(const std::optional<RankKey>& key, std::uint32_t job) {
  if (!key) return std::nullopt;
  if (const Tenant* tenant = std::get_if<Tenant>(&*key)) {
    return keys_of_jobs(*tenant, std::span(&job, 1));
  }
  const auto& given = std::get<JobKeys>(*key);
  const auto own = given.by_job.find(job);
  if (own == given.by_job.end()) return std::nullopt;
  return JobKeys{given.tenant, {*own}};
}

// A LEAVE straight to the server, which identifies the rank by the packet's source address.
Will will_of(const WorkerConfig& config, std::uint16_t port, const std::optional<RankKey>& key) {
  const ControlHead head{.type = PacketType::kLeave,
                         .flags = ATP_FLAG_DIRECT,
                         .bitmap_words = bitmap_words_for(config.world_size),
                         .job = config.job,
                         .stream = config.first_stream};
  Outbox out(1, std::size_t{1} << 16);
  put_leave(out, head, RankSet::of(config.rank), Leave{config.nonce, {}});
  out.send_to(config.route.back());
  const auto bytes = out.bytes_of(out.packets()[0]);
  return {port, config.route.back(), {bytes.begin(), bytes.end()}, keys_of(key, config.job.job)};
}

bool write_file(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int problem = errno;
  close(fd);
  if (written) return true;
  unlink(path.c_str());
  errno = problem;
  return false;
}

}  // namespace

bool Will::give_cause(std::string_view cause) {
  const ParsedPacket packet = parse_packet(leave);
  if (!packet.ok() || packet.view().type() != PacketType::kLeave) return false;
  std::optional<Leave> body = Leave::read(packet.view().body);
  if (!body) return false;
  body->cause = CauseText(cause);
  body->write(leave.data() + atp_body_offset(packet.view().header.bitmap_words));
  return true;
}

std::string text_of(const Will& will) {
  return std::to_string(will.port) + " " + to_string(will.server) + " " + to_hex(will.leave) +
         (will.keys ? " " + text_of(*will.keys) : "") + "\n";
}

std::optional<Will> parse_will(std::string_view line) {
  const std::size_t first = line.find(' ');
  const std::size_t second = line.find(' ', first + 1);
  if (first == line.npos || second == line.npos || !line.ends_with('\n')) return std::nullopt;
  Will will;
  const Result<Endpoint> server = resolve_endpoint(line.substr(first + 1, second - first - 1));
  const std::string_view rest = line.substr(second + 1, line.size() - second - 2);
  const std::size_t third = std::min(rest.find(' '), rest.size());
  will.leave.resize(third / 2);
  const bool is_read = read_hex(rest.substr(0, third), will.leave);
  if (!read_number(line.substr(0, first), will.port) || !server || !is_read) return std::nullopt;
  will.server = server.value();
  if (third == rest.size()) return will;
  Result<JobKeys> keys = parse_job_keys(rest.substr(third + 1));
  if (!keys) return std::nullopt;
  will.keys = std::move(keys).value();
  return will;
}

LastWill::LastWill(const WorkerConfig& config, std::uint16_t port,
                   const std::optional<RankKey>& key)
    : owner_(getpid()) {
  const char* folder = std::getenv("ATP_WILLS");
  if (folder == nullptr) return;
  char name[64];
  std::snprintf(name, sizeof name, "/%016llx-%u", static_cast<unsigned long long>(config.nonce),
                unsigned{config.first_stream});
  // Rename it into place, so that readers see a whole will or none.
  const std::string path = folder + std::string(name);
  const std::string draft = path + ".draft";
  const bool written = write_file(draft, text_of(will_of(config, port, key))) &&
                       std::rename(draft.c_str(), path.c_str()) == 0;
  if (written) {
    path_ = path;
  } else if (errno != ENOENT) {  // that its supervisor is gone is no news
    std::fprintf(stderr,
                 "atp: cannot write %s: %s: if this process is killed, the other ranks will notice "
                 "only after a lease\n",
                 path.c_str(), std::strerror(errno));
  }
}

LastWill::~LastWill() {
  if (!path_.empty() && getpid() == owner_) unlink(path_.c_str());
}

}  // namespace atp
