#pragma once

#include <cstdint>

#include "explore/node.h"

// Gives stored_node.cc, and nothing else, access to the private members that it needs to store a
// node. Access is not checked in an explicit instantiation, so each of these may name a private
// member, and its friend function returns the pointer.

namespace atp::explore {

template <class Name, auto member>
struct Opened {
  friend constexpr auto member_of(Name) { return member; }
};

// clang-format off: one line each is clearest
struct WorkerCounters { friend constexpr auto member_of(WorkerCounters); };
struct WorkerStreams { friend constexpr auto member_of(WorkerStreams); };
struct WorkerEvents { friend constexpr auto member_of(WorkerEvents); };
struct WorkerConfigured { friend constexpr auto member_of(WorkerConfigured); };
struct SwitchInside { friend constexpr auto member_of(SwitchInside); };
struct SwitchSweep { friend constexpr auto member_of(SwitchSweep); };
struct ServerConfigured { friend constexpr auto member_of(ServerConfigured); };
struct ServerCounters { friend constexpr auto member_of(ServerCounters); };
struct ServerPacer { friend constexpr auto member_of(ServerPacer); };
struct ServerJobs { friend constexpr auto member_of(ServerJobs); };
struct ServerBytes { friend constexpr auto member_of(ServerBytes); };
struct ServerTimeout { friend constexpr auto member_of(ServerTimeout); };
struct ServerLastTurn { friend constexpr auto member_of(ServerLastTurn); };
struct ServerCongested { friend constexpr auto member_of(ServerCongested); };
struct JobSums { friend constexpr auto member_of(JobSums); };
struct SumsStreams { friend constexpr auto member_of(SumsStreams); };
struct SumsProgress { friend constexpr auto member_of(SumsProgress); };
struct SumsLateness { friend constexpr auto member_of(SumsLateness); };
struct TreesOfTable { friend constexpr auto member_of(TreesOfTable); };
struct TreeLateness { friend constexpr auto member_of(TreeLateness); };
struct TreeWaiting { friend constexpr auto member_of(TreeWaiting); };
// clang-format on

template struct Opened<WorkerCounters, &Worker::counters_>;
template struct Opened<WorkerStreams, &Worker::streams_>;
template struct Opened<WorkerEvents, &Worker::events_>;
template struct Opened<WorkerConfigured, &Worker::config_>;
template struct Opened<SwitchInside, &SwitchNode::state_>;
template struct Opened<SwitchSweep, &SwitchNode::sweep_>;
template struct Opened<ServerConfigured, &Server::config_>;
template struct Opened<ServerCounters, &Server::counters_>;
template struct Opened<ServerPacer, &Server::pacer_>;
template struct Opened<ServerJobs, &Server::jobs_>;
template struct Opened<ServerBytes, &Server::bytes_>;
template struct Opened<ServerTimeout, &Server::next_timeout_>;
template struct Opened<ServerLastTurn, &Server::last_turn_>;
template struct Opened<ServerCongested, &Server::congested_>;
template struct Opened<JobSums, &Job::aggregation_>;
template struct Opened<SumsStreams, &Aggregation::streams_>;
template struct Opened<SumsProgress, &Aggregation::progress_>;
template struct Opened<SumsLateness, &Aggregation::lateness_>;
template struct Opened<TreesOfTable, &TreeTable::trees_>;
template struct Opened<TreeLateness, &Tree::lateness_>;
template struct Opened<TreeWaiting, &Tree::waiting_>;

template <class Name, class Object>
auto& open(Object& object) {
  return object.*member_of(Name{});
}

template <class Visit>
void for_each_stream(Server& server, Visit&& visit) {
  for (auto& [range, entry] : open<ServerJobs>(server)) {
    auto& sums = open<JobSums>(entry.job);
    if (!sums) continue;
    std::uint16_t stream = range.first_stream;
    for (auto& one : open<SumsStreams>(*sums)) visit(range.key, stream++, one);
  }
}

// Calls visit(Fragment&) for each fragment in the ring.
template <class Visit>
void for_each_fragment(FragmentRing& ring, Visit&& visit) {
  const std::uint64_t end = ring.seen_end();
  std::uint64_t s = end;
  while (s > 0 && ring.place(s - 1) != RingPlace::kPast) --s;
  for (; s < end; ++s) {
    if (ring.find(s) != nullptr) visit(ring.at(s));
  }
}

}  // namespace atp::explore
