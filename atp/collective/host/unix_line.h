#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include "atp/base/result.h"

// A Unix socket of messages, between processes of one host, with an abstract name: one that no file
// system has and that ends with the process.

namespace atp {

class UnixLine {
 public:
  using Time = std::chrono::steady_clock::time_point;

  UnixLine() = default;
  ~UnixLine();
  UnixLine(UnixLine&& other) noexcept;
  UnixLine& operator=(UnixLine&& other) noexcept;

  // Not connected yet. An error where the system refuses such sockets, or has no room for another.
  static Result<UnixLine> make();
  static Result<UnixLine> listen(const std::string& name);
  Result<UnixLine> accept(Time until) const;
  // An error at once if nobody waits there; may be called again.
  Status call(const std::string& name, Time until) const;

  bool is_open() const { return descriptor_ >= 0; }
  // Whether the other side's process has this one's user.
  bool is_of_this_user() const;

  Status send(std::span<const std::byte> message) const;
  // How many bytes the next message has; an error too if the other side has gone.
  Result<std::size_t> receive(std::span<std::byte> to, Time until) const;

  // Texts, of which the empty one says that all is well.
  Status say(const std::string& text) const;
  Result<std::string> hear(std::size_t longest, Time until) const;

  // A descriptor; -1 passes none.
  Status pass(int descriptor) const;
  struct Passed {
    int descriptor = -1;
    std::string text;  // was said instead
  };
  Result<Passed> take(std::size_t longest, Time until) const;

 private:
  explicit UnixLine(int descriptor) : descriptor_(descriptor) {}
  Status wait_readable(Time until) const;

  int descriptor_ = -1;
};

}  // namespace atp
