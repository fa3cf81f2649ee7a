#include "atp/config/text_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "atp/config/file_error.h"

namespace atp {

namespace {

std::string read_all(std::FILE* file, const std::string& name) {
  std::string text(kMaxFileBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  if (std::ferror(file) != 0) {
    throw FileError({name, 0, ""}, std::string("cannot be read: ") + std::strerror(errno));
  }
  if (text.size() > kMaxFileBytes) {
    refuse({name, 0, ""}, "more than 8 MiB", "a description of some kilobytes");
  }
  text.shrink_to_fit();
  return text;
}

}  // namespace

std::string input_name(const std::string& path) { return path == "-" ? "standard input" : path; }

std::string read_text_file(const std::string& path) {
  if (path == "-") return read_all(stdin, input_name(path));
  const auto close = [](std::FILE* file) { std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rb"), close);
  if (!file) throw FileError({path, 0, ""}, std::string("cannot be read: ") + std::strerror(errno));
  return read_all(file.get(), path);
}

}  // namespace atp
