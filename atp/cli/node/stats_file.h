#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "atp/base/result.h"

// A log file of bounded size. It appends to an existing file; a full file becomes FILE.1, replacing
// an earlier one. A line is written completely or not at all: a full disk costs lines, but readers
// never see a truncated one.

namespace atp {

class StatsFile {
 public:
  static Result<StatsFile> open(const std::string& path, std::size_t most_bytes);
  StatsFile(StatsFile&& other) noexcept;
  StatsFile& operator=(StatsFile&& other) noexcept;
  ~StatsFile();

  // Returns a message when lines begin to be lost, with the reason, and when writing works again.
  std::optional<std::string> append(const std::string& line);

 private:
  StatsFile(const std::string& path, std::size_t most_bytes, int fd, std::size_t bytes)
      : path_(path), most_bytes_(most_bytes), fd_(fd), bytes_(bytes) {}
  // 0, or the errno of the failure.
  int rotate();
  int write_whole(const std::string& line);

  std::string path_;
  std::size_t most_bytes_;
  int fd_ = -1;
  std::size_t bytes_ = 0;
  std::uint64_t lost_ = 0;  // lines lost since the last one written
};

}  // namespace atp
