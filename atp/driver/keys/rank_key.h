#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "atp/base/result.h"
#include "atp/driver/keys/key_file.h"
#include "atp/driver/keys/mac.h"

// What a rank tags its packets with: the key of its tenant, from a file, which makes the keys of
// all the tenant's jobs; or the keys of some jobs alone, made by another rank that has the file. So
// only one rank of a job needs the tenant's key, and the others cannot speak in the tenant's other
// jobs. Python passes such keys from rank to rank (python/atp/torch/_keys.py).

namespace atp {

struct JobKeys {
  std::uint32_t tenant = 0;  // key_id() of its name
  std::map<std::uint32_t, PacketKey> by_job;

  bool operator==(const JobKeys&) const = default;
};

using RankKey = std::variant<Tenant, JobKeys>;

JobKeys keys_of_jobs(const Tenant& tenant, std::span<const std::uint32_t> jobs);

// "1ef8be0d 7:b64eb2d731853c1af7106843bb7834e7": the tenant's number, then each job and its key.
std::string text_of(const JobKeys& keys);
// Errors never show what was found: it may be a key with one wrong digit.
Result<JobKeys> parse_job_keys(std::string_view text);

// A mark by which ranks compare the keys of their files without showing them: the tenant's name,
// and a number made from the key. "vision/2f8c3e5a90b1d476".
std::string mark_of(const Tenant& tenant);

}  // namespace atp
