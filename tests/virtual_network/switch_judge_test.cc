#include "atp/sim/switch_judge.h"

#include <gmock/gmock.h>

#include <functional>

#include "atp/core/dataplane/switch_rig_test.h"

// The objections of a switch's judge: an honest switch takes a turn, but the judge is told about
// another packet, or that something else was sent.

namespace atp::sim {
namespace {

using namespace atp::rig;
using testing::HasSubstr;
using testing::IsEmpty;

using SentPackets = std::vector<Sent>;
using Lie = std::function<void(SentPackets&)>;

class Court {
 public:
  void take(const Endpoint& from, const Bytes& bytes, const Lie& lie = {}) {
    take(from, bytes, bytes, lie);
  }
  // The switch gets one packet, and the judge is told about another. A JOIN comes twice: the answer
  // to the first one says what the second one has to prove.
  void take(const Endpoint& from, const Bytes& bytes, const Bytes& told, const Lie& lie = {}) {
    if (bytes[ATP_AT_TYPE] == ATP_JOIN) take_as_is(from, bytes, told);
    take_as_is(from, with_proof(from, bytes), with_proof(from, told), lie);
  }
  void take_as_is(const Endpoint& from, const Bytes& bytes, const Bytes& told,
                  const Lie& lie = {}) {
    judge.begin(rig_.node, bytes);
    SentPackets sent = rig_.in_as_is(from, bytes);
    if (lie) lie(sent);
    Outbox out;
    for (const Sent& packet : sent) out.send(packet.to, packet.bytes);
    judge.end_packet(rig_.now, from, told, rig_.node, out);
  }
  void join_all() {
    for (unsigned rank = 0; rank < 4; ++rank) {
      take(child(rank), join(rank));
      take(kServer, ack_of(rank, nonce(rank)));
    }
  }
  static Bytes ack_of(unsigned rank, std::uint64_t with_nonce) {
    JoinAck ack = ack_body();
    ack.nonce = with_nonce;
    return join_ack(RankSet::of(static_cast<Rank>(rank)), ack);
  }
  // Rank 3 has left, and another socket wants its place.
  void apply_for_rank_3() {
    take(child(3), leave(3, nonce(3)));
    Join next = join_body(3);
    next.nonce = 4242;
    take(kStranger, join(3, next));
  }
  void let_pass(Duration time) {
    const Instant end = rig_.now + time;
    while (rig_.node.next_timeout() <= end) {
      rig_.now = std::max(rig_.now, rig_.node.next_timeout());
      judge.begin(rig_.node, {});
      Outbox out;
      rig_.node.handle_timeout(rig_.now, out);
      judge.end_timeout(rig_.now, rig_.node, out);
    }
    rig_.now = end;
  }

  Bytes with_proof(const Endpoint& from, const Bytes& bytes) const {
    return proven(rig_.secret, from, bytes);
  }

  SwitchJudge judge{config(), kOwn, kWmax};

 private:
  Rig rig_;
};

Bytes of_all_but_the_last(std::uint64_t sequence, unsigned flags = 0) {
  return gradient(ranks({0}), sequence, 3, flags);
}

TEST(SwitchJudge, AcceptsAnHonestSwitch) {
  Court court;
  court.join_all();
  for (std::uint64_t sequence = 0; sequence < 40; ++sequence) {
    for (unsigned rank = 0; rank < 4; ++rank) {
      if (sequence % 5 == 1 && rank == 2) continue;
      const bool asks = sequence % 7 == 2 && rank == 3;
      court.take(child(rank), gradient(RankSet::of(static_cast<Rank>(rank)), sequence, 3,
                                       asks ? 1U * ATP_FLAG_RESEND : 0U));
    }
    court.take(kServer, bare(PacketType::kFlush, ranks({2}), sequence));
    court.take(kStranger, parameter(RankSet::first(4), sequence));
    if (sequence % 3 != 0) court.take(kServer, parameter(RankSet::first(4), sequence));
  }
  court.take(child(1), leave(1, nonce(2)));
  court.take(child(1), leave(1, nonce(1)));
  court.let_pass(std::chrono::seconds(7));
  EXPECT_THAT(court.judge.violations(), IsEmpty());
}

struct Case {
  const char* name;
  std::function<void(Court&)> act;
  const char* objection;
};

void flip_flags(SentPackets& sent, unsigned flags) {
  for (Sent& one : sent) one.bytes[ATP_AT_FLAGS] ^= static_cast<std::uint8_t>(flags);
}

void complete(Court& court, const Lie& lie) {
  for (unsigned rank = 0; rank < 3; ++rank) {
    court.take(child(rank), gradient(RankSet::of(static_cast<Rank>(rank)), 0, 3));
  }
  court.take(child(3), gradient(ranks({3}), 0, 3), lie);
}

Bytes prove(std::uint64_t proof, unsigned rank) {
  const RankSet set = RankSet::of(static_cast<Rank>(rank));
  return status(set, StatusMessage::prove(proof, set, nonce(rank)));
}

Bytes with_proof(Bytes join, std::uint64_t proof) {
  atp_store64(&join[atp_body_offset(1) + join_field::kProof.offset], proof);
  return join;
}

// The same packet with another index.
Bytes at_index(Bytes bytes, std::uint32_t index) {
  atp_store32(&bytes[ATP_AT_AGGREGATOR_INDEX], index);
  return bytes;
}

Bytes with_part_1(std::uint64_t sequence) {
  Bytes bytes = parameter(ranks({0}), sequence);
  bytes[ATP_AT_PART] = 1;
  return bytes;
}

TEST(SwitchJudge, ObjectsToDeviationsFromThePage) {
  const Case cases[] = {
      {"a sum does not leave",
       [](Court& c) { complete(c, [](SentPackets& sent) { sent.clear(); }); },
       "stayed that should have left"},
      {"a sum lacks a rank",
       [](Court& c) {
         complete(c, [](SentPackets& sent) { sent[0].bytes[ATP_AT_BITMAP + 7] &= 7; });
       },
       "left for other ranks"},
      {"a sum has as many hops left as its contributions",
       [](Court& c) { complete(c, [](SentPackets& sent) { ++sent[0].bytes[ATP_AT_HOPS]; }); },
       "the wrong hop count"},
      {"a sum has another magnitude",
       [](Court& c) { complete(c, [](SentPackets& sent) { ++sent[0].bytes[ATP_AT_MAGNITUDE]; }); },
       "another magnitude"},
      {"a sum goes to a child",
       [](Court& c) { complete(c, [](SentPackets& sent) { sent[0].to = child(1); }); },
       "elsewhere than to the parent"},
      {"a sum is of another fragment",
       [](Court& c) { complete(c, [](SentPackets& s) { ++s[0].bytes[ATP_AT_SEQUENCE + 7]; }); },
       "as another fragment"},
      {"a partial sum leaves without RESEND",
       [](Court& c) {
         c.take(child(0), of_all_but_the_last(0));
         c.take(kServer, bare(PacketType::kFlush, ranks({1}), 0),
                [](SentPackets& sent) { flip_flags(sent, ATP_FLAG_RESEND); });
       },
       "left with flags"},
      {"a packet that must pass is consumed",
       [](Court& c) {
         c.take(child(0), of_all_but_the_last(0), of_all_but_the_last(0, ATP_FLAG_DIRECT));
       },
       "forwarded_direct rose by 0 instead of 1"},
      {"an aggregator is kept after its PARAMETER",
       [](Court& c) {
         c.take(child(0), of_all_but_the_last(0));
         c.take(kServer, parameter(RankSet::first(4), 9), parameter(RankSet::first(4), 0));
       },
       "aggregators are in use instead of 0"},
      {"what has returned is noted at another home",
       [](Court& c) {
         const Bytes bytes = parameter(RankSet::first(4), 0);
         c.take(kServer, at_index(bytes, 0), at_index(bytes, 1U << 31));
         c.take(child(0), at_index(of_all_but_the_last(0), 1U << 31));
       },
       "forwarded_late rose by 0 instead of 1"},
      {"a fragment takes more places than there are",
       [](Court& c) {
         SwitchConfig one_place = config();
         one_place.places = 1;
         c.judge = SwitchJudge{one_place, kOwn, kWmax};
         c.take(child(0), at_index(of_all_but_the_last(0), 0));
         c.take(child(0), at_index(of_all_but_the_last(1), 0));
       },
       "collisions rose by 0 instead of 1"},
      {"a job holds more than its quota",
       [](Court& c) {
         SwitchConfig with_quota = config();
         with_quota.sharing.quota = 1;
         c.judge = SwitchJudge{with_quota, kOwn, kWmax};
         c.take(child(0), of_all_but_the_last(0));
         c.take(child(0), of_all_but_the_last(1));
       },
       "forwarded_over_quota rose by 0 instead of 1"},
      {"a rank becomes a member although another socket's JOIN was acknowledged",
       [](Court& c) {
         c.apply_for_rank_3();
         c.take(kServer, Court::ack_of(3, 4242), Court::ack_of(3, 4243));
       },
       "a rank became a member without a JOIN_ACK"},
      {"a rank becomes none although its JOIN was acknowledged",
       [](Court& c) {
         c.apply_for_rank_3();
         c.take(kServer, Court::ack_of(3, 4243), Court::ack_of(3, 4242));
       },
       "a JOIN_ACK did not make its rank a member"},
      {"a PARAMETER goes to a rank that only wants to join",
       [](Court& c) {
         c.apply_for_rank_3();
         c.take(kServer, parameter(ranks({0}), 0),
                [](SentPackets& sent) { sent.push_back({kStranger, sent[0].bytes}); });
       },
       "went to 2 children instead of 1"},
      {"a JOIN for another switch is forwarded",
       [](Court& c) {
         Join astray = join_body(0);
         astray.remaining.clear();
         astray.remaining.push_back(Endpoint::ipv4(10, 0, 0, 2, 5501));
         astray.remaining.push_back(kServer);
         c.take(child(0), join(0), join(0, astray));
       },
       "a JOIN that was meant for another node was forwarded"},
      {"a PARAMETER goes to a child that is not addressed",
       [](Court& c) {
         c.take(kServer, parameter(ranks({0}), 0),
                [](SentPackets& sent) { sent.push_back({child(1), sent[0].bytes}); });
       },
       "went to 2 children instead of 1"},
      {"a PARAMETER is forwarded with another flag",
       [](Court& c) {
         c.take(kServer, parameter(ranks({0}), 0),
                [](SentPackets& sent) { flip_flags(sent, ATP_FLAG_ECN); });
       },
       "was changed"},
      {"a PARAMETER says another part than the job's",
       [](Court& c) {
         c.take(kServer, parameter(ranks({0}), 0),
                [](SentPackets& sent) { --sent[0].bytes[ATP_AT_PART]; });
       },
       "with the part 47 instead of 48"},
      {"a PARAMETER says a larger part than the one that came",
       [](Court& c) { c.take(kServer, parameter(ranks({0}), 0), with_part_1(0)); },
       "with the part 48 instead of 1"},
      {"a PARAMETER says a larger part than the quota",
       [](Court& c) {
         SwitchConfig with_quota = config();
         with_quota.sharing.quota = 10;
         c.judge = SwitchJudge{with_quota, kOwn, kWmax};
         c.take(kServer, parameter(ranks({0}), 0));
       },
       "with the part 48 instead of 10"},
      {"a PARAMETER's part is changed although jobs have none",
       [](Court& c) {
         SwitchConfig first_come = config();
         first_come.sharing.first_come = true;
         c.judge = SwitchJudge{first_come, kOwn, kWmax};
         c.take(kServer, parameter(ranks({0}), 0));
       },
       "with the part 48 instead of 0"},
      {"a stranger's PARAMETER is forwarded",
       [](Court& c) {
         const Bytes bytes = parameter(ranks({0}), 0);
         c.take(kStranger, bytes,
                [&](SentPackets& sent) { sent.push_back({child(0), one_hop_on(bytes)}); });
       },
       "a downward message not from the parent was accepted"},
      {"a packet without hops left is forwarded",
       [](Court& c) {
         Bytes bytes = of_all_but_the_last(0, ATP_FLAG_DIRECT);
         bytes[ATP_AT_HOPS] = 0;
         c.take(child(0), bytes, [&](SentPackets& sent) { sent.push_back({kServer, bytes}); });
       },
       "may go no further"},
      {"a JOIN is forwarded with a K that there is no room for",
       [](Court& c) { c.take(child(0), join(0), [](SentPackets& s) { s[0].bytes = join(0); }); },
       "a K that is not the lower of its own and the switch's"},
      {"a JOIN does not name the switch that it has passed",
       [](Court& c) { c.take(child(0), join(0), [](SentPackets& s) { s[0].bytes = join(0); }); },
       "with a wrong route"},
      {"a twin's JOIN is forwarded",
       [](Court& c) {
         Join twin = join_body(0);
         twin.nonce = 5;
         Bytes relayed;
         c.take(child(0), join(0), [&](SentPackets& sent) { relayed = sent[0].bytes; });
         c.take(child(1), join(0, twin),
                [&](SentPackets& sent) { sent.push_back({kServer, relayed}); });
       },
       "a rank that another socket holds"},
      {"a JOIN is not forwarded",
       [](Court& c) { c.take(child(0), join(0), [](SentPackets& s) { s.clear(); }); },
       "a JOIN was not forwarded"},
      {"the first JOIN of a job is not forwarded",
       [](Court& c) {
         Bytes bytes = join(0);
         bytes[ATP_AT_INCARNATION + 3] ^= 1;
         c.take(child(0), bytes, [](SentPackets& sent) { sent.clear(); });
       },
       "a JOIN was not forwarded"},
      {"a JOIN without a proof is forwarded",
       [](Court& c) { c.take_as_is(child(0), c.with_proof(child(0), join(0)), join(0)); },
       "a JOIN without a right proof counted"},
      {"a JOIN with another's proof changes a tree",
       [](Court& c) {
         c.let_pass(std::chrono::milliseconds(1));
         c.take_as_is(child(0), c.with_proof(child(0), join(0)), c.with_proof(child(1), join(0)),
                      [](SentPackets& sent) { sent = {{child(0), prove(7, 0)}}; });
       },
       "a JOIN without a right proof changed a tree"},
      {"a JOIN with a right proof is turned away",
       [](Court& c) { c.take_as_is(child(0), join(0), c.with_proof(child(0), join(0))); },
       "a JOIN with a right proof was answered with *prove*"},
      {"a *prove* goes elsewhere than to the sender",
       [](Court& c) {
         c.take_as_is(child(0), join(0), join(0), [](SentPackets& s) { s[0].to = child(1); });
       },
       "*prove* did not answer its JOIN"},
      {"a sender is told another proof than before",
       [](Court& c) {
         c.take_as_is(child(0), join(0), join(0), [](SentPackets& s) { s[0].bytes = prove(7, 0); });
       },
       "a sender was told two proofs"},
      {"two senders are told one proof",
       [](Court& c) {
         Bytes bytes;
         c.take_as_is(child(1), join(1), join(1), [&](SentPackets& s) { bytes = s[0].bytes; });
         c.take_as_is(kStranger, join(1), join(1), [&](SentPackets& s) { s[0].bytes = bytes; });
       },
       "two senders were told the same proof"},
      {"a sender that has proven nothing gets a PARAMETER",
       [](Court& c) {
         c.take(kServer, parameter(ranks({0}), 0),
                [](SentPackets& sent) { sent[0].to = kStranger; });
       },
       "a packet went to an address that has not proven itself"},
      {"a JOIN is forwarded with the child's proof",
       [](Court& c) {
         c.take(child(0), join(0),
                [&](SentPackets& sent) { sent[0].bytes = with_proof(sent[0].bytes, 9); });
       },
       "a proof that is not the parent's"},
      {"what the parent has told is forgotten",
       [](Court& c) {
         c.take(kServer, prove(9, 0));
         c.take(child(0), join(0), [](SentPackets& s) { s[0].bytes = with_proof(s[0].bytes, 0); });
       },
       "a proof that is not the parent's"},
      {"the parent's *prove* is lost",
       [](Court& c) { c.take(kServer, prove(9, 0), [](SentPackets& s) { s.clear(); }); },
       "*prove* led to 0 packets"},
      {"the parent's *prove* goes to another child",
       [](Court& c) { c.take(kServer, prove(9, 0), [](SentPackets& s) { s[0].to = child(1); }); },
       "not passed on to the child whose JOIN it answers"},
      {"the parent's proof is passed down",
       [](Court& c) {
         c.take(kServer, prove(9, 0), [](SentPackets& s) { s[0].bytes = prove(9, 0); });
       },
       "a child was told another proof than its own"},
      {"a LEAVE is not forwarded",
       [](Court& c) {
         c.take(child(0), leave(0, nonce(0)), [](SentPackets& sent) { sent.clear(); });
       },
       "a LEAVE was not forwarded"},
      {"a LEAVE with another nonce is forwarded",
       [](Court& c) {
         const Bytes bytes = leave(0, nonce(1));
         c.take(child(0), bytes,
                [&](SentPackets& sent) { sent.push_back({kServer, one_hop_on(bytes)}); });
       },
       "another rank's LEAVE"},
  };
  for (const Case& c : cases) {
    Court court;
    court.join_all();
    ASSERT_THAT(court.judge.violations(), IsEmpty()) << c.name;
    c.act(court);
    EXPECT_THAT(court.judge.violations(), testing::Contains(HasSubstr(c.objection))) << c.name;
  }
}

}  // namespace
}  // namespace atp::sim
