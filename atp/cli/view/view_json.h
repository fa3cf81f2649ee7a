#pragma once

#include <string>

#include "atp/cli/view/watch.h"

namespace atp {

// What the page shows, as one line of ASCII JSON (docs/operate/view.md lists the keys).
std::string view_json(const std::string& site_name, const Watch& watch, double interval_s);

}  // namespace atp
