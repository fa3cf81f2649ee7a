#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace atp {

// "a,b,c", one by one; none of "".
inline std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    names.emplace_back(list.substr(0, comma));
    list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
  }
  return names;
}

}  // namespace atp
