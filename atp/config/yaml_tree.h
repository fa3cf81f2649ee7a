#pragma once

#include <string>
#include <string_view>
#include <vector>

// A YAML document as plain values, each with the line that it stands on. yaml-cpp parses; the tree
// is ours, because its own loses keys that stand twice and shares nodes between aliases.
//
// Only what a file written by hand needs is accepted: one document of maps, lists and scalars.
// Tags, anchors and aliases are refused, so that a tree is a tree, no larger than its text; and
// nesting is bounded, so that no walk over it can exhaust the stack.

namespace atp {

struct YamlNode {
  enum class Kind { kEmpty, kScalar, kList, kMap };

  Kind kind = Kind::kEmpty;
  int line = 0;         // from 1
  bool quoted = false;  // a scalar in quotes is text, whatever it looks like
  std::string scalar;
  std::vector<YamlNode> keys;   // of a map, in the file's order
  std::vector<YamlNode> items;  // of a list, or a map's values
};

// Throws FileError. `file` is only named in messages.
YamlNode parse_yaml(std::string_view text, const std::string& file);

}  // namespace atp
