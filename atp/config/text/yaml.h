#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atp/config/text/file.h"

// A YAML document as plain values, each with its line. yaml-cpp parses, but the tree is our own:
// yaml-cpp's loses duplicate keys and shares nodes between aliases.
//
// It accepts only what files written by hand need: one document of maps, lists and scalars. Tags,
// anchors and aliases are refused, so the tree is no larger than its text. Nesting is bounded, so
// that recursion cannot exhaust the stack.

namespace atp {

struct YamlNode {
  enum class Kind { kEmpty, kScalar, kList, kMap };

  Kind kind = Kind::kEmpty;
  int line = 0;         // from 1
  bool quoted = false;  // a quoted scalar is text even if it looks like a number
  std::string scalar;
  std::vector<YamlNode> keys;   // a map's, in the file's order
  std::vector<YamlNode> items;  // a list's items or a map's values
};

// Throws FileError. `file` is used only in messages.
YamlNode parse_yaml(std::string_view text, const std::string& file);

// Typed access to a YAML tree. It knows the path to each value, so errors name file, line and key.

class YamlMap;

class YamlValue {
 public:
  YamlValue(const YamlNode& node, Place place) : node_(&node), place_(std::move(place)) {}

  const Place& place() const { return place_; }
  bool is_list() const { return node_->kind == YamlNode::Kind::kList; }
  bool is_map() const { return node_->kind == YamlNode::Kind::kMap; }

  // Each refuses a value of another type; `expected` completes "expected ...".
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

// A map without unknown or duplicate keys.
class YamlMap {
 public:
  YamlMap(const YamlNode& node, Place place, std::initializer_list<std::string_view> known);

  const Place& place() const { return place_; }
  std::optional<YamlValue> find(std::string_view key) const;
  // Refuses a missing key: "... key is missing, expected <expected>".
  YamlValue need(std::string_view key, std::string_view expected) const;

 private:
  Place place_of(std::string_view key, int line) const;

  const YamlNode* node_;
  Place place_;
};

}  // namespace atp
