// Connects a rank with its two neighbours, and turns strangers away.
#include "atp/collective/ring/links.h"

#include <poll.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "atp/base/text.h"
#include "atp/base/time.h"
#include "atp/collective/waits/wait_notice.h"
#include "atp/driver/tcp/guest_room.h"
#include "atp/driver/udp/address.h"

namespace atp {
namespace {

using std::chrono::steady_clock;

// The poller's ids.
constexpr std::uint64_t kListener = 0;
constexpr std::uint64_t kGuests = 1;
// Long enough for a lost SYN to be repeated.
constexpr std::chrono::seconds kAttempt{3};
constexpr std::chrono::milliseconds kBetweenAttempts{50};
constexpr std::chrono::milliseconds kBetweenLooks{50};

class Rendezvous {
 public:
  Rendezvous(const TcpListener& listener, const RingOptions& options,
             const std::vector<Endpoint>& addresses)
      : listener_(listener),
        options_(options),
        addresses_(addresses),
        next_((options.rank + 1) % options.world_size),
        before_((options.rank + options.world_size - 1) % options.world_size),
        until_(steady_clock::now() + bounded_timeout(options.connect_timeout)),
        warn_(options.on_warning ? options.on_warning : tell_on_stderr),
        notice_(warn_) {}

  Result<Links> connect();

 private:
  std::string name(std::size_t rank) const;
  Hello hello(Purpose purpose, std::size_t from, std::size_t to) const;
  Result<TcpSocket> reach();
  Result<TcpSocket> call(Purpose purpose);
  Status await_answer(const TcpSocket& socket, Purpose purpose);
  Status accept_both(Neighbour& before);
  void welcome(TcpSocket socket, const Hello& said, Neighbour& before) const;
  std::optional<std::string> why_ended(std::size_t waited_for, const char* to);
  Error unreachable(const std::string& why) const;
  Error not_called(const std::string& why) const;

  const TcpListener& listener_;
  const RingOptions& options_;
  const std::vector<Endpoint>& addresses_;
  const std::size_t next_;
  const std::size_t before_;
  const SteadyTime until_;
  const std::function<void(const std::string&)> warn_;
  WaitNotice notice_;
};

// Whether a wait must end before its time, after it has said for whom it is.
std::optional<std::string> Rendezvous::why_ended(std::size_t waited_for, const char* to) {
  notice_.look(
      [&] { return rank_name(options_, options_.rank) + " waits for " + name(waited_for) + to; });
  return why_interrupted(options_.interruption);
}

std::string Rendezvous::name(std::size_t rank) const {
  return rank_name(options_, rank) + " (" + to_string(addresses_[rank]) + ")";
}

Hello Rendezvous::hello(Purpose purpose, std::size_t from, std::size_t to) const {
  return {.purpose = purpose,
          .token = options_.token,
          .from = static_cast<std::uint32_t>(from),
          .to = static_cast<std::uint32_t>(to),
          .world_size = static_cast<std::uint32_t>(options_.world_size)};
}

Error Rendezvous::unreachable(const std::string& why) const {
  return {rank_name(options_, options_.rank) + " cannot connect to " + name(next_) + " within " +
          seconds_text(options_.connect_timeout) + ": " + why};
}

Error Rendezvous::not_called(const std::string& why) const {
  return {name(before_) + " has not connected to " + name(options_.rank) + " within " +
          seconds_text(options_.connect_timeout) + ": " + why};
}

// Keeps trying: the machine may not be up yet.
Result<TcpSocket> Rendezvous::reach() {
  for (;;) {
    if (const auto why = why_ended(next_, " to accept its connections")) return Error{*why};
    const SteadyTime until = std::min(until_, steady_clock::now() + kAttempt);
    Result<TcpSocket> socket = TcpSocket::connect_once(addresses_[next_], until);
    if (socket) return socket;
    if (steady_clock::now() + kBetweenAttempts >= until_) {
      return unreachable(socket.error().message);
    }
    std::this_thread::sleep_for(kBetweenAttempts);
  }
}

Result<TcpSocket> Rendezvous::call(Purpose purpose) {
  Result<TcpSocket> socket = reach();
  if (!socket) return socket;
  const Hello mine = hello(purpose, options_.rank, next_);
  const Status sent = socket.value().send_all(std::as_bytes(std::span(&mine, 1)), until_);
  if (!sent) return unreachable(sent.error().message);
  return socket;
}

Status Rendezvous::await_answer(const TcpSocket& socket, Purpose purpose) {
  Hello answer;
  for (std::size_t got = 0; got < sizeof answer;) {
    if (const auto why = why_ended(next_, " to answer")) return Error{*why};
    if (steady_clock::now() >= until_) return unreachable("no answer in time");
    pollfd waited{socket.fd(), POLLIN, 0};
    const bool is_ready = poll(&waited, 1, static_cast<int>(kBetweenLooks.count())) > 0;
    if (is_ready && !read_hello(socket, answer, got))
      return unreachable("the connection was closed");
  }
  if (answer == hello(purpose, next_, options_.rank)) return ok_status();
  return unreachable("something else answers there");
}

// A caller that says the wrong thing is turned away, and the meeting continues.
void Rendezvous::welcome(TcpSocket socket, const Hello& said, Neighbour& before) const {
  const auto purpose = purpose_of(said, hello(Purpose::kData, before_, options_.rank));
  if (!purpose || !write_hello(socket, hello(*purpose, options_.rank, before_))) return;
  (*purpose == Purpose::kData ? before.data : before.control) = std::move(socket);
}

Status Rendezvous::accept_both(Neighbour& before) {
  Result<Poller> poller = Poller::create();
  if (!poller) return not_called(poller.error().message);
  GuestRoom room(listener_, name(options_.rank), poller.value(), kListener, kGuests);
  const auto judge = [&](TcpSocket socket, const Hello& said) {
    welcome(std::move(socket), said, before);
  };
  std::string why = "no answer in time";
  while (!before.data.is_open() || !before.control.is_open()) {
    if (const auto end = why_ended(before_, " to connect with it")) return Error{*end};
    const SteadyTime now = steady_clock::now();
    room.check_time(now);
    if (const auto news = room.take_news()) warn_(why = *news);
    if (now >= until_) return not_called(why);
    const SteadyTime next =
        std::min({until_, now + kBetweenInterruptChecks, room.next_timeout().value_or(until_)});
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
    const int timeout_ms = static_cast<int>(std::clamp<long long>(left, 0, 1 << 30));
    for (const Poller::Ready& each : poller.value().wait(timeout_ms)) {
      room.handle(each.id, steady_clock::now(), judge);
    }
  }
  return ok_status();
}

Result<Links> Rendezvous::connect() {
  Links links;
  links.before.name = name(before_);
  links.next.name = name(next_);
  // All ranks do this at the same time. None waits for an answer before it has given its own.
  Result<TcpSocket> data = call(Purpose::kData);
  if (!data) return data.error();
  Result<TcpSocket> control = call(Purpose::kControl);
  if (!control) return control.error();
  links.next.data = std::move(data).value();
  links.next.control = std::move(control).value();
  const Status accepted = accept_both(links.before);
  if (!accepted) return accepted.error();
  for (const Purpose purpose : {Purpose::kData, Purpose::kControl}) {
    const Status answered =
        await_answer(purpose == Purpose::kData ? links.next.data : links.next.control, purpose);
    if (!answered) return answered.error();
  }
  return links;
}

}  // namespace

std::string rank_name(const RingOptions& options, std::size_t rank) {
  return "rank " + std::to_string(rank < options.names.size() ? options.names[rank] : rank);
}

Result<std::vector<Endpoint>> resolve_addresses(const std::vector<std::string>& texts) {
  std::vector<Endpoint> addresses;
  for (const std::string& text : texts) {
    const Result<Endpoint> address = text.empty() ? Endpoint{} : resolve_endpoint(text);
    if (!address) return address.error();
    addresses.push_back(address.value());
  }
  return addresses;
}

Result<Links> connect_links(const TcpListener& listener, const RingOptions& options,
                            const std::vector<Endpoint>& addresses) {
  return Rendezvous(listener, options, addresses).connect();
}

}  // namespace atp
