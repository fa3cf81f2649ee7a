#include "atp/config/xml/xml_document.h"

#include <algorithm>
#include <cstddef>
#include <pugixml.hpp>

#include "atp/config/text/plain_text.h"

namespace atp {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxElements = 100000;
constexpr std::string_view kSpace = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Copies the library's tree, and checks what the library does not.
class XmlReader {
 public:
  XmlReader(std::string_view text, const std::string& file) : file_(file) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') ends_.push_back(i);
    }
  }

  int line_at(std::ptrdiff_t offset) const {
    const auto past = std::lower_bound(
        ends_.begin(), ends_.end(), static_cast<std::size_t>(std::max<std::ptrdiff_t>(offset, 0)));
    return static_cast<int>(past - ends_.begin()) + 1;
  }

  XmlElement copy(const pugi::xml_node& node, int depth) {
    XmlElement element{.name = node.name(), .line = line_at(node.offset_debug())};
    if (!is_plain(element.name)) refuse(element.place(file_), shown(element.name), "a plain name");
    if (depth > kMaxDepth) {
      refuse(element.place(file_), "elements nested more than 64 deep", "at most 64");
    }
    if (++count_ > kMaxElements) {
      refuse(element.place(file_), "more than 100,000 elements", "at most 100,000");
    }
    for (const pugi::xml_attribute& attribute : node.attributes()) {
      if (element.attribute(attribute.name())) {
        refuse(element.place(file_, attribute.name()), "the attribute twice", "it once");
      }
      element.attributes.emplace_back(attribute.name(), attribute.value());
    }
    for (const pugi::xml_node& child : node.children()) {
      if (child.type() == pugi::node_element) {
        element.children.push_back(copy(child, depth + 1));
      } else {
        element.text += trimmed(child.value());
      }
    }
    return element;
  }

 private:
  std::string file_;
  std::vector<std::size_t> ends_;  // of lines
  std::size_t count_ = 0;
};

}  // namespace

std::optional<std::string_view> XmlElement::attribute(std::string_view key) const {
  for (const auto& [own_key, value] : attributes) {
    if (own_key == key) return value;
  }
  return std::nullopt;
}

Place XmlElement::place(const std::string& file, std::string_view key) const {
  return {file, line, key.empty() ? made_plain(name) : made_plain(name + "." + std::string(key))};
}

XmlElement parse_xml(std::string_view text, const std::string& file) {
  XmlReader reader(text, file);
  const std::size_t zero = text.find('\0');
  if (zero != std::string_view::npos) {
    refuse({file, reader.line_at(static_cast<std::ptrdiff_t>(zero)), ""}, "a zero byte",
           "XML, which is text");
  }
  pugi::xml_document document;
  // As a fragment, so that text around the outermost element is seen instead of skipped.
  const pugi::xml_parse_result result = document.load_buffer(
      text.data(), text.size(), pugi::parse_default | pugi::parse_fragment, pugi::encoding_utf8);
  if (!result) {
    throw FileError({file, reader.line_at(result.offset), ""},
                    "not XML (" + std::string(result.description()) + "); was the file truncated?");
  }
  std::optional<XmlElement> root;
  for (const pugi::xml_node& node : document.children()) {
    if (node.type() != pugi::node_element) {
      refuse({file, 0, ""}, "the text " + shown(trimmed(node.value())) + " outside of all elements",
             "one element");
    }
    if (root) {
      refuse({file, reader.line_at(node.offset_debug()), ""},
             "a second outermost element, " + shown(node.name()), "one", "split the file");
    }
    root = reader.copy(node, 1);
  }
  if (!root) refuse({file, 0, ""}, "no element", "an XML file with one", "was the file truncated?");
  return std::move(*root);
}

std::string_view xml_root_name(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (true) {
    text = text.substr(std::min(text.find_first_not_of(kSpace), text.size()));
    std::string_view end;
    if (text.starts_with("<!--")) {
      end = "-->";
    } else if (text.starts_with("<?")) {
      end = "?>";
    } else if (text.starts_with("<!")) {
      end = ">";
    } else {
      break;
    }
    const std::size_t at = text.find(end);
    if (at == std::string_view::npos) return {};
    text.remove_prefix(at + end.size());
  }
  if (!text.starts_with('<')) return {};
  text.remove_prefix(1);
  return text.substr(0, text.find_first_of(" \t\r\n/>"));
}

}  // namespace atp
