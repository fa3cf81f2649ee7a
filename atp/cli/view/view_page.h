#pragma once

#include <string_view>

namespace atp {

// view_page.html, which the build embeds in the program.
extern const std::string_view kViewPage;

}  // namespace atp
