#pragma once

#include <cstdint>
#include <span>

#include "atp/core/server/members.h"
#include "atp/core/server/server_turn.h"

// Sends one job's messages to its ranks. A message is written once. It goes to each child with an
// addressed rank behind it, detached or not (a PARAMETER releases aggregators there), and directly
// to the ranks that are not attached, because a dead switch forwards nothing (docs/inside/protocol
// §6). Its bitmap names all addressed ranks; a child takes those behind it. The answer to a packet
// that came directly from a worker goes directly back as well.
//
// A Downlink lives for one turn and refers to its arguments; it is never stored.

namespace atp {

class Downlink {
 public:
  Downlink(ServerTurn& turn, const JobTerms& terms, JobMembers& members)
      : turn_(turn), terms_(terms), members_(members) {}

  ServerTurn& turn() { return turn_; }
  const ServerTurn& turn() const { return turn_; }
  const JobMembers& members() const { return members_; }
  // The ranks that announcements go to.
  RankSet present() const { return members_.all() - members_.gone(); }
  // How many datagrams a message to these ranks takes.
  std::size_t paths_to(const RankSet& ranks) const;

  // values: lanes in host byte order, at least as many as the fragment has. Counts the datagrams.
  void parameter(const FragmentName& name, const Fragment& fragment,
                 std::span<const std::uint8_t> values, const RankSet& ranks,
                 const RankSet& straight_too);
  // flags: 0, DIRECT or FLOAT.
  void nack(const FragmentName& name, std::uint8_t flags, const RankSet& ranks,
            const RankSet& straight_too);
  // Goes to the switches above these ranks; workers have no use for it.
  void flush(const FragmentName& name, const RankSet& ranks);

  void status(const FragmentName& name, const StatusMessage& message, const RankSet& ranks,
              const RankSet& straight_too = {});
  void status_to(const Endpoint& to, std::uint8_t flags, const FragmentName& name,
                 const StatusMessage& message, const RankSet& ranks);
  void status_to_switches(const StatusMessage& message);

  StatusMessage waiting_for(const RankSet& missing) const;
  // Adds the endpoints of these ranks in rank order, up to the first unknown one.
  void add_homes(StatusMessage& message) const;
  // Whether a *waiting for* may answer this rank: at most one per answer pause.
  bool may_answer_waiting_for(Rank rank);

 private:
  atp_header header(PacketType type, std::uint8_t flags, const FragmentName& name) const;
  bool write_status(std::uint8_t flags, const FragmentName& name, const StatusMessage& message,
                    const RankSet& ranks);
  std::uint64_t send(const RankSet& ranks, const RankSet& straight_too);

  ServerTurn& turn_;
  const JobTerms& terms_;
  JobMembers& members_;
};

}  // namespace atp
