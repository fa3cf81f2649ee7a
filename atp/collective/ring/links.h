#pragma once

#include <string>
#include <vector>

#include "atp/driver/tcp/tcp_listener.h"

// The connections of a rank with its two neighbours, and how they come about.
//
// Rank r connects twice to rank r+1: once for the data of operations, which go one way only, and
// once for messages, which go both ways: that a rank is there, goes, or has failed and why. So what
// a rank has to say never stands behind data that nobody takes.

namespace atp {

struct RingOptions {
  std::size_t rank = 0;
  std::size_t world_size = 1;
  // Of the group: connections of anything else are refused. The same on all its ranks.
  std::uint64_t token = 0;
  // Numbers of the ranks in messages; empty: those of this group.
  std::vector<std::size_t> names;
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(30);
  // Without progress; the default of operations that do not say otherwise.
  std::chrono::milliseconds operation_timeout = std::chrono::seconds(30);
};

std::string rank_name(const RingOptions& options, std::size_t rank);

// From texts "HOST:PORT". Empty ones, of ranks that are no neighbours, become no endpoint.
Result<std::vector<Endpoint>> resolve_addresses(const std::vector<std::string>& texts);

struct Neighbour {
  std::string name;  // "rank 3 (10.0.0.3:4000)"
  TcpSocket data;
  TcpSocket control;
};

struct Links {
  Neighbour before;  // its data come in
  Neighbour next;    // data go out to it
};

// Blocks until both neighbours are there, or the time-out has passed. `addresses` are the listeners
// of all ranks.
Result<Links> connect_links(const TcpListener& listener, const RingOptions& options,
                            const std::vector<Endpoint>& addresses);

}  // namespace atp
