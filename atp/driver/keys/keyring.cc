#include "atp/driver/keys/keyring.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "atp/base/check.h"
#include "atp/wire/body_field.h"
#include "atp/wire/join.h"
#include "atp/wire/packet_view.h"

namespace atp {
namespace {

bool is_of_this_version(std::span<const std::uint8_t> packet) {
  return packet.size() >= ATP_HEADER_BYTES && packet[ATP_AT_VERSION] == ATP_VERSION;
}

bool has_tag(std::span<const std::uint8_t> packet) { return packet[ATP_AT_TAG_WORDS] != 0; }

std::uint32_t job_of(std::span<const std::uint8_t> packet) {
  return atp_load32(packet.data() + ATP_AT_JOB);
}

// The code of a STATUS; nothing for other packets.
std::optional<StatusCode> status_code(std::span<const std::uint8_t> packet) {
  if (packet[ATP_AT_TYPE] != ATP_STATUS) return std::nullopt;
  const std::size_t at = atp_body_offset(packet[ATP_AT_BITMAP_WORDS]) + status_field::kCode.offset;
  if (packet.size() < at + status_field::kCode.bytes) return std::nullopt;
  return static_cast<StatusCode>(atp_load16(packet.data() + at));
}

// A refusal whose receiver may have no key that fits: the answer to its JOIN, as the nonce shows.
bool refuses_key(std::span<const std::uint8_t> packet) {
  if (status_code(packet) != StatusCode::kRefused) return false;
  const std::size_t body = atp_body_offset(packet[ATP_AT_BITMAP_WORDS]);
  if (packet.size() < body + status_field::kRanksAt) return false;
  const std::uint8_t* at = packet.data() + body;
  return atp_load16(at + status_field::kReason.offset) ==
             static_cast<std::uint16_t>(RefusalReason::kKey) &&
         atp_load64(at + status_field::kNonce.offset) != 0;
}

// The tag of a packet. A JOIN's also covers the address that it comes from, so that nobody can
// repeat another's JOIN from a different one.
std::uint64_t tag_of(const PacketKey& key, std::span<const std::uint8_t> packet,
                     const Endpoint& source) {
  if (packet[ATP_AT_TYPE] != ATP_JOIN) return packet_tag(key, packet);
  std::array<std::uint8_t, ATP_HEADER_BYTES + 8 * ATP_BITMAP_WORDS_MAX + Join::kBytes +
                               ATP_TAG_BYTES + Endpoint::kWireBytes>
      bytes;
  const std::size_t length = std::min(packet.size(), bytes.size() - Endpoint::kWireBytes);
  std::copy_n(packet.begin(), length, bytes.begin());
  write_endpoint(bytes.data() + length, source);
  return packet_tag(key, std::span(bytes).first(length + Endpoint::kWireBytes));
}

std::span<std::uint8_t> without_tag(std::span<std::uint8_t> packet) {
  const std::size_t tag = std::size_t{4} * packet[ATP_AT_TAG_WORDS];
  packet[ATP_AT_TAG_WORDS] = 0;
  return packet.first(packet.size() - std::min(tag, packet.size() - ATP_HEADER_BYTES));
}

}  // namespace

Keyring::Keyring(Side side, std::vector<Tenant> tenants) : side_(side) {
  replace(std::move(tenants));
}

Keyring::Keyring(const RankKey& key) : side_(Side::kRank) {
  if (const Tenant* tenant = std::get_if<Tenant>(&key)) replace({*tenant});
  if (const JobKeys* given = std::get_if<JobKeys>(&key)) {
    for (const auto& [job, own] : given->by_job) jobs_[job] = {given->tenant, own};
  }
}

void Keyring::replace(std::vector<Tenant> tenants) {
  ATP_CHECK(side_ == Side::kNode || tenants.size() == 1);
  tenants_ = std::move(tenants);
  ids_.clear();
  for (const Tenant& tenant : tenants_) ids_.push_back(key_id(tenant.name));
  for (auto& [job, entry] : jobs_) {
    const Tenant* tenant = find(entry.tenant);
    entry.is_closed = tenant == nullptr || packet_key(tenant->key, job) != entry.key;
  }
  std::erase_if(jobs_,
                [this](const auto& job) { return job.second.is_closed && !knows_(job.first); });
}

const Tenant* Keyring::find(std::uint32_t id) const {
  const auto found = std::find(ids_.begin(), ids_.end(), id);
  return found == ids_.end() ? nullptr : &tenants_[static_cast<std::size_t>(found - ids_.begin())];
}

const Keyring::JobEntry* Keyring::entry_of(std::uint32_t job) const {
  const auto entry = jobs_.find(job);
  return entry == jobs_.end() ? nullptr : &entry->second;
}

// False: there is no room.
bool Keyring::keep(std::uint32_t job, const JobEntry& entry) {
  if (jobs_.size() >= kMaxJobs) {
    std::erase_if(jobs_, [this](const auto& other) { return !knows_(other.first); });
    if (jobs_.size() >= kMaxJobs) return false;
  }
  jobs_.insert_or_assign(job, entry);
  return true;
}

// A fragment of a job that a node does not know is a probe (`atp doctor`), and is answered with
// *unknown job* as without keys.
bool Keyring::needs_no_tag(std::span<const std::uint8_t> packet) const {
  if (side_ == Side::kRank) return refuses_key(packet);
  if (packet[ATP_AT_TYPE] == ATP_GRADIENT) {
    const std::uint32_t job = job_of(packet);
    const JobEntry* entry = entry_of(job);
    return (entry == nullptr || entry->is_closed) && !knows_(job);
  }
  return status_code(packet) == StatusCode::kAreYouThere;
}

void Keyring::begin_train(std::span<const std::uint8_t> train, std::size_t segment) {
  train_.bytes = train;
  train_.segment = segment;
  train_.count = 0;
}

// The tag that the datagram should have. It may be computed already, with others of its train; if
// not, it is computed now, together with those of the datagrams after it, or alone.
std::uint64_t Keyring::tag_in_train(const PacketKey& key, std::span<const std::uint8_t> datagram,
                                    const Endpoint& from) {
  const auto alone = [&] { return tag_of(key, datagram.first(datagram.size() - 8), from); };
  const bool is_in_train = datagram.size() == train_.segment &&
                           datagram.data() >= train_.bytes.data() &&
                           datagram.data() < train_.bytes.data() + train_.bytes.size();
  if (!is_in_train || datagram[ATP_AT_TYPE] == ATP_JOIN) return alone();
  const auto at = static_cast<std::size_t>(datagram.data() - train_.bytes.data()) / train_.segment;
  if (at < train_.first || at >= train_.first + train_.count) tag_train(key, at);
  return key == train_.key ? train_.tags[at - train_.first] : alone();
}

// Computes the tags of the datagram `first` and of those after it that are of the same job.
void Keyring::tag_train(const PacketKey& key, std::size_t first) {
  const std::size_t most = std::min(kGroup, train_.bytes.size() / train_.segment - first);
  const auto datagram = [&](std::size_t i) {
    return train_.bytes.subspan((first + i) * train_.segment, train_.segment);
  };
  const std::uint32_t job = job_of(datagram(0));
  std::array<const std::uint8_t*, kGroup> datagrams;
  std::size_t count = 0;
  for (; count < most && job_of(datagram(count)) == job; ++count) {
    datagrams[count] = datagram(count).data();
  }
  packet_tags(key, std::span(datagrams).first(count), train_.segment - 8, train_.tags.data());
  train_.first = first;
  train_.count = count;
  train_.key = key;
}

Keyring::Checked Keyring::check(const Endpoint& from, std::span<std::uint8_t> datagram) {
  // The core counts it, and answers another version.
  if (!is_of_this_version(datagram)) return {datagram, true};
  if (!has_tag(datagram)) {
    const bool accepted = needs_no_tag(datagram);
    return {datagram, accepted, accepted ? KeyProblem::kNone : KeyProblem::kNoTag};
  }
  const std::size_t size = datagram.size();
  if (datagram[ATP_AT_TAG_WORDS] != ATP_TAG_WORDS || size < ATP_HEADER_BYTES + ATP_TAG_BYTES) {
    return {without_tag(datagram), false, KeyProblem::kWrongTag};
  }
  const std::uint32_t id = atp_load32(datagram.data() + size - ATP_TAG_BYTES);
  const std::uint32_t job = job_of(datagram);
  const JobEntry* known = entry_of(job);
  const bool is_owner = known != nullptr && known->tenant == id && !known->is_closed;
  const Tenant* tenant = is_owner ? nullptr : find(id);
  if (!is_owner && tenant == nullptr) {
    return {without_tag(datagram), false, KeyProblem::kUnknownKey};
  }
  const JobEntry entry = is_owner ? *known : JobEntry{id, packet_key(tenant->key, job)};
  const std::uint64_t tag = tag_in_train(entry.key, datagram, from);
  const bool right = tag == atp_load64(datagram.data() + size - 8);
  const std::span<std::uint8_t> bytes = without_tag(datagram);
  if (!right) return {bytes, false, KeyProblem::kWrongTag};
  if (is_owner) return {bytes, true};
  const bool is_of_another = known != nullptr && known->tenant != id;
  if (is_of_another && knows_(job)) return {bytes, false, KeyProblem::kOthersJob};
  if (!keep(job, entry)) return {bytes, false, KeyProblem::kNoRoom};
  return {bytes, true};
}

std::size_t Keyring::add_tag(std::span<std::uint8_t> room, std::size_t length,
                             const Endpoint& source) {
  const std::size_t tagged = add_tag_later(room, length, source);
  add_tags();
  return tagged;
}

std::size_t Keyring::add_tag_later(std::span<std::uint8_t> room, std::size_t length,
                                   const Endpoint& source) {
  ATP_CHECK(length >= ATP_HEADER_BYTES && room.size() >= length + ATP_TAG_BYTES);
  if (refuses_key(room.first(length))) return length;
  const std::uint32_t job = job_of(room);
  const JobEntry* entry = entry_of(job);
  if (entry == nullptr && side_ == Side::kRank && !tenants_.empty()) {
    keep(job, {ids_[0], packet_key(tenants_[0].key, job)});
    entry = entry_of(job);
  }
  if (entry == nullptr || entry->is_closed) return length;
  room[ATP_AT_TAG_WORDS] = ATP_TAG_WORDS;
  atp_store32(room.data() + length, entry->tenant);
  const std::size_t hashed = length + 4;
  if (room[ATP_AT_TYPE] == ATP_JOIN) {
    atp_store64(room.data() + hashed, tag_of(entry->key, room.first(hashed), source));
    return length + ATP_TAG_BYTES;
  }
  const bool fits =
      waiting_.count < kGroup && waiting_.length == hashed && waiting_.key == entry->key;
  if (!fits) add_tags();
  waiting_.length = hashed;
  waiting_.key = entry->key;
  waiting_.packets[waiting_.count++] = room.data();
  return length + ATP_TAG_BYTES;
}

void Keyring::add_tags() {
  const std::size_t count = std::exchange(waiting_.count, 0);
  std::array<std::uint64_t, kGroup> tags;
  packet_tags(waiting_.key, std::span<const std::uint8_t* const>(waiting_.packets.data(), count),
              waiting_.length, tags.data());
  for (std::size_t i = 0; i < count; ++i) {
    atp_store64(waiting_.packets[i] + waiting_.length, tags[i]);
  }
}

JobOwner Keyring::owner_of(std::uint32_t job) const {
  const JobEntry* entry = entry_of(job);
  const Tenant* tenant = entry == nullptr ? nullptr : find(entry->tenant);
  return tenant == nullptr ? JobOwner{} : JobOwner{entry->tenant, tenant->quota};
}

std::optional<std::string> Keyring::name_of(std::uint32_t tenant) const {
  const Tenant* found = find(tenant);
  return found == nullptr ? std::nullopt : std::optional(found->name);
}

Keyring::Checked check_without_keys(std::span<std::uint8_t> datagram) {
  if (!is_of_this_version(datagram) || !has_tag(datagram)) return {datagram, true};
  return {without_tag(datagram), false, KeyProblem::kNoKeys};
}

}  // namespace atp
