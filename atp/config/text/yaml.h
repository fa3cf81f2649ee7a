#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atp/config/text/file.h"

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

// Typed access to a YAML tree that knows the path to each value, so that whatever is wrong is named
// by file, line and key.

class YamlMap;

class YamlValue {
 public:
  YamlValue(const YamlNode& node, Place place) : node_(&node), place_(std::move(place)) {}

  const Place& place() const { return place_; }
  bool is_list() const { return node_->kind == YamlNode::Kind::kList; }
  bool is_map() const { return node_->kind == YamlNode::Kind::kMap; }

  // Each refuses whatever is not what its name says; `expected` completes "expected ...".
  std::string text(std::string_view expected) const;
  double number(std::string_view expected) const;  // finite
  int count(int least, int most) const;
  std::string one_of(std::initializer_list<std::string_view> names) const;
  std::vector<YamlValue> list(std::string_view expected) const;
  YamlMap map(std::initializer_list<std::string_view> known, std::string_view expected) const;

  // "found <this value>, expected ..."
  [[noreturn]] void refuse(std::string_view expected, std::string_view advice = {}) const;

 private:
  std::string description() const;

  const YamlNode* node_;
  Place place_;
};

// A map all of whose keys are known and stand once.
class YamlMap {
 public:
  YamlMap(const YamlNode& node, Place place, std::initializer_list<std::string_view> known);

  const Place& place() const { return place_; }
  std::optional<YamlValue> find(std::string_view key) const;
  // Refuses its absence: "... key is missing, expected <expected>".
  YamlValue need(std::string_view key, std::string_view expected) const;

 private:
  Place place_of(std::string_view key, int line) const;

  const YamlNode* node_;
  Place place_;
};

}  // namespace atp
