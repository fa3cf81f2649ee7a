#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "atp/base/interrupt.h"
#include "atp/base/result.h"

// A Unix socket for messages between processes of one host, with an abstract name, which is in no
// file system and disappears with the process.

namespace atp {

class UnixLine {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // When a wait ends, and what else ends it.
  struct Patience {
    Patience(Time end, MaybeInterruption other = nullptr)
        : until(end), interruption(std::move(other)) {}
    Time until;
    MaybeInterruption interruption;
  };

  // Enough for all ranks of a job to call at once.
  static constexpr int kBacklog = 1024;

  UnixLine() = default;
  ~UnixLine();
  UnixLine(UnixLine&& other) noexcept;
  UnixLine& operator=(UnixLine&& other) noexcept;

  // Not connected yet. An error if the system refuses such sockets, or the process has too many.
  static Result<UnixLine> make();
  static Result<UnixLine> listen(const std::string& name);
  Result<UnixLine> accept() const;
  // The place of the first of these lines that has a message, a caller, or no peer any more.
  static Result<std::size_t> first_ready(std::span<const UnixLine* const> lines,
                                         const Patience& patience);
  // Fails at once if no process listens there, and soon if too many call; may be called again.
  Status call(const std::string& name, Time until) const;

  bool is_open() const { return descriptor_ >= 0; }
  // Whether the peer's process belongs to the same user.
  bool is_of_this_user() const;

  Status send(std::span<const std::byte> message) const;
  // Receives a message and returns its length; an error if the peer has gone.
  Result<std::size_t> receive(std::span<std::byte> to, const Patience& patience) const;

  // Exchange texts; an empty text means success.
  Status say(const std::string& text) const;
  Result<std::string> hear(std::size_t longest, const Patience& patience) const;

  // Says a text that needs no answer and may be left out. Never waits, and does not add to what the
  // peer has not read yet: so a peer that reads nothing cannot make say() or pass() wait.
  void note(const std::string& text) const;

  // Exchange a descriptor; -1 passes none.
  Status pass(int descriptor) const;
  struct Passed {
    int descriptor = -1;
    std::string text;  // received instead of a descriptor
    bool is_note = false;
  };
  Result<Passed> take(std::size_t longest, const Patience& patience) const;

 private:
  explicit UnixLine(int descriptor) : descriptor_(descriptor) {}
  Status wait_readable(const Patience& patience) const;

  int descriptor_ = -1;
};

}  // namespace atp
