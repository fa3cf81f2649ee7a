#pragma once

#include <string>
#include <string_view>
#include <vector>

// A table as aligned columns for people and as CSV (RFC 4180) for programs.

namespace atp {

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : header_(std::move(header)) {}

  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.empty(); }

  // Two spaces between columns; a column whose cells all start with a digit is right-aligned.
  std::string text(std::string_view indent = "  ") const;
  std::string csv() const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace atp
