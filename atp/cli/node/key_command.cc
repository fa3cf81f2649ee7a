#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "atp/cli/command/command.h"
#include "atp/driver/keys/key_file.h"

namespace atp {
namespace {

constexpr const char* kKeyExamples = R"(Examples:
  atp key vision vision.key
      make a key for the tenant vision
  cat vision.key speech.key > keys && chmod 600 keys && atp server --keys keys
      serve only jobs of two tenants
  atp run -n 4 --switch --key vision.key -- python train.py
      run a job whose packets carry tags made with the key)";

struct KeyOptions {
  std::string name;
  std::string file;
};

void make_key(const KeyOptions& options) {
  if (const Status available = macs_available(); !available) {
    throw CommandError(available.error().message);
  }
  if (const auto problem = tenant_name_problem(options.name)) {
    throw CommandError(*problem, kWrongUsage);
  }
  const std::string line = key_line({.name = options.name, .key = random_key()}) + "\n";
  const int fd = open(options.file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool written =
      fd >= 0 && write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const int problem = errno;
  if (fd >= 0) close(fd);
  if (written) return;
  throw CommandError(fmt::format("cannot create {}: {}{}", options.file, std::strerror(problem),
                                 problem == EEXIST ? "; a key is never overwritten" : ""));
}

}  // namespace

void add_key_command(const Command& program) {
  const Command command =
      program.add_command("key", "Make a tenant's key, with which its jobs tag their packets");
  command.footer(kKeyExamples);
  const auto options = std::make_shared<KeyOptions>();
  command.add_option("name", options->name, "Name of the tenant, as in the nodes' --keys files")
      .type_name("NAME")
      .required();
  command.add_option("file", options->file, "File to create, which only its owner may read")
      .type_name("FILE")
      .required();
  command.callback([options] { make_key(*options); });
}

}  // namespace atp
