// Moves data over the connections, and hears what comes in.
#include "atp/collective/peer/engine.h"

#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace atp {

PeerEngine::PeerEngine(const PeerOptions& options, std::shared_ptr<const TcpListener> listener,
                       std::vector<Endpoint> addresses, Poller& poller)
    : options_(options),
      poller_(poller),
      links_(options_, std::move(listener), std::move(addresses), poller),
      peers_(options.world_size) {}

PeerEngine::~PeerEngine() = default;

void PeerEngine::work(const ReadClock& clock, const std::vector<Poller::Ready>& ready) {
  clock_ = clock;
  read_clock();
  for (const Poller::Ready& each : ready) {
    if (each.id < kConnections) {
      links_.handle(each, now_);
    } else {
      const auto rank = static_cast<std::size_t>(each.id - kConnections);
      if (peers_[rank].connection == nullptr) continue;
      if ((each.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) receive_from(rank);
    }
  }
  links_.check_time(now_);
  adopt_connections();
  if (const auto gone = links_.take_gone()) note_gone(*gone);
  begin_waiting();
  begin_due_stages();
  check_time();
  do {
    send_all();
  } while (begin_due_stages());
  report_late();  // sending ends operations
  failed_.clear();
  clock_ = nullptr;
}

void PeerEngine::read_clock() {
  if (clock_) now_ = clock_();
}

void PeerEngine::adopt_connections() {
  for (PeerLinks::Opened& opened : links_.take_opened()) {
    Peer& peer = peers_[opened.rank];
    peer.connection = std::make_unique<PeerConnection>(std::move(opened.socket));
    peer.heard_at = now_;
    counters_.add(PeerCounter::kConnections);
    if (!poller_.add(peer.connection->fd(), kConnections + opened.rank, EPOLLIN)) {
      const int error = errno;
      peer.ended = true;
      fail("cannot wait for " + name(opened.rank) + " (epoll): " + std::strerror(error));
    }
    for (const Frame& frame : std::exchange(peer.early, {})) peer.connection->post(frame);
    if (failure_) peer.connection->post({.kind = Frame::Kind::kFailure}, *failure_);
  }
}

void PeerEngine::send_all() {
  // From the next rank on, so that the ranks do not all fill the same one's link first.
  const auto to_each = [this](auto&& act) {
    for (std::size_t i = 1; i < peers_.size(); ++i) {
      const std::size_t rank = (options_.rank + i) % peers_.size();
      if (peers_[rank].connection != nullptr && !peers_[rank].ended) act(rank);
    }
  };
  // What permits others to send comes first: it would wait behind this rank's own messages.
  to_each([this](std::size_t rank) { peers_[rank].connection->send_posted_frames(); });
  to_each([this](std::size_t rank) { send_to(rank); });
}

void PeerEngine::send_to(std::size_t rank) {
  Peer& peer = peers_[rank];
  if (peer.ended) return;
  const PeerConnection::Source source{
      .next = [&] { return next_piece(rank); },
      .sent = [&](const PeerConnection::Piece& piece) { sent(rank, piece); }};
  const PeerConnection::End end = peer.connection->send(source);
  const bool waits = peer.connection->blocked() || end == PeerConnection::End::kMore;
  if (waits != peer.waits_for_room) {
    peer.waits_for_room = waits;
    poller_.change(peer.connection->fd(), kConnections + rank,
                   waits ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }
  // Read what the peer sent before, and how the connection ended.
  if (end == PeerConnection::End::kBroken) receive_from(rank);
}

class PeerEngine::PeerSink final : public PeerConnection::Sink {
 public:
  PeerSink(PeerEngine& engine, std::size_t rank) : engine_(engine), rank_(rank) {}

  PeerConnection::Place begin(const Frame& frame) override {
    const Arrival* arrival = engine_.arrival_of(rank_, frame);
    return arrival == nullptr ? PeerConnection::Place{} : PeerEngine::place_of(*arrival);
  }
  PeerConnection::Place arrived(const Frame& frame, std::size_t bytes) override {
    return engine_.take_bytes(rank_, frame, bytes);
  }
  void hear(const Frame& frame, const std::string& text) override {
    engine_.hear(rank_, frame, text);
  }

 private:
  PeerEngine& engine_;
  const std::size_t rank_;
};

void PeerEngine::receive_from(std::size_t rank) {
  Peer& peer = peers_[rank];
  if (peer.ended) return;
  PeerSink sink(*this, rank);
  const PeerConnection::End end = peer.connection->receive(sink);
  peer.heard_at = now_;
  if (end != PeerConnection::End::kIdle && end != PeerConnection::End::kMore) {
    close_connection(rank, end);
  }
}

void PeerEngine::hear(std::size_t rank, const Frame& frame, const std::string& text) {
  Peer& peer = peers_[rank];
  if (frame.kind == Frame::Kind::kFarewell) peer.left = true;
  begin_due_stages();  // what came before may complete an operation
  if (failure_) return;
  switch (frame.kind) {
    case Frame::Kind::kOffer: return hear_offer(rank, frame);
    case Frame::Kind::kReady: return hear_ready(rank, frame);
    case Frame::Kind::kCredit:
      peer.waiting_bytes -= std::min<std::size_t>(peer.waiting_bytes, frame.bytes);
      return;
    case Frame::Kind::kAsk: return hear_question(rank, frame);
    case Frame::Kind::kAnswer: return hear_answer(rank, frame);
    case Frame::Kind::kWonder: return hear_wonder(rank, frame);
    case Frame::Kind::kLate: return hear_late(rank, frame);
    case Frame::Kind::kFailure: return fail(text, FailureKind::kReported);
    case Frame::Kind::kFarewell:
      if (needs(rank)) miss(rank);
      return;
    case Frame::Kind::kData: break;
  }
}

void PeerEngine::close_connection(std::size_t rank, PeerConnection::End end) {
  Peer& peer = peers_[rank];
  poller_.remove(peer.connection->fd());
  begin_due_stages();
  peer.ended = true;
  if (failure_) return;
  if (end == PeerConnection::End::kNonsense) {
    return fail(name(rank) + " sends something that is not an atp message");
  }
  if (peer.left) {
    if (needs(rank)) miss(rank);
    return;
  }
  if (end == PeerConnection::End::kClosed) {
    const std::string why =
        "the connection with " + name(rank) + " was closed: its process has ended";
    // A rank from which nothing came may have failed and left before it noticed the connection.
    if (peer.connection->received().bytes == 0) return suspect(why);
    // It may have died after it had completed what others, or this rank, still complete without it.
    if (first_to_end_.empty()) first_to_end_ = why;
    return needs(rank) ? fail(first_to_end_) : suspect(why);
  }
  suspect("the connection with " + name(rank) +
          " is broken: " + std::strerror(peer.connection->error()));
}

void PeerEngine::leave(const std::string& why) {
  if (!failure_ && pending() > 0) {
    fail(own_name() + " has left the group: " + why, FailureKind::kNone);
  }
  for (Peer& peer : peers_) {
    if (peer.connection != nullptr && !peer.ended) {
      peer.connection->post({.kind = Frame::Kind::kFarewell});
    }
  }
  has_left_ = true;
  send_all();
}

bool PeerEngine::has_said_all() {
  send_all();
  return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
    if (peer.connection == nullptr || peer.ended) return true;
    int unsent = 0;
    const bool known = ioctl(peer.connection->fd(), SIOCOUTQ, &unsent) == 0;
    return !peer.connection->has_output() && (!known || unsent == 0);
  });
}

PeerCounters PeerEngine::counters() const {
  PeerCounters counters = counters_;
  for (const Peer& peer : peers_) {
    if (peer.connection == nullptr) continue;
    counters.add(PeerCounter::kBytesSent, peer.connection->sent().bytes);
    counters.add(PeerCounter::kSendCalls, peer.connection->sent().calls);
    counters.add(PeerCounter::kBytesReceived, peer.connection->received().bytes);
    counters.add(PeerCounter::kReceiveCalls, peer.connection->received().calls);
  }
  return counters;
}

}  // namespace atp
