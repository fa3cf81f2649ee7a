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

// Removes the tag, if there is one, and writes whose packet it is.
std::span<std::uint8_t> without_tag(std::span<std::uint8_t> packet, std::uint16_t tenant = 0) {
  const std::size_t tag = std::size_t{4} * packet[ATP_AT_TAG_WORDS];
  const bool is_valid = packet[ATP_AT_ZERO] == 0;
  atp_store16(packet.data() + ATP_AT_TENANT, is_valid ? tenant : ATP_TENANT_INVALID);
  return packet.first(packet.size() - std::min(tag, packet.size() - ATP_HEADER_BYTES));
}

std::uint64_t job_id(std::uint32_t tenant_id, std::uint32_t job) {
  return std::uint64_t{tenant_id} << 32 | job;
}

}  // namespace

Keyring::Keyring(Side side, std::vector<Tenant> tenants) : side_(side) {
  if (side == Side::kNode) places_.emplace_back();
  ATP_CHECK(replace(std::move(tenants)));
}

Keyring::Keyring(const RankKey& key) : side_(Side::kRank) {
  if (const Tenant* tenant = std::get_if<Tenant>(&key)) ATP_CHECK(replace({*tenant}));
  if (const JobKeys* given = std::get_if<JobKeys>(&key)) {
    places_.push_back({.id = given->tenant, .name = {}, .at = {}});
    for (const auto& [job, own] : given->by_job) jobs_[job_id(given->tenant, job)] = {0, own};
  }
}

Status Keyring::replace(std::vector<Tenant> tenants) {
  ATP_CHECK(side_ == Side::kNode || tenants.size() == 1);
  std::vector<Place> places = places_;
  for (Place& place : places) place.at.reset();
  for (std::size_t i = 0; i < tenants.size(); ++i) {
    const std::string& name = tenants[i].name;
    auto place = std::find_if(places.begin(), places.end(),
                              [&](const Place& one) { return one.name == name; });
    if (place == places.end()) place = places.insert(place, {key_id(name), name, {}});
    place->at = i;
  }
  if (places.size() > ATP_TENANT_INVALID) {
    return Error{"too many tenants: a node can tell 65,534 names apart during its life"};
  }
  places_ = std::move(places);
  tenants_ = std::move(tenants);
  jobs_.clear();
  return ok_status();
}

const Keyring::JobEntry* Keyring::known(JobId job) const {
  const auto entry = jobs_.find(job);
  return entry == jobs_.end() ? nullptr : &entry->second;
}

// Nothing without the tenant's key.
std::optional<Keyring::JobEntry> Keyring::make_entry(JobId job) const {
  const auto place = std::find_if(places_.begin(), places_.end(),
                                  [&](const Place& one) { return one.at && one.id == job >> 32; });
  if (place == places_.end()) return std::nullopt;
  return JobEntry{static_cast<std::uint16_t>(place - places_.begin()),
                  packet_key(tenants_[*place->at].key, static_cast<std::uint32_t>(job))};
}

const Keyring::JobEntry& Keyring::keep(JobId job, const JobEntry& entry) {
  if (jobs_.size() >= kMaxJobs) jobs_.clear();
  return jobs_.insert_or_assign(job, entry).first->second;
}

// To a node, a fragment without a tag is one of a job that it does not have, and so is answered
// with *unknown job*: `atp doctor` probes with them.
bool Keyring::needs_no_tag(std::span<const std::uint8_t> packet) const {
  if (side_ == Side::kRank) return refuses_key(packet);
  return packet[ATP_AT_TYPE] == ATP_GRADIENT || status_code(packet) == StatusCode::kAreYouThere;
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
    return {without_tag(datagram), accepted, accepted ? KeyProblem::kNone : KeyProblem::kNoTag};
  }
  const std::size_t size = datagram.size();
  if (datagram[ATP_AT_TAG_WORDS] != ATP_TAG_WORDS || size < ATP_HEADER_BYTES + ATP_TAG_BYTES) {
    return {without_tag(datagram), false, KeyProblem::kWrongTag};
  }
  const JobId job = job_id(atp_load32(datagram.data() + size - ATP_TAG_BYTES), job_of(datagram));
  const JobEntry* entry = known(job);
  const std::optional<JobEntry> made = entry == nullptr ? make_entry(job) : std::nullopt;
  if (made) entry = &*made;
  if (entry == nullptr) return {without_tag(datagram), false, KeyProblem::kUnknownKey};
  const std::uint64_t tag = tag_in_train(entry->key, datagram, from);
  if (tag != atp_load64(datagram.data() + size - 8)) {
    return {without_tag(datagram), false, KeyProblem::kWrongTag};
  }
  const std::uint16_t tenant = entry->tenant;
  if (made) keep(job, *made);
  return {without_tag(datagram, tenant), true};
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
  const std::uint16_t tenant = atp_load16(room.data() + ATP_AT_TENANT);
  atp_store16(room.data() + ATP_AT_TENANT, 0);
  if (refuses_key(room.first(length))) return length;
  const std::uint32_t id = places_[tenant].id;
  const JobId job = job_id(id, job_of(room));
  const JobEntry* entry = known(job);
  if (entry == nullptr) {
    const std::optional<JobEntry> made = make_entry(job);
    if (!made) return length;
    entry = &keep(job, *made);
  }
  room[ATP_AT_TAG_WORDS] = ATP_TAG_WORDS;
  atp_store32(room.data() + length, id);
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

Quota Keyring::of_tenant(std::uint16_t tenant) const {
  const std::optional<std::size_t> at = places_[tenant].at;
  return at ? tenants_[*at].quota : Quota{};
}

Keyring::Checked check_without_keys(std::span<std::uint8_t> datagram) {
  if (!is_of_this_version(datagram)) return {datagram, true};
  const bool refused = has_tag(datagram);
  return {without_tag(datagram), !refused, refused ? KeyProblem::kNoKeys : KeyProblem::kNone};
}

}  // namespace atp
