#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "atp/cli/node/serve.h"

// A switch or server with several lanes. An event loop uses one core, so a node that needs more
// runs as several nodes: processes on consecutive ports that share nothing. Ranks spread their
// tensors over the lanes as over servers, and all ranks send the same fragment through the same
// lane (ATP_ROUTE with port ranges).

namespace atp {

// The options of one of `options.lanes` lanes, with its own port and counter file. Throws
// CommandError if the ports do not exist.
ServeOptions options_of_lane(const ServeOptions& options, const Endpoint& listen,
                             std::uint32_t lane);

// "127.0.0.1:5500-5503"
std::string text_of_lanes(const ServeOptions& options, const Endpoint& listen);

// Calls `serve_one` in one process per lane and forwards the signals that end them. When a lane
// ends, the others end too: they would serve only part of a tensor. Only one that has drained
// leaves them alone, because their last jobs end at about the same time as its own. A single lane
// runs in this process. Returns when all lanes have ended; throws CommandEnd in a lane, and if one
// failed.
void serve_in_lanes(std::string_view role, const ServeOptions& options,
                    const std::function<ServeEnd(const ServeOptions&)>& serve_one);

}  // namespace atp
