#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "atp/base/interrupt.h"
#include "atp/collective/recorder/flight_recorder.h"
#include "atp/driver/tcp/tcp_listener.h"

// The connections of a rank with its two neighbours, and how they are made.
//
// Rank r connects twice to rank r+1: once for the data of operations, which flow in one direction,
// and once for control messages in both directions: that a rank is alive, leaves, or has failed and
// why. So a control message never waits behind data that is not read.

namespace atp {

struct RingOptions {
  std::size_t rank = 0;
  std::size_t world_size = 1;
  // Identifies the group: other connections are refused. The same on all its ranks.
  std::uint64_t token = 0;
  // The ranks' numbers in messages; empty: their numbers in this group.
  std::vector<std::size_t> names;
  // As in CommunicatorOptions.
  std::shared_ptr<RecordedGroup> recorded;
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(30);
  // Called with a message about a wait, on the ring's thread; null: the message goes to stderr.
  std::function<void(const std::string&)> on_warning;
  MaybeInterruption interruption = nullptr;  // ends connect() with this error
  // Time without progress after which an operation fails; a request may have its own.
  std::chrono::milliseconds operation_timeout = std::chrono::seconds(30);
};

std::string rank_name(const RingOptions& options, std::size_t rank);

// From texts "HOST:PORT". Empty ones, for ranks that are not neighbours, become unset endpoints.
Result<std::vector<Endpoint>> resolve_addresses(const std::vector<std::string>& texts);

struct Neighbour {
  std::string name;  // "rank 3 (10.0.0.3:4000)"
  TcpSocket data;
  TcpSocket control;
};

struct Links {
  Neighbour before;  // data comes from it
  Neighbour next;    // data goes to it
};

// Blocks until both neighbours are connected or the time-out has passed. `addresses` are those of
// all ranks' listeners.
Result<Links> connect_links(const TcpListener& listener, const RingOptions& options,
                            const std::vector<Endpoint>& addresses);

}  // namespace atp
