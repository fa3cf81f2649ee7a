#include "atp/config/text/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <span>
#include <sstream>
#include <utility>

#include "atp/base/nearest_name.h"
#include "atp/config/text/file.h"
#include "atp/config/text/plain_text.h"
#include "atp/config/text/words.h"

namespace atp {
namespace {

constexpr std::size_t kMaxDepth = 16;

// Builds the tree from yaml-cpp's events. `open_` holds the lists and maps around the next event.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::string& file) : file_(file) {}
  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}                    // NOLINT: yaml-cpp's names
  void OnDocumentEnd() override {}                                       // NOLINT
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {  // NOLINT
    add({.kind = YamlNode::Kind::kEmpty, .line = line(mark)}, "", anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {  // NOLINT
    refuse_reuse(line(mark));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,  // NOLINT
                const std::string& value) override {
    add({.kind = YamlNode::Kind::kScalar,
         .line = line(mark),
         .quoted = tag == "!",
         .scalar = value},
        tag, anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag,  // NOLINT
                       YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open({.kind = YamlNode::Kind::kList, .line = line(mark)}, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }                       // NOLINT
  void OnMapStart(const YAML::Mark& mark, const std::string& tag,  // NOLINT
                  YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open({.kind = YamlNode::Kind::kMap, .line = line(mark)}, tag, anchor);
  }
  void OnMapEnd() override { close(); }  // NOLINT

 private:
  struct Open {
    YamlNode node;
    bool has_key = false;  // in a map: the key has been read, but not its value
  };

  static int line(const YAML::Mark& mark) { return mark.line + 1; }

  [[noreturn]] void refuse_reuse(int line) const {
    refuse({file_, line, ""}, "an anchor (&name) or an alias (*name)", "plain values",
           "repeat the value instead");
  }

  // yaml-cpp tags plain values with "?", quoted ones with "!".
  void check(const YamlNode& node, const std::string& tag, YAML::anchor_t anchor) const {
    if (anchor != 0) refuse_reuse(node.line);
    if (!tag.empty() && tag != "?" && tag != "!") {
      refuse({file_, node.line, ""}, "the tag " + shown(tag), "plain values", "remove it");
    }
  }

  void open(YamlNode node, const std::string& tag, YAML::anchor_t anchor) {
    check(node, tag, anchor);
    if (open_.size() == kMaxDepth) {
      refuse({file_, node.line, ""}, "lists and maps nested deeper than 16", "at most 16");
    }
    open_.push_back({.node = std::move(node)});
  }

  void close() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    put(std::move(node));
  }

  void add(YamlNode node, const std::string& tag, YAML::anchor_t anchor) {
    check(node, tag, anchor);
    put(std::move(node));
  }

  void put(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == YamlNode::Kind::kList) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.has_key) {
      parent.node.keys.push_back(std::move(node));
      parent.has_key = true;
    } else {
      parent.node.items.push_back(std::move(node));
      parent.has_key = false;
    }
  }

  const std::string& file_;
  std::vector<Open> open_;
  YamlNode root_;
};

std::span<const std::string_view> as_span(std::initializer_list<std::string_view> names) {
  return {names.begin(), names.size()};
}

}  // namespace

YamlNode parse_yaml(std::string_view text, const std::string& file) {
  if (text.size() > kMaxFileBytes) {
    refuse({file, 0, ""}, std::to_string(text.size()) + " bytes", "at most 8 MiB");
  }
  std::istringstream stream{std::string(text)};
  TreeBuilder builder(file);
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) {
      refuse({file, 0, ""}, "nothing", "a YAML document");
    }
    YamlNode root = builder.take();
    if (parser) {
      TreeBuilder ignored(file);
      if (parser.HandleNextDocument(ignored)) {
        refuse({file, ignored.take().line, ""}, "a second document", "one",
               "remove everything after ---");
      }
    }
    return root;
  } catch (const YAML::Exception& error) {
    throw FileError({file, error.mark.line + 1, ""}, "not YAML: " + error.msg);
  }
}

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
      atp::refuse({place_.file, key.line, place_.key}, "a key that is not a word",
                  listed(as_span(known)));
    }
    if (std::find(known.begin(), known.end(), key.scalar) == known.end()) {
      throw FileError(place_of(shown(key.scalar), key.line),
                      "unknown key; " + hint(key.scalar, as_span(known)));
    }
    if (std::find(seen.begin(), seen.end(), key.scalar) != seen.end()) {
      throw FileError(place_of(key.scalar, key.line), "duplicate key; remove one of the two");
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
