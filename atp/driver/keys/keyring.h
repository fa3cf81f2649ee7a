#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "atp/core/tenant.h"
#include "atp/driver/keys/key_file.h"
#include "atp/driver/keys/rank_key.h"
#include "atp/wire/endpoint.h"
#include "atp/wire/status.h"

// The tags at the end of a job's packets (docs/inside/protocol §2, *Keys*): the event loop checks
// and removes them before it passes a packet to its node, and adds them to what the node sends. So
// the core sees packets without tags, and the same rules hold with and without keys. What the core
// of a node sees in their place is the tenant's number (ATP_AT_TENANT), which is part of a job's
// key.
//
// Usage, on the loop's thread alone:
//
//   Keyring keys(Keyring::Side::kNode, tenants);
//   const Keyring::Checked checked = keys.check(from, datagram);  // removes the tag
//   const std::size_t length = keys.add_tag(room, length, source);
//
// Several tags take less time than one after another (mac.h). So the loop announces each train of
// datagrams before it passes them to check(), and lets add_tag_later() collect packets, for which
// add_tags() then writes the tags.

namespace atp {

class Keyring final : public Quotas {
 public:
  // A rank has its tenant's key or those of its jobs, and accepts an untagged refusal for want of
  // the right key. A node has the keys of all tenants, and answers untagged questions and probes.
  enum class Side : std::uint8_t { kRank, kNode };

  Keyring(Side side, std::vector<Tenant> tenants);
  // Of a rank.
  explicit Keyring(const RankKey& key);

  // Replaces all keys and quotas of a node. Jobs of tenants that are gone, or whose keys have
  // changed, get no further packet through; quotas apply to jobs that begin from now on. A name
  // keeps its number, so that a job that is still there belongs to nobody else. An error if there
  // have been more names than numbers.
  Status replace(std::vector<Tenant> tenants);

  struct Checked {
    std::span<std::uint8_t> bytes;  // without the tag
    bool accepted = false;
    KeyProblem problem = KeyProblem::kNone;  // why not
  };
  Checked check(const Endpoint& from, std::span<std::uint8_t> datagram);

  // The next datagrams to check lie one after another in `train`, `segment` bytes each but for the
  // last, and nobody changes one before it is checked.
  void begin_train(std::span<const std::uint8_t> train, std::size_t segment);

  // Adds the tag to a packet of `length` bytes at the start of `room`, which has ATP_TAG_BYTES
  // more. Returns the new length: the old one if the packet goes without. `source`: the address
  // that the receiver sees; only a JOIN needs it.
  std::size_t add_tag(std::span<std::uint8_t> room, std::size_t length, const Endpoint& source);
  // The same, but the tag is complete only after add_tags(); until then the packet must not move.
  std::size_t add_tag_later(std::span<std::uint8_t> room, std::size_t length,
                            const Endpoint& source);
  void add_tags();

  Quota of_tenant(std::uint16_t tenant) const override;
  const std::vector<Tenant>& tenants() const { return tenants_; }
  // The name of a node's tenant, present or past.
  const std::string& name_of(std::uint16_t tenant) const { return places_[tenant].name; }

 private:
  // A tenant's place in the list is its number. Number 0 stands for no key on a node, and on a rank
  // for its own tenant, which the core need not know there.
  struct Place {
    std::uint32_t id = 0;  // key_id() of the name
    std::string name;
    std::optional<std::size_t> at;  // in tenants_; nothing if it is gone
  };
  struct JobEntry {
    std::uint16_t tenant = 0;
    PacketKey key{};
  };
  // Only packets with a right tag make entries, so a stranger cannot fill the table. If it is full,
  // it is emptied: it only saves the time to make a job's key again.
  static constexpr std::size_t kMaxJobs = 4096;
  using JobId = std::uint64_t;              // the tenant's key_id(), then the job's number
  static constexpr std::size_t kGroup = 8;  // tags computed at a time

  // A train, and the tags of some of its datagrams, computed with one key.
  struct Train {
    std::span<const std::uint8_t> bytes;
    std::size_t segment = 0;
    std::size_t first = 0;  // the first datagram with a tag in `tags`
    std::size_t count = 0;
    PacketKey key{};
    std::array<std::uint64_t, kGroup> tags{};
  };
  // Packets of one length that wait for tags with one key.
  struct Waiting {
    std::array<std::uint8_t*, kGroup> packets{};
    std::size_t count = 0;
    std::size_t length = 0;
    PacketKey key{};
  };

  const JobEntry* known(JobId job) const;
  std::optional<JobEntry> make_entry(JobId job) const;
  const JobEntry& keep(JobId job, const JobEntry& entry);
  bool needs_no_tag(std::span<const std::uint8_t> packet) const;
  std::uint64_t tag_in_train(const PacketKey& key, std::span<const std::uint8_t> datagram,
                             const Endpoint& from);
  void tag_train(const PacketKey& key, std::size_t first);

  const Side side_;
  std::vector<Tenant> tenants_;  // none on a rank that has only its jobs' keys
  std::vector<Place> places_;
  std::unordered_map<JobId, JobEntry> jobs_;
  Train train_;
  Waiting waiting_;
};

// For a node without keys: accepts packets without a tag, and refuses one with a tag, which it
// removes.
Keyring::Checked check_without_keys(std::span<std::uint8_t> datagram);

}  // namespace atp
