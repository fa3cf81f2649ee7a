#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "atp/cli/node/serve.h"

// A switch or a server of several lanes. One event loop is one core, so a node that is to carry
// more is several nodes, each a process of its own on one of consecutive ports. They share nothing:
// a rank spreads its tensors over the lanes as it does over servers, and all ranks send what is to
// be added up through the same lane (ATP_ROUTE with ranges of ports).

namespace atp {

// The options of one lane of `options.lanes`: its port, its file of counters. Throws CommandError
// where the ports do not exist.
ServeOptions options_of_lane(const ServeOptions& options, const Endpoint& listen,
                             std::uint32_t lane);

// "127.0.0.1:5500-5503"
std::string text_of_lanes(const ServeOptions& options, const Endpoint& listen);

// Calls `serve_one` in a process for each lane and passes on the signals that end them. When one
// has ended, so do the others: what is left would serve half of a tensor. With one lane it is
// called here. Returns in a lane when that has ended; throws CommandEnd if one has failed.
void serve_in_lanes(std::string_view role, const ServeOptions& options,
                    const std::function<void(const ServeOptions&)>& serve_one);

}  // namespace atp
