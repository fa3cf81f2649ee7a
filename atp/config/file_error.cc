#include "atp/config/file_error.h"

#include "atp/config/plain_text.h"

namespace atp {

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

}  // namespace atp
