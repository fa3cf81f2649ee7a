#include "atp/config/text/file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "atp/config/text/plain_text.h"

namespace atp {
namespace {

std::string read_all(std::FILE* file, const std::string& name) {
  std::string text(kMaxFileBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  if (std::ferror(file) != 0) {
    throw FileError({name, 0, ""}, std::string("cannot be read: ") + std::strerror(errno));
  }
  if (text.size() > kMaxFileBytes) {
    refuse({name, 0, ""}, "more than 8 MiB", "a description of a few kilobytes");
  }
  text.shrink_to_fit();
  return text;
}

}  // namespace

std::string Place::text() const {
  std::string text = file;
  if (line > 0) text += ":" + std::to_string(line);
  if (!key.empty()) text += ": " + key;
  return text;
}

void refuse(const Place& place, std::string_view found, std::string_view expected,
            std::string_view advice) {
  std::string problem = "found " + std::string(found) + ", expected " + std::string(expected);
  if (!advice.empty()) problem += "; " + std::string(advice);
  throw FileError(place, problem);
}

FileError::FileError(const Place& place, std::string_view problem)
    : std::runtime_error(made_plain(place.text() + ": " + std::string(problem))) {}

std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  if (text.size() <= kLongest) return "\"" + made_plain(text) + "\"";
  std::size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return "\"" + made_plain(text.substr(0, end)) + "...\"";
}

std::string input_name(const std::string& path) { return path == "-" ? "standard input" : path; }

std::optional<std::string> why_reading_may_wait(const std::string& path) {
  if (path == "-") return "standard input cannot be read again; give the file's name";
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return {};
  return path +
         ": found a pipe, a folder or a device, expected a regular file; write one, and try "
         "again";
}

std::string read_text_file(const std::string& path) {
  if (path == "-") return read_all(stdin, input_name(path));
  const auto close = [](std::FILE* file) { std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rb"), close);
  if (!file) throw FileError({path, 0, ""}, std::string("cannot be read: ") + std::strerror(errno));
  return read_all(file.get(), path);
}

}  // namespace atp
