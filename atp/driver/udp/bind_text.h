#pragma once

#include <cerrno>
#include <string>

#include "atp/base/errno_text.h"

namespace atp {

// Why bind() refuses an address, and what to do.
inline std::string bind_text(int error) {
  switch (error) {
    case EADDRINUSE: return "address already in use; choose another port";
    case EADDRNOTAVAIL: return "no interface of this machine has that address";
    case EACCES: return "permission denied; ports below 1024 usually need root";
    default: return errno_text(error);
  }
}

}  // namespace atp
