#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace atp {

// A thread to which no signal is ever delivered: signals are the program's business.
template <class Body>
std::thread quiet_thread(Body&& body) {
  // Put back also when no thread can be made, which throws.
  struct AllBlocked {
    AllBlocked() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~AllBlocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t before;
  } blocked;
  return std::thread(std::forward<Body>(body));
}

}  // namespace atp
