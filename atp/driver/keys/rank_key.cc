// Makes the keys of jobs, and writes and reads them as text.
#include "atp/driver/keys/rank_key.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "atp/driver/keys/hex.h"
#include "atp/wire/packet.h"

namespace atp {
namespace {

std::string_view next_word(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

// "7:b64e…".
bool read_job(std::string_view word, JobKeys& keys) {
  const std::size_t colon = word.find(':');
  if (colon == word.npos) return false;
  const std::string_view number = word.substr(0, colon);
  std::uint32_t job = 0;
  const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), job);
  if (problem != std::errc{} || end != number.data() + number.size()) return false;
  return read_hex(word.substr(colon + 1), keys.by_job[job]);
}

}  // namespace

JobKeys keys_of_jobs(const Tenant& tenant, std::span<const std::uint32_t> jobs) {
  JobKeys keys{.tenant = key_id(tenant.name), .by_job = {}};
  for (const std::uint32_t job : jobs) keys.by_job[job] = packet_key(tenant.key, job);
  return keys;
}

std::string text_of(const JobKeys& keys) {
  std::array<std::uint8_t, 4> tenant;
  atp_store32(tenant.data(), keys.tenant);
  std::string text = to_hex(tenant);
  for (const auto& [job, key] : keys.by_job) {
    text.append(" ").append(std::to_string(job)).append(":").append(to_hex(key));
  }
  return text;
}

Result<JobKeys> parse_job_keys(std::string_view text) {
  const Error error{
      "cannot read the keys of the group's job, which rank 0 has put into the store: all ranks "
      "need the same release of atp"};
  JobKeys keys;
  std::array<std::uint8_t, 4> tenant;
  if (!read_hex(next_word(text), tenant)) return error;
  keys.tenant = atp_load32(tenant.data());
  while (!text.empty()) {
    if (!read_job(next_word(text), keys)) return error;
  }
  if (keys.by_job.empty()) return error;
  return keys;
}

std::string mark_of(const Tenant& tenant) {
  std::array<std::uint8_t, 8> print;
  atp_store64(print.data(), key_print(tenant.key));
  return tenant.name + "/" + to_hex(print);
}

}  // namespace atp
