#pragma once

#include "atp/config/site.h"

namespace atp {

// Refuses racks whose uplinks run in a circle.
void check_uplinks(const Site& site);

// Refuses two switches or servers with one address and port.
void check_ports(const Site& site);

}  // namespace atp
