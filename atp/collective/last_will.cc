// Writes, reads and removes the files in which ranks leave their LEAVE for their supervisor.
#include "atp/collective/last_will.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "atp/core/outbox.h"
#include "atp/driver/udp/address.h"

namespace atp {
namespace {

std::string hex(const std::vector<std::uint8_t>& bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

template <class Number>
bool read_number(std::string_view text, Number& value, int base = 10) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  const auto [at, problem] = std::from_chars(begin, end, value, base);
  return problem == std::errc{} && at == end;
}

std::optional<std::vector<std::uint8_t>> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::vector<std::uint8_t> bytes(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (!read_number(text.substr(2 * i, 2), bytes[i], 16)) return std::nullopt;
  }
  return bytes;
}

// A LEAVE straight to the server, which identifies the rank by the packet's source address.
Will will_of(const WorkerConfig& config, std::uint16_t port) {
  const ControlHead head{.type = PacketType::kLeave,
                         .flags = ATP_FLAG_DIRECT,
                         .bitmap_words = bitmap_words_for(config.world_size),
                         .job = config.job,
                         .stream = config.first_stream};
  Outbox out(1, std::size_t{1} << 16);
  put_leave(out, head, RankSet::of(config.rank), Leave{config.nonce, {}});
  out.send_to(config.route.back());
  const auto bytes = out.bytes_of(out.packets()[0]);
  return {port, config.route.back(), {bytes.begin(), bytes.end()}};
}

bool write_file(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  if (!written) unlink(path.c_str());
  return written;
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
  return std::to_string(will.port) + " " + to_string(will.server) + " " + hex(will.leave) + "\n";
}

std::optional<Will> parse_will(std::string_view line) {
  const std::size_t first = line.find(' ');
  const std::size_t second = line.find(' ', first + 1);
  if (first == line.npos || second == line.npos || !line.ends_with('\n')) return std::nullopt;
  Will will;
  const Result<Endpoint> server = resolve_endpoint(line.substr(first + 1, second - first - 1));
  const auto leave = from_hex(line.substr(second + 1, line.size() - second - 2));
  if (!read_number(line.substr(0, first), will.port) || !server || !leave) return std::nullopt;
  will.server = server.value();
  will.leave = *leave;
  return will;
}

LastWill::LastWill(const WorkerConfig& config, std::uint16_t port) : owner_(getpid()) {
  const char* folder = std::getenv("ATP_WILLS");
  if (folder == nullptr) return;
  char name[64];
  std::snprintf(name, sizeof name, "/%016llx-%u", static_cast<unsigned long long>(config.nonce),
                unsigned{config.first_stream});
  // Rename it into place, so that readers see a whole will or none.
  const std::string path = folder + std::string(name);
  const std::string draft = path + ".draft";
  if (!write_file(draft, text_of(will_of(config, port)))) return;
  if (std::rename(draft.c_str(), path.c_str()) == 0) path_ = path;
}

LastWill::~LastWill() {
  if (!path_.empty() && getpid() == owner_) unlink(path_.c_str());
}

}  // namespace atp
