#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "atp/base/result.h"
#include "atp/core/tenant.h"
#include "atp/driver/keys/mac.h"

// A file of keys: one line per tenant, with what its jobs may hold together at a switch or a
// server, and comments after "#":
//
//   # name   key (64 hexadecimal digits)   quotas, all optional
//   vision   9f86d081884c7d65…             jobs=8 aggregators=4096 memory=256MiB weight=3
//
// Nodes read all lines (`--keys FILE`). A rank reads the one line of its tenant's own file
// (ATP_KEY_FILE). Whoever can read a key can send packets for the tenant, so a file that others may
// read or write is refused.

namespace atp {

struct Tenant {
  std::string name;
  TenantKey key{};
  Quota quota;

  bool operator==(const Tenant&) const = default;
};

// Errors begin with the file's name and the line's number.
Result<std::vector<Tenant>> parse_keys(std::string_view text, const std::string& path);
Result<std::vector<Tenant>> read_key_file(const std::string& path);
// The tenant of a file that must have exactly one.
Result<Tenant> read_own_key(const std::string& path);

// Makes a file with a new key, which only its owner may read. Never overwrites one.
Status make_key_file(const std::string& path, const std::string& name);

// A file with a new key among the system's temporary files, for as long as this object lives. A
// child of the process that made it leaves the file alone.
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

// "vision 9f86…", a line of the file without quotas.
std::string key_line(const Tenant& tenant);

// Why a name is invalid; letters, digits, "-", "_" and "." are allowed.
std::optional<std::string> tenant_name_problem(std::string_view name);

}  // namespace atp
