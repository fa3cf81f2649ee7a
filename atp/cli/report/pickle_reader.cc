#include "atp/cli/report/pickle_reader.h"

#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace atp {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostDepth = 16;

// A stack machine: values are pushed, and containers take those above the last mark.
class PickleReader {
 public:
  explicit PickleReader(std::string_view bytes) : left_(bytes) {}

  Result<Json> read() {
    if (!left_.starts_with("\x80\x02")) return Error{"it is not a pickle of protocol 2"};
    left_.remove_prefix(2);
    while (!why_not_) {
      const std::optional<char> code = next();
      if (!code) break;
      if (*code == '.') return result();
      step(*code);
    }
    return Error{why_not_.value_or("it ends too early")};
  }

 private:
  void step(char code) {
    switch (code) {
      case '}': return push(Json::object());
      case ']': return push(Json::array());
      case '(':
        marks_.push_back(values_.size());
        if (marks_.size() > kMostDepth) fail("it is nested too deeply");
        return;
      case 'u': return set_items();
      case 'e': return append();
      case '\x86': return make_pair();
      case 'N': return push(Json());
      case '\x88': return push(true);
      case '\x89': return push(false);
      case 'J': return push_integer(4);
      case '\x8a':
        if (next() != '\x08') return fail("it contains a number of an unexpected length");
        return push_integer(8);
      case 'G': return push_real();
      case 'X': return push_text();
      default: fail("it contains pickle codes that atp does not write");
    }
  }

  Result<Json> result() {
    if (values_.size() != 1 || !marks_.empty()) return Error{"it ends too early"};
    return std::move(values_.front());
  }
  void fail(const char* why) {
    if (!why_not_) why_not_ = why;
  }
  void push(Json value) { values_.push_back(std::move(value)); }
  std::optional<char> next() {
    if (left_.empty()) return std::nullopt;
    const char code = left_.front();
    left_.remove_prefix(1);
    return code;
  }
  std::optional<std::uint64_t> little_endian(std::size_t count) {
    if (left_.size() < count) {
      fail("it ends too early");
      return std::nullopt;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(left_[i])} << (8 * i);
    }
    left_.remove_prefix(count);
    return value;
  }
  void push_integer(std::size_t bytes) {
    const auto value = little_endian(bytes);
    if (!value) return;
    push(bytes == 4 ? std::int64_t{static_cast<std::int32_t>(*value)}
                    : static_cast<std::int64_t>(*value));
  }
  void push_real() {
    if (left_.size() < 8) return fail("it ends too early");
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < 8; ++i) bits = bits << 8 | static_cast<unsigned char>(left_[i]);
    left_.remove_prefix(8);
    push(std::bit_cast<double>(bits));
  }
  void push_text() {
    const auto size = little_endian(4);
    if (!size) return;
    if (left_.size() < *size) return fail("it ends too early");
    std::string text(left_.substr(0, *size));
    left_.remove_prefix(*size);
    for (const char each : text) {
      if (each < ' ' || each > '~') return fail("it contains text that is not printable");
    }
    push(std::move(text));
  }
  // The values above the last mark, which may not be below the container that takes them.
  std::optional<std::vector<Json>> taken() {
    if (marks_.empty() || marks_.back() == 0) {
      fail("its containers do not match");
      return std::nullopt;
    }
    const auto first = values_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Json> items(std::make_move_iterator(first), std::make_move_iterator(values_.end()));
    values_.erase(first, values_.end());
    marks_.pop_back();
    return items;
  }
  void set_items() {
    auto items = taken();
    if (!items) return;
    if (!values_.back().is_object() || items->size() % 2 != 0) {
      return fail("its containers do not match");
    }
    for (std::size_t i = 0; i < items->size(); i += 2) {
      if (!(*items)[i].is_string()) return fail("it contains a key that is not a string");
      values_.back()[(*items)[i].get_ref<const std::string&>()] = std::move((*items)[i + 1]);
    }
  }
  void append() {
    auto items = taken();
    if (!items) return;
    if (!values_.back().is_array()) return fail("its containers do not match");
    values_.back() = Json::array_t(std::move(*items));
  }
  void make_pair() {
    const std::size_t base = marks_.empty() ? 0 : marks_.back();
    if (values_.size() < base + 2) return fail("its containers do not match");
    Json pair = Json::array();
    pair.push_back(std::move(values_[values_.size() - 2]));
    pair.push_back(std::move(values_.back()));
    values_.pop_back();
    values_.back() = std::move(pair);
  }

  std::string_view left_;
  std::vector<Json> values_;
  std::vector<std::size_t> marks_;
  std::optional<std::string> why_not_;
};

}  // namespace

Result<Json> read_pickle(std::string_view bytes) { return PickleReader(bytes).read(); }

}  // namespace atp
