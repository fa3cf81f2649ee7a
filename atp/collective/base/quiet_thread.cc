#include "atp/collective/base/quiet_thread.h"

#include <pthread.h>
#include <signal.h>

#include <string>
#include <system_error>
#include <utility>

namespace atp {
namespace {

// Blocks all signals while a thread is made, which inherits the mask, and then restores the mask.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

Result<std::thread> quiet_thread(const char* name, std::function<void()> body) {
  const AllSignalsBlocked blocked;
  try {
    std::thread thread(std::move(body));
    pthread_setname_np(thread.native_handle(), name);
    return thread;
  } catch (const std::system_error& error) {
    return Error{"atp cannot start a thread (" + std::string(name) +
                 "): " + error.code().message() +
                 "; raise the limit on threads (ulimit -u, or pids.max of the container) or on "
                 "memory (ulimit -v)"};
  }
}

}  // namespace atp
