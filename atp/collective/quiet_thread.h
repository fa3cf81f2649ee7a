#pragma once

#include <functional>
#include <thread>

#include "atp/base/result.h"

namespace atp {

// A thread to which no signal is ever delivered: signals are the program's business. The name has
// at most 15 characters.
Result<std::thread> quiet_thread(const char* name, std::function<void()> body);

}  // namespace atp
