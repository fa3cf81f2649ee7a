#include "atp/config/yaml_reader.h"

#include <algorithm>
#include <span>

#include "atp/config/nearest_name.h"
#include "atp/config/number.h"
#include "atp/config/plain_text.h"

namespace atp {
namespace {

std::span<const std::string_view> as_span(std::initializer_list<std::string_view> names) {
  return {names.begin(), names.size()};
}

}  // namespace

std::string YamlValue::description() const {
  switch (node_->kind) {
    case YamlNode::Kind::kEmpty: return "nothing";
    case YamlNode::Kind::kScalar: return shown(node_->scalar);
    case YamlNode::Kind::kList: return "a list";
    case YamlNode::Kind::kMap: return "a map";
  }
  return "nothing";
}

void YamlValue::refuse(std::string_view expected, std::string_view advice) const {
  atp::refuse(place_, description(), expected, advice);
}

std::string YamlValue::text(std::string_view expected) const {
  if (node_->kind != YamlNode::Kind::kScalar || node_->scalar.empty()) refuse(expected);
  if (!is_plain(node_->scalar)) {
    refuse(std::string(expected) + ", in UTF-8 and without control characters");
  }
  return node_->scalar;
}

double YamlValue::number(std::string_view expected) const {
  const std::optional<double> value = node_->quoted ? std::nullopt : parse_number(text(expected));
  if (!value) refuse(expected);
  return *value;
}

int YamlValue::count(int least, int most) const {
  const std::string expected = count_text(least, most);
  const std::optional<long long> value =
      node_->quoted ? std::nullopt : parse_integer(text(expected));
  if (!value || *value < least || *value > most) refuse(expected);
  return static_cast<int>(*value);
}

std::string YamlValue::one_of(std::initializer_list<std::string_view> names) const {
  const std::string expected = listed(as_span(names));
  std::string word = text(expected);
  if (std::find(names.begin(), names.end(), word) == names.end()) {
    const std::string_view near = nearest_name(word, as_span(names));
    refuse(expected, near.empty() ? "" : "did you mean " + std::string(near) + "?");
  }
  return word;
}

std::vector<YamlValue> YamlValue::list(std::string_view expected) const {
  if (node_->kind != YamlNode::Kind::kList) refuse(expected);
  std::vector<YamlValue> values;
  for (std::size_t i = 0; i < node_->items.size(); ++i) {
    const YamlNode& item = node_->items[i];
    values.emplace_back(item,
                        Place{place_.file, item.line, place_.key + "[" + std::to_string(i) + "]"});
  }
  return values;
}

YamlMap YamlValue::map(std::initializer_list<std::string_view> known,
                       std::string_view expected) const {
  if (node_->kind != YamlNode::Kind::kMap) refuse(expected);
  return YamlMap(*node_, place_, known);
}

YamlMap::YamlMap(const YamlNode& node, Place place, std::initializer_list<std::string_view> known)
    : node_(&node), place_(std::move(place)) {
  std::vector<std::string_view> seen;
  for (const YamlNode& key : node.keys) {
    if (key.kind != YamlNode::Kind::kScalar) {
      atp::refuse({place_.file, key.line, place_.key}, "a key that is no word",
                  listed(as_span(known)));
    }
    if (std::find(known.begin(), known.end(), key.scalar) == known.end()) {
      throw FileError(place_of(shown(key.scalar), key.line),
                      "is no key known here; " + hint(key.scalar, as_span(known)));
    }
    if (std::find(seen.begin(), seen.end(), key.scalar) != seen.end()) {
      throw FileError(place_of(key.scalar, key.line), "stands here twice; remove one of the two");
    }
    seen.push_back(key.scalar);
  }
}

Place YamlMap::place_of(std::string_view key, int line) const {
  return {place_.file, line, (place_.key.empty() ? "" : place_.key + ".") + std::string(key)};
}

std::optional<YamlValue> YamlMap::find(std::string_view key) const {
  for (std::size_t i = 0; i < node_->keys.size(); ++i) {
    if (node_->keys[i].scalar != key) continue;
    return YamlValue(node_->items[i], place_of(key, node_->keys[i].line));
  }
  return std::nullopt;
}

YamlValue YamlMap::need(std::string_view key, std::string_view expected) const {
  std::optional<YamlValue> value = find(key);
  if (!value) {
    throw FileError(place_of(key, node_->line),
                    "is missing, expected " + std::string(expected) + "; add it");
  }
  return *value;
}

}  // namespace atp
