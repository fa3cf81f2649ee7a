#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "atp/core/dataplane/switch_node.h"
#include "atp/core/outbox.h"
#include "atp/sim/proof_judge.h"

namespace atp::sim {

// Executes docs/inside/protocol §4 next to a switch, from the switch's packets and from which ranks
// are behind whom, and reports every deviation: the deciding row of the table, the ranks and flags
// of what went up, the receivers of downward messages, the path of a JOIN. It is written from the
// page and shares no rule with the product. It ignores values, which the oracle checks.
class SwitchJudge {
 public:
  SwitchJudge(const SwitchConfig& config, const Endpoint& own, std::uint32_t wmax)
      : config_(config), own_(own), wmax_(wmax) {}

  // Call begin() before a turn of the switch with these bytes (none: a timer), and one of the
  // others after it.
  void begin(const SwitchNode& node, std::span<const std::uint8_t> bytes);
  void end_packet(Instant now, const Endpoint& from, std::span<const std::uint8_t> bytes,
                  const SwitchNode& node, const Outbox& out);
  void end_timeout(Instant now, const SwitchNode& node, const Outbox& out);

  // The switch has forgotten everything.
  void begin_anew();

  const std::vector<std::string>& violations() const { return violations_; }

 private:
  // What an aggregator must hold, given the packets so far.
  struct Cell {
    bool aggregating = false;
    Identity identity;        // of the fragment that it holds
    std::uint32_t index = 0;  // of that fragment
    RankSet ranks;
    std::uint8_t flags = 0;
    std::uint8_t hops = 0;
    std::uint8_t kind = 0;
    std::uint16_t value_count = 0;
    std::uint32_t magnitude = 0;
    Instant used{};
  };
  // About the fragments whose home an aggregator is.
  struct Notes {
    std::optional<Identity> returned;
    std::optional<Identity> passed;
  };
  using JobOfTenant = std::pair<std::uint32_t, std::uint16_t>;
  using StreamKey = std::pair<JobKey, std::uint16_t>;

  struct Turn {
    Instant now;
    const Endpoint& from;
    const PacketView& packet;
    const SwitchNode& node;
    const Outbox& out;
    const Tree* tree = nullptr;  // of the packet's stream
    atp_share share{};
  };
  // A GRADIENT that must leave.
  struct Sum {
    Identity identity;
    RankSet ranks;
    std::uint8_t flags = 0;
    std::uint8_t hops = 0;
    std::uint32_t magnitude = 0;
    Endpoint parent;
  };
  // The deciding row, by its counter, and the packet that leaves.
  struct Row {
    SwitchCounter counter;
    std::optional<Sum> sum = std::nullopt;
  };

  // switch_judge.cc: the table, and the messages that release
  void judge_gradient(const Turn& turn);
  Row row_of(const Turn& turn);
  std::optional<SwitchCounter> drop_of(const Turn& turn) const;
  std::optional<SwitchCounter> way_past(const Turn& turn) const;
  Row meet_same(const Turn& turn, Cell& cell);
  Row meet_other(const Turn& turn, Cell& cell);
  void claim(const Turn& turn, Cell& cell);
  void judge_parameter(const Turn& turn);
  bool judge_flush(const Turn& turn);
  bool is_beyond_limit(const Turn& turn) const;
  bool is_expired(const Cell& cell, Instant now) const;

  // switch_judge_places.cc: where a fragment may be, what is noted at its home, and who may claim
  // Whether the cell is the fragment's, perhaps for another operation.
  static bool has_fragment(const Cell& cell, const Identity& identity);
  // Whether what is noted is later in the identity's stream.
  static bool is_later(const std::optional<Identity>& noted, const Identity& identity);
  Cell& aggregator_of(const Turn& turn);
  Notes& notes_of(const Turn& turn);
  static void note_return(Notes& notes, const Identity& identity);
  void release(const Turn& turn, Cell& cell);
  // Another fragment than that of a packet.
  void release_other(const SwitchNode& node, Cell& cell);
  void make_empty(Cell& cell);
  bool holds_its_quota(const JobKey& job) const;
  bool has_parts() const;
  std::uint64_t part_of(const JobKey& job) const;
  bool holds_its_part(const JobKey& job) const;
  std::uint8_t part_said(const Turn& turn) const;
  void note_active(const JobKey& job);
  void count_claim();
  std::uint64_t held_by(const JobKey& job) const;
  std::uint64_t held_by_all() const;

  // switch_judge_members.cc: JOIN, LEAVE, and which ranks are behind whom
  void judge_join(const Turn& turn);
  bool judge_proof(const Turn& turn, const std::optional<Join>& came);
  void judge_proof_of_own(const Turn& turn, const Join& went, const Endpoint& to);
  void judge_prove(const Turn& turn, const Tree& before, const StatusMessage& status);
  void judge_route(const Join& came, const Join& went, const Turn& turn, const Endpoint& to);
  bool must_pass(const Turn& turn, const Join& join) const;
  bool has_socket_of_its_own(const Turn& turn, const Join& join) const;
  bool may_follow(const Turn& turn, const Join& join) const;
  bool has_plenty(std::uint16_t tenant, const Join& join) const;
  void expect_room(const SwitchNode& node);
  void expect_member(const Turn& turn, const Join& join);
  void expect_applicant(const Turn& turn, const Join& join);
  void expect_no_phantom(const Turn& turn);
  void judge_detached(const Turn& turn, const Tree& before);
  const Member* member_before(const Turn& turn) const;
  void judge_leave(const Turn& turn);

  // switch_judge_turns.cc: turns, and messages that only pass
  void judge_downward(const Turn& turn);
  void judge_question(const Turn& turn);
  void expect_copies(const Turn& turn, const Tree& tree);
  void add_applicants(const Turn& turn, const Tree& tree, std::vector<Endpoint>& wanted) const;
  const Tree* tree_before(const PacketView& packet) const;
  void add_swept(const SwitchNode& node, const Cell& cell, std::vector<Sum>& leaving);
  void forget_limits(const SwitchNode& node);
  void expect_separate_regions(const SwitchNode& node);
  void expect_sums(Instant now, const Outbox& out, const std::vector<Sum>& wanted);
  bool meets_congestion(Instant now, std::size_t bytes);
  void expect_in_use(const SwitchNode& node);
  void expect(const SwitchNode& node, SwitchCounter counter, std::uint64_t times);
  void object(const std::string& what);

  SwitchConfig config_;
  Endpoint own_;  // the address of the switch
  std::uint32_t wmax_;
  std::map<std::uint32_t, Cell> cells_;   // by slot; missing: EMPTY
  std::map<std::uint32_t, Notes> notes_;  // by slot of the home
  std::map<JobOfTenant, std::uint64_t> held_;
  std::uint64_t contested_ = 0;                     // for so many claims
  std::uint64_t period_ = 1;                        // its number
  std::uint64_t claims_ = 0;                        // in this period
  std::map<JobOfTenant, std::uint64_t> active_in_;  // the last period in which a job was active
  std::map<StreamKey, std::uint64_t> highest_parameter_;  // once a JOIN_ACK has given Wmax
  ProofJudge proofs_;
  // What a parent has told this switch, by the tree's first stream.
  struct Told {
    Endpoint parent;
    std::uint64_t proof = 0;
  };
  std::map<StreamKey, Told> told_by_parent_;
  Instant queue_empty_at_{};  // the virtual queue of the uplink
  Counters<SwitchCounter> before_;
  std::vector<Tree> trees_before_;  // for a turn that may change them
  Instant sweep_at_{};
  static constexpr std::size_t kMaxViolations = 5;
  std::vector<std::string> violations_;
};

}  // namespace atp::sim
