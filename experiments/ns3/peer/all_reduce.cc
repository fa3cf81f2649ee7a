// All-reduces of jobs over ns-3's links. The rules of the protocol that decide when packets are
// sent are stated here a second time, from docs/inside/protocol §4 to §6: workers join; a switch
// and the server sum a fragment once every child has sent it; the answer goes back down the tree;
// and a worker has a window. There are no losses and no collisions here.

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>

#include "experiments/ns3/peer/fabric.h"

namespace peer {
namespace {

constexpr std::uint32_t kAround = 66;    // bytes around a packet on the wire
constexpr std::uint32_t kHead = 40 + 8;  // bytes before the values, in a packet
constexpr std::uint32_t kJoin = 48 + 416;
constexpr std::uint32_t kProve = 48 + 40;
constexpr std::uint32_t kJoinAck = 48 + 48;

// §5, Congestion, without losses.
class Window {
 public:
  Window(bool is_aimd, std::uint64_t packet, std::uint64_t most)
      : is_aimd_(is_aimd),
        packet_(packet),
        most_(std::max(most, 2 * packet)),
        bytes_(std::min(std::min(200 * packet, std::uint64_t{256 * 1024}), most_)) {}

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t cuts() const { return cuts_; }

  void on_answer(bool ecn, bool is_full) {
    if (!is_aimd_) return;
    answered_ += packet_;
    if (ecn) {
      if (answered_ >= no_cut_before_) cut();
    } else if (is_full) {
      grow();
    }
  }

 private:
  void cut() {
    ++cuts_;
    no_cut_before_ = answered_ + bytes_;
    threshold_ = bytes_ = std::max(bytes_ * 4 / 5, 2 * packet_);
    towards_step_ = 0;
  }
  void grow() {
    if (bytes_ < threshold_) {
      bytes_ += packet_;
    } else if ((towards_step_ += packet_) >= bytes_) {
      towards_step_ -= bytes_;
      bytes_ += 1500;
    }
    bytes_ = std::min(bytes_, most_);
  }

  bool is_aimd_;
  std::uint64_t packet_, most_, bytes_;
  std::uint64_t threshold_ = ~std::uint64_t{0};
  std::uint64_t answered_ = 0, no_cut_before_ = 0, towards_step_ = 0, cuts_ = 0;
};

struct Setup {
  explicit Setup(const Options& options)
      : jobs(options.count("jobs")),
        workers(options.count("workers")),
        racks(options.count("racks")),
        levels(options.count("levels")),
        wmax(options.count("window")),
        fragments(options.count("fragments")),
        operations(options.count("operations")),
        in_flight(options.count("in-flight")),
        packet(4 * options.count("values") + kHead),
        is_aimd(options.count("aimd") != 0),
        stagger_ns(options.number("stagger") * 1000) {}

  std::uint32_t jobs, workers, racks, levels, wmax, fragments, operations, in_flight, packet;
  bool is_aimd;
  double stagger_ns;
};

// A node that sums. The server is the one without a parent.
class Summer {
 public:
  struct Place {  // in a job's tree
    std::vector<std::uint32_t> children;
    std::optional<std::uint32_t> parent;
    std::vector<std::pair<std::uint32_t, std::uint32_t>>
        ways;  // a worker below, and by which child
    std::size_t joined = 0;
    std::set<std::uint32_t> joined_straight;  // workers that are still to be answered
    bool has_proof = false;                   // the parent has told it
  };

  explicit Summer(Fabric& fabric) : fabric_(fabric) {}

  std::uint32_t host = 0;
  std::map<std::uint32_t, Place> places;  // by job
  std::uint64_t completed = 0;            // fragments, at the server

  void receive(const Message& message) {
    Place& place = places.at(message.job);
    switch (message.kind) {
      case Message::kGradient: return sum(place, message);
      case Message::kParameter: return down(place, message);
      case Message::kJoin: return join(place, message);
      case Message::kProve: return prove(place, message);
      case Message::kJoinAck: return pass_down(place, message);
    }
  }

 private:
  struct Sum {
    std::size_t packets = 0;
    bool ecn = false;
  };

  void sum(const Place& place, Message message) {
    Sum& sum = sums_[{message.job, message.about}];
    sum.ecn |= message.ecn;
    if (++sum.packets < place.children.size()) return;
    message.ecn = sum.ecn;
    sums_.erase({message.job, message.about});
    if (place.parent) return send(message, *place.parent);
    ++completed;
    message.kind = Message::kParameter;
    down(place, message);
  }

  void down(const Place& place, const Message& message) {
    for (const std::uint32_t child : place.children) send(message, child);
  }

  // A JOIN without a proof gets one. The server answers all when the last has joined through the
  // tree: first on that path, then straight. Later straight JOINs are answered at once.
  void join(Place& place, Message message) {
    if (!message.has_proof) {
      message.kind = Message::kProve;
      message.wire_bytes = kProve + kAround;
      return send(message, message.from);
    }
    message.has_proof = place.has_proof;
    if (place.parent) return send(message, *place.parent);
    message.kind = Message::kJoinAck;
    message.wire_bytes = kJoinAck + kAround;
    if (message.is_straight) {
      if (place.joined == place.ways.size()) return send(message, message.about);
      place.joined_straight.insert(message.about);
      return;
    }
    if (++place.joined < place.ways.size()) return;
    for (const auto& [worker, child] : place.ways) {
      message.about = worker;
      send(message, child);
    }
    message.is_straight = true;
    for (const std::uint32_t worker : place.joined_straight) {
      message.about = worker;
      send(message, worker);
    }
  }

  // The worker must repeat the JOIN that the parent has answered.
  void prove(Place& place, const Message& message) {
    place.has_proof = true;
    pass_down(place, message);
  }

  void pass_down(const Place& place, const Message& message) {
    for (const auto& [worker, child] : place.ways) {
      if (worker == message.about) send(message, child);
    }
  }

  void send(Message message, std::uint32_t to) {
    message.from = host;
    message.to = to;
    fabric_.send(message);
  }

  Fabric& fabric_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Sum> sums_;
};

class Worker {
 public:
  using Completed = std::function<void()>;

  Worker(Fabric& fabric, const Setup& setup, std::uint32_t job, Completed on_completed)
      : fabric_(fabric),
        setup_(setup),
        job_(job),
        on_completed_(std::move(on_completed)),
        window_(setup.is_aimd, setup.packet, std::uint64_t{setup.wmax} * setup.packet),
        answered_(std::uint64_t{setup.fragments} * setup.operations),
        unanswered_(setup.operations, setup.fragments) {}

  std::uint32_t host = 0;
  std::uint32_t parent = 0;
  std::uint32_t server = 0;

  const Window& window() const { return window_; }
  std::uint64_t marked_answers() const { return marked_answers_; }

  void join() {
    for (const bool is_straight : {false, true}) send_join(is_straight, false);
  }

  void receive(const Message& message) {
    if (message.kind == Message::kProve) return send_join(message.is_straight, true);
    if (message.is_straight) return;  // by then it has joined through the tree
    if (message.kind == Message::kParameter) accept(message);
    transmit();
  }

 private:
  void send_join(bool is_straight, bool has_proof) {
    fabric_.send({host, is_straight ? server : parent, job_, host, kJoin + kAround, Message::kJoin,
                  is_straight, has_proof});
  }

  void accept(const Message& message) {
    in_flight_ -= setup_.packet;
    marked_answers_ += message.ecn;
    window_.on_answer(message.ecn, is_full_);
    answered_[message.about] = true;
    while (base_ < next_ && answered_[base_]) ++base_;
    if (--unanswered_[message.about / setup_.fragments] > 0) return;
    ++completed_;
    on_completed_();
  }

  void transmit() {
    const std::uint32_t submitted =
        std::min(completed_ + setup_.in_flight, setup_.operations) * setup_.fragments;
    is_full_ = false;
    while (next_ < submitted && next_ - base_ < setup_.wmax) {
      is_full_ = base_ < next_ && in_flight_ + setup_.packet > window_.bytes();
      if (is_full_) return;
      in_flight_ += setup_.packet;
      fabric_.send({host, parent, job_, next_++, setup_.packet + kAround});
    }
  }

  Fabric& fabric_;
  const Setup& setup_;
  std::uint32_t job_;
  Completed on_completed_;
  Window window_;
  std::vector<bool> answered_;
  std::vector<std::uint32_t> unanswered_;  // by operation
  std::uint32_t base_ = 0, next_ = 0, completed_ = 0;
  std::uint64_t in_flight_ = 0, marked_answers_ = 0;
  bool is_full_ = false;
};

class Cluster {
 public:
  Cluster(const Setup& setup, const LinkPlan& worker, const LinkPlan& server, const LinkPlan& rack)
      : setup_(setup), completed_ps_(setup.jobs) {
    for (std::uint32_t i = 0; i < setup.racks; ++i) fabric_.add_rack(rack);
    server_ = add_summer(setup.racks - 1, server);
    for (std::uint32_t i = 0; i < setup.racks; ++i) switches_.push_back(add_summer(i, {}));
    for (std::uint32_t job = 0; job < setup.jobs; ++job) add_job(job, worker);
  }

  void run() {
    for (std::uint32_t i = 0; i < workers_.size(); ++i) {
      const std::uint32_t job = i / setup_.workers;
      ns3::Simulator::Schedule(ns3::NanoSeconds(job * setup_.stagger_ns),
                               [worker = workers_[i].get()] { worker->join(); });
    }
    ns3::Simulator::Run();
  }

  // What happened while all jobs were running, as sharing_contest measures it.
  void print() const {
    const auto during = [this](auto count) { return (*end_).*count - (*begin_).*count; };
    std::printf(R"({"measured_ps": %ld, "fragments": %lu, "marked": %lu, "window_cuts": %lu, )"
                R"("lost": %lu, "completed_ps": [)",
                during(&Totals::ps), during(&Totals::fragments), during(&Totals::marked),
                during(&Totals::window_cuts), fabric_.lost());
    for (std::size_t job = 0; job < completed_ps_.size(); ++job) {
      const auto& times = completed_ps_[job];
      std::printf(job > 0 ? ", [" : "[");
      for (std::size_t i = 0; i < times.size(); ++i) std::printf(i > 0 ? ", %ld" : "%ld", times[i]);
      std::printf("]");
    }
    std::puts("]}");
  }

 private:
  struct Totals {
    std::int64_t ps = 0;
    std::uint64_t fragments = 0, marked = 0, window_cuts = 0;
  };

  Totals totals() const {
    Totals now{ns3::Simulator::Now().GetPicoSeconds(), server_->completed};
    for (const auto& worker : workers_) {
      now.marked += worker->marked_answers();
      now.window_cuts += worker->window().cuts();
    }
    return now;
  }

  // From when every job has done a third of its operations until the first has done all.
  void on_completed(std::uint32_t job) {
    completed_ps_[job].push_back(ns3::Simulator::Now().GetPicoSeconds());
    const auto did = [this](const auto& times) { return times.size() >= setup_.operations / 3; };
    if (!begin_ && std::all_of(completed_ps_.begin(), completed_ps_.end(), did)) begin_ = totals();
    if (!end_ && completed_ps_[job].size() == setup_.operations) end_ = totals();
  }

  Summer* add_summer(std::uint32_t rack, const LinkPlan& link) {
    summers_.push_back(std::make_unique<Summer>(fabric_));
    Summer* summer = summers_.back().get();
    summer->host = fabric_.add_host(rack, link, [summer](const Message& m) { summer->receive(m); });
    return summer;
  }

  void add_job(std::uint32_t job, const LinkPlan& link) {
    for (std::uint32_t rank = 0; rank < setup_.workers; ++rank) {
      const std::uint32_t rack = rank * setup_.racks / setup_.workers;
      workers_.push_back(std::make_unique<Worker>(fabric_, setup_, job, [this, job, rank] {
        if (rank == 0) on_completed(job);
      }));
      Worker* worker = workers_.back().get();
      worker->host =
          fabric_.add_host(rack, link, [worker](const Message& m) { worker->receive(m); });
      const std::vector<Summer*> path = path_from(rack);
      worker->parent = path.front()->host;
      worker->server = server_->host;
      std::uint32_t child = worker->host;
      for (std::size_t i = 0; i < path.size(); ++i) {
        Summer::Place& place = path[i]->places[job];
        place.ways.push_back({worker->host, child});
        if (i + 1 < path.size()) place.parent = path[i + 1]->host;
        child = path[i]->host;
      }
    }
    // In the order in which they join: workers first, then the switches behind others.
    for (const auto& summer : summers_) {
      const auto found = summer->places.find(job);
      if (found != summer->places.end()) add_children(found->second);
    }
  }

  std::vector<Summer*> path_from(std::uint32_t rack) const {
    if (setup_.levels == 0) return {server_};
    const bool passes_last = setup_.levels == 2 && rack + 1 < setup_.racks;
    if (!passes_last) return {switches_[rack], server_};
    return {switches_[rack], switches_.back(), server_};
  }

  static void add_children(Summer::Place& place) {
    for (const bool is_worker : {true, false}) {
      for (const auto& [worker, child] : place.ways) {
        const bool is_new = std::ranges::find(place.children, child) == place.children.end();
        if ((worker == child) == is_worker && is_new) place.children.push_back(child);
      }
    }
  }

  const Setup& setup_;
  Fabric fabric_;
  std::vector<std::unique_ptr<Summer>> summers_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Summer*> switches_;
  Summer* server_ = nullptr;
  std::vector<std::vector<std::int64_t>> completed_ps_;  // by job: each operation, at rank 0
  std::optional<Totals> begin_, end_;
};

}  // namespace
}  // namespace peer

int main(int argc, char** argv) {
  // With ns-3's default of whole nanoseconds every packet would be up to 1 ns too fast.
  ns3::Time::SetResolution(ns3::Time::PS);
  const peer::Options options(argc, argv);
  const peer::Setup setup(options);
  const auto delay_ns = static_cast<std::uint32_t>(options.number("delay") * 1000);
  const std::uint32_t queue = options.count("queue-bytes");
  const std::uint32_t ecn = options.count("ecn-bytes");
  const peer::LinkPlan worker{100, delay_ns, options.count("host-ns"), queue, ecn};
  peer::LinkPlan server = worker;
  server.gbit = options.number("server-gbit");
  const peer::LinkPlan rack{options.number("rack-gbit"), delay_ns, 0, queue, ecn};
  peer::Cluster cluster(setup, worker, server, rack);
  cluster.run();
  cluster.print();
}
