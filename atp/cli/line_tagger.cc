#include "atp/cli/line_tagger.h"

namespace atp {

std::string LineTagger::add(std::string_view bytes) {
  std::string out;
  for (std::size_t end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    out += tag_;
    out += begun_;
    out += bytes.substr(0, end + 1);
    begun_.clear();
    bytes.remove_prefix(end + 1);
  }
  begun_ += bytes;
  return out;
}

std::string LineTagger::finish() { return begun_.empty() ? std::string() : add("\n"); }

}  // namespace atp
