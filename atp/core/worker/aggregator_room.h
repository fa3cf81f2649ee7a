#pragma once

#include <cstdint>

// How many fragments a worker may have in flight to one server, over all its streams, while
// aggregators are scarce (docs/inside/protocol §5, *Room*). The first answer says how many
// aggregators the job may have. COLLISION in the answers bounds the room, enough answers without
// lift the bound again, and it is never much less than the job's part of the aggregators. The
// congestion window counts bytes on links; this counts fragments, because each takes one
// aggregator, whatever its size.

namespace atp {

class AggregatorRoom {
 public:
  static constexpr std::uint64_t kLeast = 2;
  static constexpr std::uint64_t kFirst = 32;
  static constexpr std::uint64_t kCleanRounds = 24;
  static constexpr std::uint64_t kCleanRoundsWithoutPart = 6;
  static constexpr std::uint64_t kNoBound = ~std::uint64_t{0};

  AggregatorRoom() = default;  // without a bound for ever
  // `most`: what all streams together can have in flight. `servers`: how many share the job's part
  // of the aggregators.
  explicit AggregatorRoom(std::uint64_t most, std::uint64_t servers = 1)
      : most_(most), servers_(servers) {
    if (most > kFirst) fragments_ = kFirst;
    is_first_ = bounded();
  }

  bool bounded() const { return fragments_ != kNoBound; }
  std::uint64_t fragments() const { return fragments_; }

  // An answer says this about the job's part of the aggregators (docs/inside/protocol §3, *Header*,
  // rule 8; 0: nothing).
  void on_part(std::uint8_t said) {
    if (said != said_ && said != 0) change_part(said);
  }
  // A fragment was sent for the first time.
  void on_send() { answered_since_send_ = 0; }
  // An answer came, after which in_flight() fragments are in flight. Returns whether it cut the
  // room. in_flight() is called only where it matters: it costs more than all the rest.
  template <typename InFlight>
  bool on_answer(bool collided, const InFlight& in_flight) {
    ++answered_since_send_;
    if (bounded() && is_first_) lift();
    if (!bounded()) return collided && bound(in_flight());
    return ends_round(collided) && end_round(in_flight());
  }

  bool operator==(const AggregatorRoom&) const = default;

 private:
  void change_part(std::uint8_t said);
  void set(std::uint64_t fragments);
  void lift();
  bool bound(std::uint64_t in_flight);
  bool ends_round(bool collided);
  bool end_round(std::uint64_t in_flight);

  std::uint64_t most_ = 0;  // 0: no bound for ever
  std::uint64_t servers_ = 1;
  bool is_first_ = false;  // nothing has been answered yet
  std::uint8_t said_ = 0;
  std::uint64_t fragments_ = kNoBound;
  std::uint64_t answered_since_send_ = 0;
  std::uint64_t ignored_ = 0;       // answers to come that are to fragments sent before the cut
  std::uint64_t answered_ = 0;      // in this round
  std::uint64_t collided_ = 0;      // of them
  std::uint64_t clean_rounds_ = 0;  // in a row, since the room last grew
};

}  // namespace atp
