#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// A TCP connection that takes no longer than it may: whatever the other side does, or doesn't, all
// calls together end when the time is over.

namespace atp {

class TimedStream {
 public:
  // The socket doesn't block, and stays its owner's. stop_fd: readable when all is to end; −1:
  // none.
  TimedStream(int fd, std::chrono::milliseconds patience, int stop_fd = -1);

  // Up to and with '\n'; nothing if the stream ends before, or the line is longer.
  std::optional<std::string> read_line(std::size_t most);
  // All until the other side's end; nothing on an error, in too much time or too many bytes.
  std::optional<std::string> read_all(std::size_t most);
  bool write(std::string_view text);
  // Nothing more will be written; waits for the other side to close, so that nothing is lost.
  void finish();
  bool timed_out() const { return timed_out_; }

 private:
  // False if the time is over.
  bool wait(short events);
  // Bytes read; 0: the end, or an error.
  std::size_t read_some(char* at, std::size_t size);

  int fd_;
  int stop_fd_;
  std::chrono::steady_clock::time_point end_;
  bool timed_out_ = false;
  bool failed_ = false;
};

}  // namespace atp
