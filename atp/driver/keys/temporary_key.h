#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "atp/base/result.h"

// A file with a new key among the system's temporary files, for as long as this object. A child of
// the process that made it leaves the file alone.

namespace atp {

class TemporaryKey {
 public:
  // `name`: the tenant's.
  static Result<std::unique_ptr<TemporaryKey>> make(const std::string& name);
  ~TemporaryKey();
  TemporaryKey(const TemporaryKey&) = delete;
  TemporaryKey& operator=(const TemporaryKey&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryKey(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  const pid_t owner_ = getpid();
};

}  // namespace atp
