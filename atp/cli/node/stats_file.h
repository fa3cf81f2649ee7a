#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "atp/base/result.h"

// Lines in a file that is bounded: what was there stays, at a start too, and when it is full it
// becomes FILE.1, in the place of an earlier one. A line is written whole or not at all, so that a
// disk which is full costs lines, and whoever reads the file sees none cut.

namespace atp {

class StatsFile {
 public:
  static Result<StatsFile> open(const std::string& path, std::size_t most_bytes);
  StatsFile(StatsFile&& other) noexcept;
  StatsFile& operator=(StatsFile&& other) noexcept;
  ~StatsFile();

  // What is to be said about it: that lines are lost from here on and why, or that they are no
  // more.
  std::optional<std::string> append(const std::string& line);

 private:
  StatsFile(const std::string& path, std::size_t most_bytes, int fd, std::size_t bytes)
      : path_(path), most_bytes_(most_bytes), fd_(fd), bytes_(bytes) {}
  // 0, or the errno of what went wrong.
  int rotate();
  int write_whole(const std::string& line);

  std::string path_;
  std::size_t most_bytes_;
  int fd_ = -1;
  std::size_t bytes_ = 0;
  std::uint64_t lost_ = 0;  // lines, since one was written
};

}  // namespace atp
