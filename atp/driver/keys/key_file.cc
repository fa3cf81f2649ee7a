// Reads and makes files of keys, and says what is wrong with them.
#include "atp/driver/keys/key_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "atp/base/system_random.h"
#include "atp/driver/keys/hex.h"

namespace atp {
namespace {

constexpr std::size_t kLongestName = 64;
constexpr std::size_t kLargestFile = std::size_t{1} << 20;

std::string quote(std::string_view text) { return "\"" + std::string(text) + "\""; }

std::vector<std::string_view> words_of(std::string_view line) {
  line = line.substr(0, std::min(line.find('#'), line.size()));
  std::vector<std::string_view> words;
  constexpr std::string_view kSpace = " \t\r";
  for (std::size_t at = line.find_first_not_of(kSpace); at != line.npos;
       at = line.find_first_not_of(kSpace, at)) {
    const std::size_t end = std::min(line.find_first_of(kSpace, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

template <class Number>
bool read_positive(std::string_view text, Number& number) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc{} && end == text.data() + text.size() && number > 0;
}

// "256MiB" or "1GiB".
bool read_memory(std::string_view text, std::size_t& bytes) {
  unsigned shift = 0;
  if (text.ends_with("MiB")) shift = 20;
  if (text.ends_with("GiB")) shift = 30;
  std::uint32_t count = 0;
  if (shift == 0 || !read_positive(text.substr(0, text.size() - 3), count)) return false;
  bytes = std::size_t{count} << shift;
  return true;
}

// Nothing, or what is wrong with one "name=value".
std::optional<std::string> read_quota(std::string_view word, Quota& quota) {
  const std::size_t equals = std::min(word.find('='), word.size());
  const std::string_view name = word.substr(0, equals);
  const std::string_view value = equals < word.size() ? word.substr(equals + 1) : "";
  if (name == "jobs" || name == "aggregators") {
    if (read_positive(value, name == "jobs" ? quota.jobs : quota.aggregators)) return {};
    return quote(word) + " is not " + std::string(name) + "=N with a positive whole number";
  }
  if (name == "weight") {
    if (read_positive(value, quota.weight) && quota.weight <= kMostWeight) return {};
    return quote(word) + " is not weight=N from 1 to " + std::to_string(kMostWeight);
  }
  if (name == "memory") {
    if (read_memory(value, quota.bytes)) return {};
    return quote(word) + " is not memory=N with MiB or GiB, e.g. memory=256MiB";
  }
  return "unknown quota " + quote(word) +
         " (expected jobs=N, aggregators=N, memory=256MiB or weight=N)";
}

Result<Tenant> read_line(const std::vector<std::string_view>& words) {
  Tenant tenant{.name = std::string(words[0])};
  if (const auto problem = tenant_name_problem(tenant.name)) return Error{*problem};
  if (words.size() < 2 || !read_hex(words[1], tenant.key)) {
    // Never shows what was found: it may be a key with one wrong digit.
    return Error{
        "expected a key of 64 hexadecimal digits after " + quote(tenant.name) + ", found " +
        (words.size() < 2 ? "nothing"
                          : "a word of " + std::to_string(words[1].size()) + " characters") +
        "; `atp key NAME FILE` makes such a line"};
  }
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (const auto problem = read_quota(words[i], tenant.quota)) return Error{*problem};
  }
  return tenant;
}

// No rank could tell apart two names with the same number. The chance of that is 1 in 2^32.
std::optional<std::string> clash(const std::vector<Tenant>& tenants, const Tenant& added) {
  for (const Tenant& tenant : tenants) {
    if (tenant.name == added.name) return "a second key for " + quote(added.name);
    if (key_id(tenant.name) == key_id(added.name)) {
      return "the names " + quote(tenant.name) + " and " + quote(added.name) +
             " have the same number in packets; choose another name";
    }
  }
  return {};
}

Error cannot_read(const std::string& path) {
  return {"cannot read the keys in " + path + ": " + std::strerror(errno)};
}

// Whoever may write the keys can add a tenant, and whoever may read them is one.
std::optional<std::string> who_else_may(const struct stat& about, const std::string& path) {
  if ((about.st_mode & (S_IROTH | S_IWOTH)) != 0) {
    return "other users may read or write the keys in " + path + ": chmod o-rwx " + path;
  }
  if ((about.st_mode & S_IWGRP) != 0) {
    return "the file's group may write the keys in " + path + ": chmod g-w " + path;
  }
  constexpr uid_t kRoot = 0;
  if (about.st_uid == kRoot || about.st_uid == geteuid()) return {};
  return "the keys in " + path + " belong to another user (uid " + std::to_string(about.st_uid) +
         "), who can change them: chown " + std::to_string(geteuid()) + " " + path +
         ", or use a copy of your own";
}

Result<std::string> contents(int fd, const std::string& path) {
  struct stat about{};
  if (fstat(fd, &about) != 0) return cannot_read(path);
  if (!S_ISREG(about.st_mode)) return Error{"cannot read the keys in " + path + ": not a file"};
  if (const auto problem = who_else_may(about, path)) return Error{*problem};
  const auto size = static_cast<std::size_t>(about.st_size);
  if (size > kLargestFile) return Error{path + " is too large for a file of keys"};
  std::string text(size, '\0');
  for (std::size_t got = 0; got < text.size();) {
    const ssize_t more = read(fd, text.data() + got, text.size() - got);
    if (more < 0) return cannot_read(path);
    if (more == 0) text.resize(got);
    got += static_cast<std::size_t>(more);
  }
  return text;
}

}  // namespace

std::optional<std::string> tenant_name_problem(std::string_view name) {
  const bool fits =
      !name.empty() && name.size() <= kLongestName &&
      std::all_of(name.begin(), name.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
      });
  if (fits) return {};
  return quote(name) +
         " is not a tenant's name (expected up to 64 letters, digits, \"-\", \"_\" or \".\")";
}

Result<std::vector<Tenant>> parse_keys(std::string_view text, const std::string& path) {
  if (const Status available = macs_available(); !available) return available.error();
  std::vector<Tenant> tenants;
  for (std::size_t begin = 0, number = 1; begin < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const auto words = words_of(text.substr(begin, end - begin));
    begin = end + 1;
    if (words.empty()) continue;
    const auto wrong = [&](const std::string& what) {
      std::string message = path;
      message.append(":").append(std::to_string(number)).append(": ").append(what);
      return Error{std::move(message)};
    };
    const Result<Tenant> tenant = read_line(words);
    if (!tenant) return wrong(tenant.error().message);
    if (const auto problem = clash(tenants, tenant.value())) return wrong(*problem);
    tenants.push_back(tenant.value());
  }
  if (tenants.empty()) return Error{path + " has no keys; `atp key NAME FILE` makes one"};
  return tenants;
}

Result<std::vector<Tenant>> read_key_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return cannot_read(path);
  const Result<std::string> text = contents(fd, path);
  close(fd);
  if (!text) return text.error();
  return parse_keys(text.value(), path);
}

Result<Tenant> read_own_key(const std::string& path) {
  const auto tenants = read_key_file(path);
  if (!tenants) return tenants.error();
  if (tenants.value().size() == 1) return tenants.value()[0];
  return Error{path + " has the keys of " + std::to_string(tenants.value().size()) +
               " tenants: a rank needs a file with the line of its own tenant alone"};
}

std::string key_line(const Tenant& tenant) { return tenant.name + " " + to_hex(tenant.key); }

Status make_key_file(const std::string& path, const std::string& name) {
  if (const Status available = macs_available(); !available) return available.error();
  const std::string line = key_line({.name = name, .key = random_key()}) + "\n";
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) {
    return Error{"cannot create " + path + ": " + std::strerror(errno) +
                 (errno == EEXIST ? "; a key is never overwritten" : "")};
  }
  const bool written = write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const Error problem{"cannot write " + path + ": " + std::strerror(errno)};
  close(fd);
  if (written) return ok_status();
  unlink(path.c_str());
  return problem;
}

Result<std::unique_ptr<TemporaryKey>> TemporaryKey::make(const std::string& name) {
  std::error_code problem;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(problem);
  if (problem) {
    return Error{"cannot find a folder for a temporary key: " + problem.message() +
                 "; set TMPDIR to a folder that exists"};
  }
  const std::string file =
      "atp-key-" + std::to_string(getpid()) + "-" + std::to_string(random_seed());
  const std::string path = folder / file;
  if (const Status made = make_key_file(path, name); !made) return made.error();
  return std::unique_ptr<TemporaryKey>(new TemporaryKey(path));
}

TemporaryKey::~TemporaryKey() {
  if (getpid() == owner_) unlink(path_.c_str());
}

}  // namespace atp
