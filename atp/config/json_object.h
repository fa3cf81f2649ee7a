#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "atp/config/file_error.h"

// The members of a JSON file's outermost object, each with its line. The parser is nlohmann's,
// whose documents forget where a value stood; members whose value is an object or a list are kept
// by name only.

namespace atp {

class JsonObject {
 public:
  // Throws FileError. `file` is only named in messages.
  JsonObject(std::string_view text, const std::string& file);

  bool has(const std::string& key) const { return members_.contains(key); }
  // Present and neither null nor absent.
  bool has_value(const std::string& key) const;
  // The object's, if the key is absent.
  Place place(const std::string& key) const;

  // Each refuses whatever is not what its name says, and absence.
  std::string text(const std::string& key, std::string_view expected) const;
  int count(const std::string& key) const;  // 1 to 2^30
  // The fallback if it is absent or null.
  bool yes_or_no(const std::string& key, bool fallback) const;

  struct Member {
    nlohmann::json value;  // a scalar; discarded for an object or a list
    int line = 0;
  };

 private:
  const Member& need(const std::string& key, std::string_view expected) const;
  [[noreturn]] void refuse_value(const std::string& key, std::string_view expected) const;

  std::string file_;
  int line_ = 1;  // of the opening brace
  std::map<std::string, Member> members_;
};

}  // namespace atp
