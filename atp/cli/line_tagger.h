#pragma once

#include <string>
#include <string_view>

namespace atp {

// Puts a tag before each line of a stream that comes in pieces. Only whole lines go out, so the
// lines of several ranks never mix.
class LineTagger {
 public:
  explicit LineTagger(std::string tag) : tag_(std::move(tag)) {}

  // Returns the tagged lines that `bytes` completes.
  std::string add(std::string_view bytes);
  // The stream has ended: what remains, as a line.
  std::string finish();

 private:
  std::string tag_;
  std::string begun_;  // the line that is not complete yet
};

}  // namespace atp
