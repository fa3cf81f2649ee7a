#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "atp/config/text/file.h"

// The members of a JSON file's outermost object, each with its line. nlohmann's own documents do
// not record positions, so this collects the parser's events. If a member's value is an object or a
// list, only its name is kept.

namespace atp {

class JsonObject {
 public:
  // Throws FileError. `file` is used only in messages.
  JsonObject(std::string_view text, const std::string& file);

  bool has(const std::string& key) const;
  // Whether the key is present and not null.
  bool has_value(const std::string& key) const;
  // The place of the object if the key is absent.
  Place place(const std::string& key) const;

  // Each refuses a value of another type, and a missing key.
  std::string text(const std::string& key, std::string_view expected) const;
  int count(const std::string& key) const;  // 1 to 2^30
  // Returns the fallback if the key is absent or null.
  bool yes_or_no(const std::string& key, bool fallback) const;

  // Defined in the source file, to hide nlohmann's types.
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
