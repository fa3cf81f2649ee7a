#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "atp/config/file_error.h"
#include "atp/config/yaml_tree.h"

// Typed access to a YAML tree that knows the way to each value, so that whatever is wrong is named
// by file, line and key.

namespace atp {

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
