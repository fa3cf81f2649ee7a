#pragma once

#include <chrono>
#include <functional>

namespace atp {

// How an engine reads its thread's clock. That is a RunningClock, which takes a reading that comes
// late for a pause in which the thread was stopped. So an engine reads it again after every piece
// of work: otherwise a busy thread's time-outs would hardly run, and would end much too late.
using ReadClock = std::function<std::chrono::steady_clock::time_point()>;

}  // namespace atp
