#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// A TCP connection with a total time limit: whatever the other side does or doesn't do, all calls
// together take no longer.

namespace atp {

class TimedStream {
 public:
  // The socket must be non-blocking and stays the caller's. stop_fd becomes readable to end all
  // waits; -1: none.
  TimedStream(int fd, std::chrono::milliseconds patience, int stop_fd = -1);

  // A line with its '\n'; nothing if the stream ends first or the line is longer.
  std::optional<std::string> read_line(std::size_t most);
  // Everything up to the end of the stream; nothing on an error, a time-out, or too many bytes.
  std::optional<std::string> read_all(std::size_t most);
  bool write(std::string_view text);
  // Shuts down sending and waits for the other side to close, so that nothing is lost.
  void finish();
  bool timed_out() const { return timed_out_; }
  // Whether the other side has sent anything.
  bool received() const { return received_; }

 private:
  // False on time-out.
  bool wait(short events);
  // The number of bytes read; 0: the end or an error.
  std::size_t read_some(char* at, std::size_t size);

  int fd_;
  int stop_fd_;
  std::chrono::steady_clock::time_point end_;
  bool timed_out_ = false;
  bool failed_ = false;
  bool received_ = false;
};

}  // namespace atp
