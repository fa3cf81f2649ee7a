#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "atp/config/text/file.h"

// The members of a JSON file's outermost object, each with its line. The parser is nlohmann's,
// whose documents forget where a value stood; members whose value is an object or a list are kept
// by name only.

namespace atp {

class JsonObject {
 public:
  // Throws FileError. `file` is only named in messages.
  JsonObject(std::string_view text, const std::string& file);

  bool has(const std::string& key) const;
  // Present and neither null nor absent.
  bool has_value(const std::string& key) const;
  // The object's, if the key is absent.
  Place place(const std::string& key) const;

  // Each refuses whatever is not what its name says, and absence.
  std::string text(const std::string& key, std::string_view expected) const;
  int count(const std::string& key) const;  // 1 to 2^30
  // The fallback if it is absent or null.
  bool yes_or_no(const std::string& key, bool fallback) const;

  // Nobody else needs to know nlohmann's types.
  struct Member;
  struct Members;

 private:
  const Member& need(const std::string& key, std::string_view expected) const;
  [[noreturn]] void refuse_value(const std::string& key, std::string_view expected) const;

  std::string file_;
  int line_ = 1;  // of the opening brace
  std::shared_ptr<const Members> members_;
};

}  // namespace atp
