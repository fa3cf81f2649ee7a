#include "atp/cli/command/text_table.h"

#include <algorithm>

namespace atp {
namespace {

// In characters, not bytes: UTF-8 continuation bytes take no column.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

bool is_numeric(std::string_view text) {
  return text.empty() || text == "-" || (text[0] >= '0' && text[0] <= '9');
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) line += (line.empty() ? "" : ",") + csv_cell(cell);
  return line + "\n";
}

std::string without_trailing_spaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

std::string TextTable::text(std::string_view indent) const {
  std::vector<std::size_t> widths(header_.size());
  std::vector<bool> right(header_.size(), true);
  for (std::size_t column = 0; column < header_.size(); ++column) {
    widths[column] = width_of(header_[column]);
    for (const auto& row : rows_) {
      widths[column] = std::max(widths[column], width_of(row[column]));
      right[column] = right[column] && is_numeric(row[column]);
    }
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out(indent);
    for (std::size_t column = 0; column < cells.size(); ++column) {
      const std::string padding(widths[column] - width_of(cells[column]), ' ');
      if (column > 0) out += "  ";
      out += right[column] ? padding + cells[column] : cells[column] + padding;
    }
    return without_trailing_spaces(out);
  };
  std::string out = line(header_);
  for (const auto& row : rows_) out += line(row);
  return out;
}

std::string TextTable::csv() const {
  std::string out = csv_line(header_);
  for (const auto& row : rows_) out += csv_line(row);
  return out;
}

}  // namespace atp
