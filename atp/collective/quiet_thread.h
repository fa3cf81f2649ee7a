#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace atp {

// A thread to which no signal is ever delivered: signals are the program's business.
template <class Body>
std::thread quiet_thread(Body&& body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::forward<Body>(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace atp
