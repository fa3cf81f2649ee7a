#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>

#include "atp/wire/endpoint.h"

// Whose process is at the other end of a TCP connection that never leaves this machine, according
// to the kernel. An address of this machine shows where a client is, not who: on a host with
// several users it could be anybody's.

namespace atp {

// The user of the socket that is bound to `peer` and connected to `own`. Nothing if the kernel
// lists none: the client is on another machine or in another network namespace, or has left, or has
// closed its socket while its last bytes are on their way.
std::optional<uid_t> owner_of_connection(const Endpoint& own, const Endpoint& peer);

// The same, from the text of /proc/net/tcp or /proc/net/tcp6.
std::optional<uid_t> owner_in_table(std::string_view table, const Endpoint& own,
                                    const Endpoint& peer);

}  // namespace atp
