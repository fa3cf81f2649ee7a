#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atp/config/text/file.h"

// An XML file as a tree of elements that know their lines. Files of other programs are small and
// flat, so one with elements nested more than 64 deep, or more than 100,000 in total, is
// refused.

namespace atp {

struct XmlElement {
  std::string name;
  int line = 0;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<XmlElement> children;
  std::string text;  // between its children, without white space at its ends

  std::optional<std::string_view> attribute(std::string_view key) const;
  // The place of the element or of one of its attributes, for messages: "topo.xml:7: pci.busid".
  Place place(const std::string& file, std::string_view key = {}) const;
};

// The outermost element. Throws FileError if the text is not one whole element.
XmlElement parse_xml(std::string_view text, const std::string& file);

// The name of the outermost element of a text that looks like XML; empty if it does not.
std::string_view xml_root_name(std::string_view text);

}  // namespace atp
