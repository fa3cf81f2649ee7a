#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "atp/base/random.h"
#include "atp/base/rank_set.h"
#include "atp/wire/endpoint.h"
#include "atp/wire/join.h"

namespace atp::sim {

// A packet as whoever watches the wire sees it.
struct Packet {
  Endpoint from;
  Endpoint to;
  std::vector<std::uint8_t> bytes;
};

// What an enemy sends who can put any bytes into a UDP packet: noise, and real packets of the job
// with one to three fields changed. A foreign enemy has an address of its own and knows no nonce;
// one at a member's own address sends only what no honest member sends. What a forger with a
// member's address can do beyond that needs an authentication tag.
class Hostile {
 public:
  using Bytes = std::vector<std::uint8_t>;

  explicit Hostile(std::uint64_t seed) : random_(seed) {}

  // Real packets, to be changed later.
  void capture(const Packet& packet);
  bool has_captured() const { return !captured_.empty(); }

  Bytes noise();
  Bytes foreign();  // a changed real packet
  // A real packet as an earlier incarnation of the job would have sent it.
  Packet of_an_earlier_life();
  // What no honest member would send from the address of `child`, behind which `own` stand.
  Bytes of_a_child(const Endpoint& child, const RankSet& own);
  // Control messages likewise: unreadable, for the other direction, or with a nonce that isn't the
  // sender's and other fields changed as well.
  Bytes control_of_a_child(const Endpoint& child, const Endpoint& parent);
  // A JOIN of another start of the job by a route that comes back to where it was, or leads out of
  // the network: nobody may follow it.
  Bytes join_astray(const Endpoint& child, const Endpoint& parent);
  // Its own JOIN, but by this route: as if the rank had moved.
  Bytes join_by(const Endpoint& child, const Endpoint& parent, const Route& route);
  // And from the address of a parent to those behind it: unreadable, or the answer to another's
  // JOIN or LEAVE.
  Bytes control_of_a_parent(const RankSet& behind);

 private:
  // From a member's own address, which would hear of it if the version were another.
  Bytes noise_of_a_member();
  Bytes captured();
  template <class Change>
  Bytes changed_join(const Endpoint& child, const Endpoint& parent, Change&& change);
  Bytes captured_gradient(const Endpoint& from);
  const Bytes& any_of(const std::vector<Bytes>& kept);
  void change_field(Bytes& bytes);
  void change_length(Bytes& bytes);

  Random random_;
  std::vector<Packet> captured_;
  std::map<Endpoint, std::vector<Bytes>> gradients_;                   // by sender
  std::map<std::pair<Endpoint, Endpoint>, std::vector<Bytes>> joins_;  // by sender and receiver
  std::vector<Bytes> controls_;
  std::size_t next_ = 0;
};

}  // namespace atp::sim
