// Calls other ranks' listeners, answers their calls, and settles which connection counts.
#include "atp/collective/peer/links.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "atp/collective/waits/late_ranks.h"
#include "atp/driver/udp/address.h"

namespace atp {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBetweenCalls{50};
// How long another host may refuse calls: its firewall may do so, while its rank can call this one.
constexpr std::chrono::seconds kRefusals{1};
constexpr const char* kTurnedAway = "it closes the connection without an answer";

}  // namespace

Result<std::vector<Endpoint>> resolve_addresses(const std::vector<std::string>& texts) {
  std::vector<Endpoint> addresses;
  for (const std::string& text : texts) {
    const Result<Endpoint> address = text.empty() ? Endpoint{} : resolve_endpoint(text);
    if (!address) return address.error();
    addresses.push_back(address.value());
  }
  return addresses;
}

PeerLinks::PeerLinks(const PeerOptions& options, std::shared_ptr<const TcpListener> listener,
                     std::vector<Endpoint> addresses, Poller& poller)
    : options_(options),
      listener_(std::move(listener)),
      closed_in_child_({listener_->socket().fd()}),
      addresses_(std::move(addresses)),
      poller_(poller),
      room_(*listener_, name(options.rank), poller, kListener, kGuests),
      calls_(addresses_.size()) {}

std::string PeerLinks::name(std::size_t rank) const {
  return options_.wording.rank(rank) + " (" + to_string(addresses_[rank]) + ")";
}

Hello PeerLinks::hello(std::size_t from, std::size_t to) const {
  return {.world_size = static_cast<std::uint32_t>(options_.world_size),
          .token = options_.token,
          .from = static_cast<std::uint32_t>(from),
          .to = static_cast<std::uint32_t>(to)};
}

void PeerLinks::want(std::size_t rank, SteadyTime now) {
  if (calls_[rank].state != State::kNone) return;
  call(rank, now);
}

std::string PeerLinks::why_not(std::size_t rank) const {
  const Call& call = calls_[rank];
  if (!call.why.empty()) return call.why;
  if (call.state == State::kGreeting) return "it accepts the connection, and says nothing";
  if (is_on_own_host(rank)) return "no answer";
  return "no answer: a firewall may drop connections to it, and must admit them in one direction: "
         "set ATP_PORT_RANGE, and open these ports";
}

void PeerLinks::call(std::size_t rank, SteadyTime now) {
  Call& call = calls_[rank];
  Result<TcpSocket> begun = TcpSocket::begin_connect(addresses_[rank]);
  if (!begun) {
    const bool is_refused = begun.error().message == std::strerror(ECONNREFUSED);
    const bool is_second = call.state == State::kWaiting;
    if (is_refused && is_second && is_refused_for_good(call, rank, now)) {
      return give_up_calling(call, rank);
    }
    call_again(rank, begun.error().message, now);
    // Ask again at once: on this host the kernel refuses immediately.
    if (is_refused && !is_second) call.again_at = now;
    return;
  }
  call.socket = std::move(begun).value();
  call.state = State::kConnecting;
  call.answer_bytes = 0;
  if (poller_.add(call.socket.fd(), kCalls + rank, EPOLLOUT)) return;
  const std::string why = std::strerror(errno);
  call.socket.close();
  call_again(rank, why, now);
}

void PeerLinks::drop_call(Call& call) {
  if (!call.socket.is_open()) return;
  poller_.remove(call.socket.fd());
  call.socket.close();
}

// A refusal means that the rank is gone, as its listener existed before its address was known, or
// that a firewall is between the hosts.
bool PeerLinks::is_refused_for_good(Call& call, std::size_t rank, SteadyTime now) const {
  if (gone_) return false;  // one at a time
  if (is_on_own_host(rank)) return true;
  if (!call.refused_since) call.refused_since = now;
  return now >= *call.refused_since + kRefusals;
}

void PeerLinks::give_up_calling(Call& call, std::size_t rank) {
  gone_ = rank;
  drop_call(call);
  call.state = State::kNone;
}

void PeerLinks::call_again(std::size_t rank, const std::string& why, SteadyTime now) {
  Call& call = calls_[rank];
  drop_call(call);
  call.state = State::kWaiting;
  call.again_at = now + kBetweenCalls;
  call.why = why;
}

void PeerLinks::greet(std::size_t rank, SteadyTime now) {
  Call& call = calls_[rank];
  const int error = call.socket.connect_error();
  if (error == ECONNREFUSED && is_refused_for_good(call, rank, now)) {
    return give_up_calling(call, rank);
  }
  if (error != 0) return call_again(rank, std::strerror(error), now);
  if (!write_hello(call.socket, hello(options_.rank, rank))) {
    return call_again(rank, "it accepts no data", now);
  }
  call.state = State::kGreeting;
  poller_.change(call.socket.fd(), kCalls + rank, EPOLLIN);
}

void PeerLinks::hear_answer(std::size_t rank, SteadyTime now) {
  Call& call = calls_[rank];
  if (!read_hello(call.socket, call.answer, call.answer_bytes)) {
    return call_again(rank, kTurnedAway, now);
  }
  if (call.answer_bytes < sizeof(Hello)) return;
  if (call.answer != hello(rank, options_.rank)) {
    return call_again(rank, "something else answers there", now);
  }
  poller_.remove(call.socket.fd());
  open(rank, std::move(call.socket));
}

void PeerLinks::open(std::size_t rank, TcpSocket socket) {
  calls_[rank].state = State::kOpen;
  opened_.push_back({rank, std::move(socket)});
}

void PeerLinks::welcome(TcpSocket socket, const Hello& said) {
  const std::size_t from = said.from;
  if (from >= options_.world_size || from == options_.rank || said != hello(from, options_.rank)) {
    return;
  }
  Call& own = calls_[from];
  if (own.state == State::kOpen) return;
  // Once the lower rank has said its Hello, its call counts: the other may have answered already.
  // Until then, any call that gets through does; perhaps only one direction is open.
  if (own.state == State::kGreeting && options_.rank < from) return;
  if (!write_hello(socket, hello(options_.rank, from))) return;
  drop_call(own);
  open(from, std::move(socket));
}

void PeerLinks::handle(const Poller::Ready& ready, SteadyTime now) {
  if (ready.id == kListener || ready.id >= kGuests) {
    return room_.handle(ready.id, now, [this](TcpSocket socket, const Hello& said) {
      welcome(std::move(socket), said);
    });
  }
  if (ready.id < kCalls) return;  // not a call or a guest
  const auto rank = static_cast<std::size_t>(ready.id - kCalls);
  // The events may include calls that were dropped in this round.
  if (calls_[rank].state == State::kConnecting) return greet(rank, now);
  if (calls_[rank].state == State::kGreeting) hear_answer(rank, now);
}

void PeerLinks::check_time(SteadyTime now) {
  for (std::size_t rank = 0; rank < calls_.size(); ++rank) {
    if (calls_[rank].state == State::kWaiting && now >= calls_[rank].again_at) call(rank, now);
  }
  room_.check_time(now);
  if (const auto news = room_.take_news()) {
    options_.on_warning ? options_.on_warning(*news) : tell_on_stderr(*news);
  }
}

std::optional<SteadyTime> PeerLinks::next_timeout() const {
  std::optional<SteadyTime> next = room_.next_timeout();
  const auto consider = [&](SteadyTime time) { next = next ? std::min(*next, time) : time; };
  for (const Call& call : calls_) {
    if (call.state == State::kWaiting) consider(call.again_at);
  }
  return next;
}

}  // namespace atp
