#include "atp/config/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <sstream>
#include <utility>

#include "atp/config/file_error.h"
#include "atp/config/text_file.h"

namespace atp {
namespace {

constexpr std::size_t kMaxDepth = 16;

// Collects yaml-cpp's events into the tree. `open_` are the lists and maps around the next event.
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
    bool has_key = false;  // of a map: the key is read, its value not yet
  };

  static int line(const YAML::Mark& mark) { return mark.line + 1; }

  [[noreturn]] void refuse_reuse(int line) const {
    refuse({file_, line, ""}, "an anchor (&name) or an alias (*name)", "plain values",
           "write the value out where it is needed");
  }

  // "?" is yaml-cpp's tag of plain values, "!" that of quoted ones.
  void check(const YamlNode& node, const std::string& tag, YAML::anchor_t anchor) const {
    if (anchor != 0) refuse_reuse(node.line);
    if (!tag.empty() && tag != "?" && tag != "!") {
      refuse({file_, node.line, ""}, "the tag " + shown(tag), "plain values", "remove it");
    }
  }

  void open(YamlNode node, const std::string& tag, YAML::anchor_t anchor) {
    check(node, tag, anchor);
    if (open_.size() == kMaxDepth) {
      refuse({file_, node.line, ""}, "lists and maps nested deeper than 16",
             "at most a few levels");
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
               "remove what follows ---");
      }
    }
    return root;
  } catch (const YAML::Exception& error) {
    throw FileError({file, error.mark.line + 1, ""}, "not YAML: " + error.msg);
  }
}

}  // namespace atp
