#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace atp {

// "a,b,c", one by one; none of "". Of "a," the second is empty, and it is for the caller to say so.
inline std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> names;
  if (list.empty()) return names;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t comma = std::min(list.find(',', begin), list.size());
    names.emplace_back(list.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return names;
}

}  // namespace atp
