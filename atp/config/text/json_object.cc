#include "atp/config/text/json_object.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "atp/config/text/words.h"

namespace atp {

using nlohmann::json;

struct JsonObject::Member {
  json value;  // a scalar; discarded for an object or a list
  int line = 0;
};

struct JsonObject::Members {
  std::map<std::string, Member> by_key;
};

namespace {

// Iterates over the text and counts the lines that the lexer has read: when the lexer reports a
// token, the count is the token's line.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, int* line) : at_(at), line_(line) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    if (*at_++ == '\n') ++*line_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  int* line_;
};

// Implements nlohmann's SAX interface, which prescribes the names and signatures.
class MemberCollector {
 public:
  MemberCollector(const std::string& file, const int* line, JsonObject::Members& members)
      : file_(file), line_(line), members_(members) {}

  // NOLINTBEGIN(readability-identifier-naming): nlohmann's SAX interface
  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(json::number_integer_t value) { return put(value); }
  bool number_unsigned(json::number_unsigned_t value) { return put(value); }
  bool number_float(json::number_float_t value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(value); }
  bool binary(json::binary_t&) { return put(nullptr); }
  bool start_object(std::size_t) { return open(); }
  bool start_array(std::size_t) { return open(); }
  bool key(std::string& name) {
    if (depth_ == 1) {
      if (members_.by_key.contains(name)) {
        throw FileError({file_, *line_, shown(name)}, "duplicate key; remove one of the two");
      }
      current_ = name;
      members_.by_key[name] = {.value = json(json::value_t::discarded), .line = *line_};
    }
    return true;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) {
    const std::string text = error.what();
    const std::size_t reason = text.find(": ");
    throw FileError({file_, *line_, ""},
                    "not JSON: " + (reason == std::string::npos ? text : text.substr(reason + 2)));
  }
  // NOLINTEND(readability-identifier-naming)

 private:
  bool put(json value) {
    if (depth_ == 0) return refuse_root();
    if (depth_ == 1) members_.by_key[current_].value = std::move(value);
    return true;
  }
  bool open() {
    if (depth_ == 0 && opened_) return refuse_root();
    opened_ = true;
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }
  bool refuse_root() const { refuse({file_, *line_, ""}, "a bare value", "a JSON object {...}"); }

  const std::string& file_;
  const int* line_;
  JsonObject::Members& members_;
  std::string current_;
  std::size_t depth_ = 0;
  bool opened_ = false;
};

}  // namespace

JsonObject::JsonObject(std::string_view text, const std::string& file) : file_(file) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos || text[start] != '{') {
    refuse({file, 1, ""},
           start == std::string_view::npos ? "nothing" : shown(text.substr(start, 1)),
           "a JSON object {...}");
  }
  line_ += static_cast<int>(std::count(text.begin(), text.begin() + start, '\n'));
  int line = 1;
  const auto members = std::make_shared<Members>();
  MemberCollector collector(file_, &line, *members);
  json::sax_parse(CountingIterator(text.begin(), &line), CountingIterator(text.end(), &line),
                  &collector);
  members_ = members;
}

bool JsonObject::has(const std::string& key) const { return members_->by_key.contains(key); }

bool JsonObject::has_value(const std::string& key) const {
  const auto member = members_->by_key.find(key);
  return member != members_->by_key.end() && !member->second.value.is_null();
}

Place JsonObject::place(const std::string& key) const {
  const auto member = members_->by_key.find(key);
  return {file_, member == members_->by_key.end() ? line_ : member->second.line, key};
}

const JsonObject::Member& JsonObject::need(const std::string& key,
                                           std::string_view expected) const {
  const auto member = members_->by_key.find(key);
  if (member == members_->by_key.end()) {
    throw FileError(place(key), "is missing, expected " + std::string(expected) + "; add it");
  }
  return member->second;
}

void JsonObject::refuse_value(const std::string& key, std::string_view expected) const {
  const json& value = members_->by_key.at(key).value;
  std::string found = "a list or an object";
  if (value.is_string())
    found = shown(value.get_ref<const std::string&>());
  else if (!value.is_discarded())
    found = value.dump();
  refuse(place(key), found, expected);
}

std::string JsonObject::text(const std::string& key, std::string_view expected) const {
  const Member& member = need(key, expected);
  if (!member.value.is_string()) refuse_value(key, expected);
  return member.value.get<std::string>();
}

int JsonObject::count(const std::string& key) const {
  constexpr int kMax = 1 << 30;
  const std::string expected = count_text(1, kMax);
  const Member& member = need(key, expected);
  if (!member.value.is_number_integer()) refuse_value(key, expected);
  const bool positive = member.value.is_number_unsigned();
  const auto value = positive ? member.value.get<std::uint64_t>() : 0;
  if (value < 1 || value > kMax) refuse_value(key, expected);
  return static_cast<int>(value);
}

bool JsonObject::yes_or_no(const std::string& key, bool fallback) const {
  if (!has_value(key)) return fallback;
  const Member& member = members_->by_key.at(key);
  if (!member.value.is_boolean()) refuse_value(key, "true or false");
  return member.value.get<bool>();
}

}  // namespace atp
