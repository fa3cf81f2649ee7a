#include "atp/config/xml/xml_document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace atp {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string error_of(std::string_view text) {
  const Result<XmlElement> parsed = read_or_error([&] { return parse_xml(text, "f"); });
  return parsed ? "" : parsed.error().message;
}

TEST(XmlDocument, ElementsKnowTheirLinesAttributesAndTexts) {
  const XmlElement root = parse_xml(
      "\xef\xbb\xbf<?xml version=\"1.0\"?>\n<!DOCTYPE a SYSTEM \"a.dtd\">\n<!-- b -->\n"
      "<a x=\"1 &lt; 2\">\n  <b/>\n\n  <c y='3'> 4 5 </c>\n</a>\n",
      "f");
  EXPECT_EQ(root.name, "a");
  EXPECT_EQ(root.line, 4);
  EXPECT_EQ(root.attribute("x"), "1 < 2");
  EXPECT_EQ(root.attribute("y"), std::nullopt);
  ASSERT_EQ(root.children.size(), 2u);
  EXPECT_EQ(root.children[0].line, 5);
  EXPECT_EQ(root.children[1].line, 7);
  EXPECT_EQ(root.children[1].text, "4 5");
  EXPECT_EQ(root.children[1].place("f", "y").text(), "f:7: c.y");
}

TEST(XmlDocument, WhatIsNotOneWholeElementIsRefusedWithItsLine) {
  const std::string deep = [] {
    std::string text;
    for (int i = 0; i < 65; ++i) text += "<a>";
    for (int i = 0; i < 65; ++i) text += "</a>";
    return text;
  }();
  std::string many = "<a>";
  for (int i = 0; i < 100000; ++i) many += "<b/>";
  many += "</a>";
  const struct {
    const char* name;
    std::string text;
    const char* begins;
    const char* has;
  } rows[] = {
      {"an empty file", "", "f: found no element", "was the file truncated?"},
      {"space alone", " \n\n", "f: found no element", "expected an XML file"},
      {"text", "GPU0\n", "f: found the text \"GPU0\"", "one element"},
      {"text after the end", "<a/>\nrest", "f: found the text \"rest\"", "one element"},
      {"an element that never ends", "<a>\n<b>\n</b>\n", "f:3: not XML", "truncated"},
      {"a tag that never ends", "<a>\n<b x=\"1", "f:2: not XML", "truncated"},
      {"tags that cross", "<a>\n<b>\n</a></b>", "f:3: not XML", "mismatch"},
      {"two files in one", "<a/>\n<a/>\n", "f:2: found a second outermost element", "split"},
      {"an attribute twice", "<a>\n<b x='1' x='2'/></a>", "f:2: b.x: found the attribute twice",
       "expected it once"},
      {"a zero byte", std::string("<a>\n\0</a>", 9), "f:2: found a zero byte", "text"},
      {"a deep tree", deep, "f:1: a: found elements nested more than 64 deep", "at most 64"},
      {"a huge tree", many, "f:1: b: found more than 100,000 elements", "at most 100,000"},
  };
  for (const auto& row : rows) {
    const std::string error = error_of(row.text);
    EXPECT_THAT(error, StartsWith(row.begins)) << row.name;
    EXPECT_THAT(error, HasSubstr(row.has)) << row.name;
  }
}

TEST(XmlDocument, TheOutermostNameIsFoundAfterWhateverPrecedesIt) {
  const struct {
    const char* text;
    const char* name;
  } rows[] = {
      {"<system version=\"1\">", "system"},
      {"\xef\xbb\xbf\n<?xml version=\"1.0\"?>\n<!DOCTYPE t>\n<!-- <a> -->\n<topology/>",
       "topology"},
      {"<a>", "a"},
      {"<!-- <system>", ""},
      {"GPU0 <system>", ""},
      {"", ""},
      {"<", ""},
  };
  for (const auto& row : rows) EXPECT_EQ(xml_root_name(row.text), row.name) << row.text;
}

}  // namespace
}  // namespace atp
