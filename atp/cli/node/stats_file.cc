#include "atp/cli/node/stats_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace atp {
namespace {

constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
constexpr mode_t kMode = 0644;

}  // namespace

Result<StatsFile> StatsFile::open(const std::string& path, std::size_t most_bytes) {
  const int fd = ::open(path.c_str(), kFlags, kMode);
  struct stat found{};
  if (fd < 0 || fstat(fd, &found) != 0) {
    const int problem = errno;
    if (fd >= 0) close(fd);
    return Error{fmt::format("cannot write --stats file {}: {}", path, std::strerror(problem))};
  }
  // A pipe or a device has no size and cannot be rotated.
  const bool is_file = S_ISREG(found.st_mode);
  return StatsFile(path, is_file ? most_bytes : ~std::size_t{0}, fd,
                   is_file ? static_cast<std::size_t>(found.st_size) : 0);
}

StatsFile::StatsFile(StatsFile&& other) noexcept
    : path_(std::move(other.path_)),
      most_bytes_(other.most_bytes_),
      fd_(std::exchange(other.fd_, -1)),
      bytes_(other.bytes_),
      lost_(other.lost_) {}

StatsFile& StatsFile::operator=(StatsFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(most_bytes_, other.most_bytes_);
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  std::swap(lost_, other.lost_);
  return *this;
}

StatsFile::~StatsFile() {
  if (fd_ >= 0) close(fd_);
}

int StatsFile::rotate() {
  const std::string old = path_ + ".1";
  if (std::rename(path_.c_str(), old.c_str()) != 0 && errno != ENOENT) return errno;
  const int fd = ::open(path_.c_str(), kFlags, kMode);
  if (fd < 0) return errno;
  close(fd_);
  fd_ = fd;
  bytes_ = 0;
  return 0;
}

int StatsFile::write_whole(const std::string& line) {
  const ssize_t put = write(fd_, line.data(), line.size());
  if (put == static_cast<ssize_t>(line.size())) {
    bytes_ += line.size();
    return 0;
  }
  const int problem = put < 0 ? errno : ENOSPC;
  if (put > 0 && ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) {
    bytes_ += static_cast<std::size_t>(put);  // part of a line was written
  }
  return problem;
}

std::optional<std::string> StatsFile::append(const std::string& line) {
  int problem = 0;
  if (bytes_ > 0 && bytes_ + line.size() > most_bytes_) problem = rotate();
  if (problem == 0) problem = write_whole(line);
  if (problem != 0) {
    if (lost_++ > 0) return std::nullopt;
    return fmt::format("cannot write --stats file {}: {}; lines are lost until writing works again",
                       path_, std::strerror(problem));
  }
  const std::uint64_t lost = std::exchange(lost_, 0);
  if (lost == 0) return std::nullopt;
  return fmt::format("--stats file {} is writable again; {} line{} lost", path_, lost,
                     lost == 1 ? " was" : "s were");
}

}  // namespace atp
