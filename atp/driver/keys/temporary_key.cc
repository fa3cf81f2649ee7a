#include "atp/driver/keys/temporary_key.h"

#include <filesystem>
#include <random>
#include <system_error>

#include "atp/driver/keys/key_file.h"

namespace atp {

Result<std::unique_ptr<TemporaryKey>> TemporaryKey::make(const std::string& name) {
  std::error_code problem;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(problem);
  if (problem) return Error{"cannot find a folder for a temporary key: " + problem.message()};
  std::random_device random;
  const std::string file = "atp-key-" + std::to_string(getpid()) + "-" + std::to_string(random()) +
                           std::to_string(random());
  const std::string path = folder / file;
  if (const Status made = make_key_file(path, name); !made) return made.error();
  return std::unique_ptr<TemporaryKey>(new TemporaryKey(path));
}

TemporaryKey::~TemporaryKey() {
  if (getpid() == owner_) unlink(path_.c_str());
}

}  // namespace atp
