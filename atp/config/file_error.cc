#include "atp/config/file_error.h"

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

std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::string out = "\"";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? ' ' : c;
  }
  return out + (text.size() > kLongest ? "...\"" : "\"");
}

}  // namespace atp
