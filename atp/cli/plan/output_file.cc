#include "atp/cli/plan/output_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "atp/cli/command.h"

namespace atp {

void write_output_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw CommandError(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
}

}  // namespace atp
