#pragma once

#include <functional>
#include <thread>

#include "atp/base/result.h"

namespace atp {

// Starts a thread to which no signal is ever delivered: signals belong to the program. The name has
// at most 15 characters.
Result<std::thread> quiet_thread(const char* name, std::function<void()> body);

}  // namespace atp
