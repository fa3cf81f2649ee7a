#include "atp/driver/keys/keyring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "atp/core/outbox.h"
#include "atp/wire/packet_view.h"

namespace atp {
namespace {

using Bytes = std::vector<std::uint8_t>;

const Endpoint kRank = Endpoint::ipv4(10, 0, 0, 1, 4000);
const Endpoint kStranger = Endpoint::ipv4(10, 0, 0, 66, 4000);
constexpr JobKey kJob{7, 1};

Tenant tenant(const std::string& name, std::uint8_t byte, const Quota& quota = {}) {
  Tenant result{.name = name, .quota = quota};
  result.key.fill(byte);
  return result;
}

Bytes bytes_of(const Outbox& out) {
  const auto bytes = out.bytes_of(out.packets()[0]);
  return {bytes.begin(), bytes.end()};
}

Bytes gradient(std::uint32_t job = kJob.job) {
  atp_header header{};
  header.version = ATP_VERSION;
  header.type = ATP_GRADIENT;
  header.bitmap_words = 1;
  header.job = job;
  header.incarnation = 1;
  header.value_count = 3;
  header.hops = ATP_HOPS;
  Bytes bytes(atp_packet_bytes(1, ATP_KIND_SUM_PLAIN, 3));
  write_packet_head(bytes.data(), header, RankSet::of(0));
  return bytes;
}

Bytes join(std::uint32_t job = kJob.job) {
  Outbox out;
  Join body;
  body.world_size = 2;
  body.stream_count = 2;
  put_join(out, {.type = PacketType::kJoin, .job = {job, 1}}, RankSet::of(0), body);
  out.send_to(kRank);
  return bytes_of(out);
}

Bytes status(const StatusMessage& message) {
  Outbox out;
  put_status(out, {.job = kJob}, RankSet::of(0), message);
  out.send_to(kRank);
  return bytes_of(out);
}

Bytes question() {
  StatusMessage message;
  message.code = StatusCode::kAreYouThere;
  return status(message);
}

Bytes refusal(RefusalReason reason, std::uint64_t nonce = 9) {
  return status(StatusMessage::refused({reason, 1}, RankSet::of(0), nonce));
}

// As a node's core sees and sends it.
Bytes of_tenant(std::uint16_t number, Bytes packet) {
  atp_store16(&packet[ATP_AT_TENANT], number);
  return packet;
}

Bytes tagged(Keyring& keys, Bytes packet, const Endpoint& source = kRank) {
  const std::size_t length = packet.size();
  packet.resize(length + ATP_TAG_BYTES);
  packet.resize(keys.add_tag(packet, length, source));
  return packet;
}

Keyring rank_with(const Tenant& own) { return Keyring(RankKey(own)); }
Keyring node_with(std::vector<Tenant> tenants) {
  return {Keyring::Side::kNode, std::move(tenants)};
}

// What check() returns, and the packet that it leaves.
struct Fate {
  bool accepted = false;
  KeyProblem problem = KeyProblem::kNone;
  Bytes packet;
};
Fate fate(Keyring& keys, Bytes datagram, const Endpoint& from = kRank) {
  const Keyring::Checked checked = keys.check(from, datagram);
  return {checked.accepted, checked.problem, {checked.bytes.begin(), checked.bytes.end()}};
}

TEST(Keyring, PacketsArriveAsTheyWereBeforeTheirTag) {
  Keyring rank = rank_with(tenant("vision", 1));
  Keyring node = node_with({tenant("speech", 2), tenant("vision", 1)});
  for (const Bytes& packet : {join(), gradient(), question()}) {
    const Bytes sent = tagged(rank, packet);
    EXPECT_EQ(sent.size(), packet.size() + ATP_TAG_BYTES);
    EXPECT_EQ(sent[ATP_AT_TAG_WORDS], ATP_TAG_WORDS);
    const Fate at_node = fate(node, sent);
    EXPECT_TRUE(at_node.accepted);
    EXPECT_EQ(at_node.packet, of_tenant(2, packet)) << "the second name";
    const Fate back = fate(rank, tagged(node, at_node.packet));
    EXPECT_TRUE(back.accepted);
    EXPECT_EQ(back.packet, packet);
  }
}

// Changes one bit of the tag, of the key's number, or of any byte of the packet.
TEST(Keyring, NoChangedPacketIsAccepted) {
  Keyring rank = rank_with(tenant("vision", 1));
  Keyring node = node_with({tenant("vision", 1)});
  for (const Bytes& packet : {join(), gradient()}) {
    const Bytes sent = tagged(rank, packet);
    for (std::size_t bit = 0; bit < 8 * sent.size(); ++bit) {
      if (bit / 8 == ATP_AT_VERSION) continue;  // answered with *versions*
      Bytes changed = sent;
      changed[bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
      EXPECT_FALSE(fate(node, changed).accepted) << "bit " << bit;
    }
  }
}

// Datagrams of one length, but for the last, one after another as the kernel merges them.
struct Train {
  explicit Train(const std::vector<Bytes>& datagrams) : segment(datagrams[0].size()) {
    for (const Bytes& datagram : datagrams) {
      bytes.insert(bytes.end(), datagram.begin(), datagram.end());
    }
  }
  // What is wrong with each.
  std::vector<KeyProblem> problems(Keyring& keys) {
    keys.begin_train(bytes, segment);
    std::vector<KeyProblem> found;
    for (std::size_t at = 0; at < bytes.size(); at += segment) {
      const std::size_t size = std::min(segment, bytes.size() - at);
      const auto checked = keys.check(kRank, std::span(bytes).subspan(at, size));
      EXPECT_EQ(checked.accepted, checked.problem == KeyProblem::kNone);
      found.push_back(checked.problem);
    }
    return found;
  }
  std::size_t segment;
  Bytes bytes;
};

// A GRADIENT that is `length` bytes long with its tag.
Bytes gradient_of(Keyring& keys, std::uint32_t job, std::size_t length) {
  Bytes bytes = gradient(job);
  bytes.resize(length - ATP_TAG_BYTES);
  return tagged(keys, bytes);
}

TEST(Keyring, ATrainIsCheckedAsItsDatagramsAlone) {
  using enum KeyProblem;
  Keyring vision = rank_with(tenant("vision", 1));
  Keyring speech = rank_with(tenant("speech", 2));
  Keyring stranger = rank_with(tenant("vision", 9));
  const std::size_t length = tagged(vision, join()).size();
  std::vector<Bytes> datagrams;
  std::vector<KeyProblem> expected;
  const auto add = [&](KeyProblem problem, Bytes datagram, int times = 1) {
    datagrams.insert(datagrams.end(), times, datagram);
    expected.insert(expected.end(), times, problem);
  };
  const auto right = [&](int times) { add(kNone, gradient_of(vision, 7, length), times); };
  right(11);
  add(kNone, gradient_of(speech, 8, length));
  right(1);
  add(kWrongTag, gradient_of(stranger, 7, length));
  right(1);
  add(kNone, tagged(vision, join()));
  add(kWrongTag, tagged(vision, join(), kStranger));
  add(kNone, gradient_of(speech, 7, length));
  Bytes untagged = join();
  untagged.resize(length);
  add(kNoTag, untagged);
  right(5);
  add(kNone, gradient_of(speech, 8, length), 2);
  Bytes changed = gradient_of(vision, 7, length);
  changed[length - ATP_TAG_BYTES - 1] ^= 1;
  add(kWrongTag, changed);
  right(1);
  add(kNone, gradient_of(vision, 7, length - 4));  // the last may be shorter

  Keyring node = node_with({tenant("vision", 1), tenant("speech", 2)});
  EXPECT_EQ(Train(datagrams).problems(node), expected);
}

// The next batch of datagrams lies where the last one lay.
TEST(Keyring, NothingIsLeftOfTheTagsOfAnEarlierTrain) {
  Keyring rank = rank_with(tenant("vision", 1));
  Keyring node = node_with({tenant("vision", 1)});
  const std::vector<Bytes> datagrams(6, gradient_of(rank, 7, 200));
  Train train(datagrams);
  EXPECT_EQ(train.problems(node), std::vector(6, KeyProblem::kNone));
  Train forged(datagrams);
  for (std::size_t i = 0; i < 6; ++i) forged.bytes[i * 200 + 150] ^= 1;
  std::copy(forged.bytes.begin(), forged.bytes.end(), train.bytes.begin());
  EXPECT_EQ(train.problems(node), std::vector(6, KeyProblem::kWrongTag));
}

TEST(Keyring, PacketsThatGetTheirTagsTogetherGetTheSame) {
  Keyring rank(RankKey(keys_of_jobs(tenant("vision", 1), std::array{kJob.job, 8U})));
  std::vector<Bytes> packets(11, gradient());
  packets.insert(packets.end(), {gradient(8), gradient(), join(), gradient(9), question()});
  packets.insert(packets.end(), 3, gradient());
  std::vector<Bytes> together = packets;
  std::vector<std::size_t> lengths;
  for (Bytes& packet : together) {
    const std::size_t length = packet.size();
    packet.resize(length + ATP_TAG_BYTES);
    lengths.push_back(rank.add_tag_later(packet, length, kRank));
  }
  rank.add_tags();
  for (std::size_t i = 0; i < packets.size(); ++i) {
    together[i].resize(lengths[i]);
    EXPECT_EQ(together[i], tagged(rank, packets[i])) << i;
  }
}

TEST(Keyring, SaysWhatIsWrong) {
  const struct {
    std::string what;
    Bytes datagram;
    Endpoint from;
    KeyProblem problem;
  } cases[] = {
      {"no tag", join(), kRank, KeyProblem::kNoTag},
      {"a name that the node does not have",
       [] {
         Keyring keys = rank_with(tenant("nobody", 1));
         return tagged(keys, join());
       }(),
       kRank, KeyProblem::kUnknownKey},
      {"another key of the same name",
       [] {
         Keyring keys = rank_with(tenant("vision", 3));
         return tagged(keys, join());
       }(),
       kRank, KeyProblem::kWrongTag},
      {"a JOIN that somebody else has seen and repeats",
       [] {
         Keyring keys = rank_with(tenant("vision", 1));
         return tagged(keys, join());
       }(),
       kStranger, KeyProblem::kWrongTag},
      {"a tag of another size",
       [] {
         Keyring keys = rank_with(tenant("vision", 1));
         Bytes bytes = tagged(keys, join());
         bytes[ATP_AT_TAG_WORDS] = 1;
         return bytes;
       }(),
       kRank, KeyProblem::kWrongTag},
  };
  for (const auto& c : cases) {
    Keyring node = node_with({tenant("vision", 1), tenant("speech", 2)});
    Keyring owner = rank_with(tenant("vision", 1));
    ASSERT_TRUE(fate(node, tagged(owner, gradient())).accepted);
    const Fate found = fate(node, c.datagram, c.from);
    EXPECT_FALSE(found.accepted) << c.what;
    EXPECT_EQ(found.problem, c.problem) << c.what;
    EXPECT_TRUE(parse_packet(found.packet).ok()) << c.what << ": the node reads whom it answers";
  }
}

TEST(Keyring, ANodeWithoutKeysRefusesTagsAndNothingElse) {
  Keyring rank = rank_with(tenant("vision", 1));
  Bytes with = tagged(rank, join());
  const Keyring::Checked refused = check_without_keys(with);
  EXPECT_FALSE(refused.accepted);
  EXPECT_EQ(refused.problem, KeyProblem::kNoKeys);
  EXPECT_TRUE(parse_packet(refused.bytes).ok());
  Bytes without = join();
  EXPECT_TRUE(check_without_keys(without).accepted);
  Bytes cut(ATP_HEADER_BYTES - 1);
  EXPECT_TRUE(check_without_keys(cut).accepted) << "the core counts it";
}

TEST(Keyring, SomePacketsNeedNoTag) {
  const struct {
    std::string what;
    Keyring::Side side;
    Bytes packet;
    bool accepted;
  } cases[] = {
      {"a question to a node", Keyring::Side::kNode, question(), true},
      {"a question to a rank", Keyring::Side::kRank, question(), false},
      {"a refusal because of the key, to a rank", Keyring::Side::kRank,
       refusal(RefusalReason::kKey), true},
      {"one that answers no JOIN", Keyring::Side::kRank, refusal(RefusalReason::kKey, 0), false},
      {"another refusal to a rank", Keyring::Side::kRank, refusal(RefusalReason::kWorldSize),
       false},
      {"a refusal to a node", Keyring::Side::kNode, refusal(RefusalReason::kKey), false},
      {"a GRADIENT to a node", Keyring::Side::kNode, gradient(), true},
      {"a JOIN to a node", Keyring::Side::kNode, join(), false},
      {"a GRADIENT to a rank", Keyring::Side::kRank, gradient(), false},
      {"a STATUS without a body", Keyring::Side::kNode,
       [] {
         Bytes bytes = question();
         bytes.resize(ATP_HEADER_BYTES + 8);
         return bytes;
       }(),
       false},
      {"bytes that are not a packet", Keyring::Side::kNode, Bytes(7), true},
  };
  for (const auto& c : cases) {
    Keyring keys(c.side, {tenant("vision", 1)});
    const Fate found = fate(keys, c.packet);
    EXPECT_EQ(found.accepted, c.accepted) << c.what;
    EXPECT_EQ(found.packet, c.packet) << c.what;
  }
}

TEST(Keyring, ANodeTagsNoRefusalBecauseOfTheKey) {
  Keyring rank = rank_with(tenant("vision", 1));
  Keyring node = node_with({tenant("vision", 1)});
  for (const std::uint16_t number : {0, 1}) {
    const Bytes sent = tagged(node, of_tenant(number, refusal(RefusalReason::kKey)));
    EXPECT_EQ(sent, refusal(RefusalReason::kKey));
  }
  EXPECT_TRUE(fate(rank, tagged(node, of_tenant(1, refusal(RefusalReason::kRoute)))).accepted);
}

// The byte after tag_words must be 0, and the core counts a packet in which it is not.
TEST(Keyring, NobodyWritesATenantsNumberIntoAPacketButADriver) {
  Keyring rank = rank_with(tenant("vision", 1));
  Keyring node = node_with({tenant("vision", 1)});
  for (const Bytes& packet : {gradient(), question(), join()}) {
    for (const bool with_tag : {false, true}) {
      Bytes changed = packet;
      changed[ATP_AT_ZERO] = 1;
      if (with_tag) {
        changed = tagged(rank, packet);
        changed[ATP_AT_ZERO] = 1;
      }
      for (const Fate& found : {fate(node, changed), fate(rank, changed)}) {
        EXPECT_FALSE(parse_packet(found.packet).ok());
      }
      const auto without = check_without_keys(changed);
      EXPECT_FALSE(parse_packet(without.bytes).ok());
    }
  }
}

TEST(Keyring, TenantsMayUseTheSameNumbers) {
  Keyring node = node_with({tenant("vision", 1), tenant("speech", 2)});
  Keyring vision = rank_with(tenant("vision", 1));
  Keyring speech = rank_with(tenant("speech", 2));
  for (const Bytes& packet : {join(), gradient()}) {
    EXPECT_EQ(fate(node, tagged(vision, packet)).packet, of_tenant(1, packet));
    EXPECT_EQ(fate(node, tagged(speech, packet)).packet, of_tenant(2, packet));
    const Bytes to_vision = tagged(node, of_tenant(1, packet));
    const Bytes to_speech = tagged(node, of_tenant(2, packet));
    EXPECT_EQ(fate(vision, to_vision).packet, packet);
    EXPECT_EQ(fate(speech, to_speech).packet, packet);
    EXPECT_FALSE(fate(vision, to_speech).accepted);
    EXPECT_FALSE(fate(speech, to_vision).accepted);
  }
}

TEST(Keyring, ReplacedKeysEndTheJobsOfTenantsThatAreGone) {
  Keyring node = node_with({tenant("vision", 1), tenant("speech", 2)});
  Keyring vision = rank_with(tenant("vision", 1));
  Keyring speech = rank_with(tenant("speech", 2));
  ASSERT_TRUE(fate(node, tagged(vision, join())).accepted);
  ASSERT_TRUE(fate(node, tagged(speech, join())).accepted);
  ASSERT_TRUE(node.replace({tenant("speech", 5), tenant("vision", 1, {.jobs = 3})}));
  EXPECT_EQ(fate(node, tagged(vision, gradient())).packet, of_tenant(1, gradient()))
      << "a name keeps its number, whatever its line";
  EXPECT_EQ(node.of_tenant(1).jobs, 3U) << "new quotas, the same key";
  EXPECT_EQ(fate(node, tagged(speech, gradient())).problem, KeyProblem::kWrongTag);
  Keyring changed = rank_with(tenant("speech", 5));
  EXPECT_TRUE(fate(changed, tagged(node, of_tenant(2, gradient()))).accepted);

  ASSERT_TRUE(node.replace({tenant("speech", 5)}));
  EXPECT_EQ(fate(node, tagged(vision, gradient())).problem, KeyProblem::kUnknownKey);
  EXPECT_EQ(tagged(node, of_tenant(1, gradient())), gradient()) << "no tag of a key that is gone";
  EXPECT_EQ(node.of_tenant(1), Quota{});
  EXPECT_EQ(node.name_of(1), "vision") << "its job may be there for a while";
  EXPECT_TRUE(fate(node, tagged(changed, gradient())).accepted);

  ASSERT_TRUE(node.replace({tenant("other", 1), tenant("vision", 1)}));
  EXPECT_EQ(fate(node, tagged(vision, gradient())).packet, of_tenant(1, gradient()));
  EXPECT_EQ(node.name_of(3), "other");
}

TEST(Keyring, KeepsFewKeysOfJobsAndMakesTheOthersAgain) {
  Keyring node = node_with({tenant("vision", 1)});
  Keyring rank = rank_with(tenant("vision", 1));
  for (std::uint32_t job = 0; job < 10'000; ++job) {
    Keyring probing = rank_with(tenant("vision", 1));
    ASSERT_TRUE(fate(node, tagged(probing, gradient(job))).accepted) << job;
  }
  for (std::uint32_t job = 0; job < 10; ++job) {
    EXPECT_TRUE(fate(rank, tagged(node, of_tenant(1, gradient(job)))).accepted) << job;
  }
}

// Its keys were made by another rank, which has the tenant's file.
TEST(Keyring, ARankWithTheKeysOfItsJobsSpeaksInThemAlone) {
  const Tenant own = tenant("vision", 1);
  Keyring rank(RankKey(keys_of_jobs(own, std::array{kJob.job, 8U})));
  Keyring with_file = rank_with(own);
  Keyring node = node_with({own, tenant("speech", 2)});
  for (const std::uint32_t job : {kJob.job, 8U}) {
    for (const Bytes& packet : {join(job), gradient(job)}) {
      EXPECT_EQ(tagged(rank, packet), tagged(with_file, packet)) << job;
      EXPECT_TRUE(fate(node, tagged(rank, packet)).accepted) << job;
      EXPECT_TRUE(fate(rank, tagged(node, of_tenant(1, packet))).accepted) << job;
    }
  }
  EXPECT_EQ(tagged(rank, join(9)), join(9)) << "it has no key of this job";
  ASSERT_TRUE(fate(node, tagged(with_file, join(9))).accepted);
  EXPECT_EQ(fate(rank, tagged(node, of_tenant(1, join(9)))).problem, KeyProblem::kUnknownKey);
  Keyring speech = rank_with(tenant("speech", 2));
  EXPECT_EQ(fate(rank, tagged(speech, gradient())).problem, KeyProblem::kUnknownKey);
  Keyring wrong = rank_with(tenant("vision", 3));
  EXPECT_EQ(fate(rank, tagged(wrong, gradient())).problem, KeyProblem::kWrongTag);
  EXPECT_EQ(rank.of_tenant(0), Quota{}) << "only nodes have tenants";
}

// Written from docs/inside/protocol §2, *Keys*; the values are Python's hashlib.blake2b, and
// SipHash's reference vectors for the hash itself.
TEST(Mac, AgreesWithOtherImplementations) {
  PacketKey key;
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::uint8_t>(i);
  EXPECT_EQ(packet_tag(key, {}), 0xa3817f04ba25a8e6U);
  TenantKey own;
  own.fill(1);
  EXPECT_NE(packet_key(own, 7), packet_key(own, 8));
}

}  // namespace
}  // namespace atp
