#include "atp/config/text_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "atp/config/file_error.h"

namespace atp {

std::string read_text_file(const std::string& path) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
  const auto close = [](std::FILE* file) { std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rb"), close);
  if (!file) throw FileError({path, 0, ""}, std::string("cannot be read: ") + std::strerror(errno));
  std::string text(kMaxBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) {
    throw FileError({path, 0, ""}, std::string("cannot be read: ") + std::strerror(errno));
  }
  if (text.size() > kMaxBytes) {
    refuse({path, 0, ""}, "more than 1 MiB", "a description of some kilobytes");
  }
  return text;
}

}  // namespace atp
