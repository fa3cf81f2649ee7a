#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "atp/base/random.h"
#include "atp/base/rank_set.h"
#include "atp/wire/endpoint.h"
#include "atp/wire/join.h"

namespace atp::sim {

// A packet as an observer of the wire sees it.
struct Packet {
  Endpoint from;
  Endpoint to;
  std::vector<std::uint8_t> bytes;
};

// The packets of an attacker who can send any bytes by UDP: noise, and real packets of the job with
// one to three fields changed. A foreign attacker has an address of its own and no nonce. One at a
// member's address sends only packets that no honest member sends; defending against more would
// need an authentication tag.
class Hostile {
 public:
  using Bytes = std::vector<std::uint8_t>;

  explicit Hostile(std::uint64_t seed) : random_(seed) {}

  // Real packets, to be changed later.
  void capture(const Packet& packet);
  bool has_captured() const { return !captured_.empty(); }

  Bytes noise();
  Bytes foreign();  // a changed real packet
  // A real packet, unchanged; every other time a JOIN.
  Packet captured_packet();
  // A real packet, as an earlier incarnation of the job would have sent it.
  Packet of_an_earlier_life();
  // A packet that no honest member would send from the address of `child`, behind which `own` are.
  Bytes of_a_child(const Endpoint& child, const RankSet& own);
  // The same for control messages: unreadable, for the other direction, or with a nonce that
  // is not the sender's and other fields changed as well.
  Bytes control_of_a_child(const Endpoint& child, const Endpoint& parent);
  // A JOIN of another incarnation of the job whose route returns to a node or leads out of the
  // network: no switch may forward it.
  Bytes join_astray(const Endpoint& child, const Endpoint& parent);
  // The child's own JOIN on this route, as if the rank had moved.
  Bytes join_by(const Endpoint& child, const Endpoint& parent, const Route& route);
  // The child's JOIN on this route, as another socket would send it that claims its rank.
  Bytes phantom_join(const Endpoint& child, const Endpoint& parent, const Route& route);
  // It receives what is sent to the address from which it has sent this JOIN.
  void note_sent(const Packet& join);
  // That JOIN with the proof for which a node asks it in this packet, if it is one.
  std::optional<Packet> proven_join(const Packet& answer) const;
  // From the address of a parent to the ranks behind it: unreadable, or the answer to another JOIN
  // or LEAVE.
  Bytes control_of_a_parent(const RankSet& behind);

 private:
  // Noise from a member's own address, with our version, since any other version would be answered.
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
  std::vector<Packet> sent_;
};

}  // namespace atp::sim
