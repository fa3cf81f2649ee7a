#pragma once

#include <cerrno>
#include <cstring>
#include <string>

namespace atp {

// What a system call's error means, and what to do where only a limit is in the way.
inline std::string errno_text(int error) {
  std::string text = std::strerror(error);
  if (error == EMFILE) text += ": raise this process's limit of open files (ulimit -n)";
  if (error == ENFILE) text += ": raise the system's limit of open files (sysctl fs.file-max)";
  return text;
}

}  // namespace atp
