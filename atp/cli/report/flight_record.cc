#include "atp/cli/report/flight_record.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <tuple>
#include <utility>

#include "atp/cli/report/pickle_reader.h"

namespace atp {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kFormat = 1;
constexpr std::uintmax_t kMostBytes = std::uintmax_t{1} << 30;
constexpr std::size_t kMostRanks = 1'000'000;

// Throws Json::exception if a key is missing or has another type.
std::vector<std::size_t> ranks_of(const Json& list) {
  std::vector<std::size_t> ranks;
  for (const Json& rank : list.get_ref<const Json::array_t&>()) {
    const auto number = rank.get<std::int64_t>();
    // Not a Json error, but the same to the caller.
    if (number < 0 || number >= static_cast<std::int64_t>(kMostRanks)) throw std::out_of_range("");
    ranks.push_back(static_cast<std::size_t>(number));
  }
  return ranks;
}

std::optional<WallTime> time_or_none(const Json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<WallTime>();
}

std::int64_t values_in(const Json& sizes) {
  std::uint64_t values = 0;
  for (const Json& dimensions : sizes.get_ref<const Json::array_t&>()) {
    std::uint64_t product = 1;
    for (const Json& size : dimensions) product *= size.get<std::uint64_t>();
    values += product;
  }
  return static_cast<std::int64_t>(values);
}

FlightRecord::Operation operation_of(const Json& entry,
                                     const std::vector<std::int64_t>& group_ids) {
  FlightRecord::Operation operation;
  const auto group =
      std::find(group_ids.begin(), group_ids.end(), entry.at("pg_id").get<std::int64_t>());
  if (group == group_ids.end()) throw std::out_of_range("");
  operation.group = static_cast<std::size_t>(group - group_ids.begin());
  operation.is_transfer = entry.at("is_p2p").get<bool>();
  operation.number =
      entry.at(operation.is_transfer ? "p2p_seq_id" : "collective_seq_id").get<std::int64_t>();
  operation.name = entry.at("atp_name").get<std::string>();
  if (operation.is_transfer) {
    // "gloo:send 0->1"
    const auto name = entry.at("profiling_name").get<std::string>();
    operation.name = name.substr(name.find(':') + 1);
  }
  operation.path = entry.at("atp_path").get<std::string>();
  const Json& input = entry.at("input_sizes");
  const Json& output = entry.at("output_sizes");
  const Json& types = entry.at(input.empty() ? "output_dtypes" : "input_dtypes");
  if (!types.empty()) operation.type = types.at(0).get<std::string>();
  operation.input_values = values_in(input);
  operation.output_values = values_in(output);
  const Json& sizes = input.empty() ? output : input;
  if (!sizes.empty()) operation.sizes = sizes.at(0).dump();
  operation.tag = entry.at("atp_tag").get<std::int64_t>();
  operation.begun = entry.at("time_created_ns").get<WallTime>();
  operation.completed = time_or_none(entry.at("time_discovered_completed_ns"));
  operation.failed = time_or_none(entry.at("atp_failed_ns"));
  return operation;
}

FlightRecord record_of(const Json& whole) {
  FlightRecord record;
  const Json& own = whole.at("atp");
  record.rank = ranks_of(Json::array({own.at("rank")})).front();
  record.host = own.at("host").get<std::string>();
  record.process = own.at("process").get<std::int64_t>();
  record.reason = own.at("reason").get<std::string>();
  record.written = own.at("written_ns").get<WallTime>();
  std::vector<std::int64_t> ids;
  for (const Json& each : own.at("groups")) {
    ids.push_back(each.at("id").get<std::int64_t>());
    record.groups.push_back({.name = each.at("name").get<std::string>(),
                             .description = each.at("description").get<std::string>(),
                             .job = each.at("job").get<std::string>(),
                             .ranks = ranks_of(each.at("ranks")),
                             .opened = each.at("opened_ns").get<WallTime>(),
                             .closed = time_or_none(each.at("closed_ns")),
                             .failure = each.at("failure").get<std::string>()});
  }
  for (const Json& each : whole.at("entries")) record.operations.push_back(operation_of(each, ids));
  for (const Json& each : own.at("transfers")) record.operations.push_back(operation_of(each, ids));
  for (const Json& each : own.at("events")) {
    const auto group =
        std::find(ids.begin(), ids.end(), each.at("group").get<std::int64_t>()) - ids.begin();
    if (static_cast<std::size_t>(group) == ids.size()) throw std::out_of_range("");
    record.events.push_back({.group = static_cast<std::size_t>(group),
                             .time = each.at("time_ns").get<WallTime>(),
                             .kind = each.at("kind").get<std::string>(),
                             .ranks = ranks_of(each.at("ranks")),
                             .text = each.at("text").get<std::string>()});
  }
  return record;
}

bool ends_in_a_number(const std::string& name) {
  return !name.empty() && name.back() >= '0' && name.back() <= '9' && name.front() != '.';
}

// The files among the paths, those of folders in order of their names.
Result<std::vector<std::string>> files_of(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (!std::filesystem::exists(status)) return Error{path + ": there is no such file or folder"};
    if (!std::filesystem::is_directory(status)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (std::filesystem::directory_iterator at(path, error), end; !error && at != end;
         at.increment(error)) {
      std::error_code ignored;
      if (!at->is_regular_file(ignored)) continue;
      if (ends_in_a_number(at->path().filename().string())) found.push_back(at->path().string());
    }
    if (error) return Error{path + ": " + error.message()};
    if (found.empty()) {
      return Error{
          path +
          ": no flight-recorder files: their names end in a rank, as in atp_rank_0. A job "
          "that ran with ATP_FLIGHT_RECORDER set to this folder writes them when it fails; "
          "to get them from a running job, send its ranks SIGUSR1"};
    }
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

Result<std::string> contents_of(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return Error{path + ": it is not a file"};
  if (std::filesystem::file_size(path, error) > kMostBytes) return Error{path + ": it is too big"};
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{path + ": " + std::strerror(errno)};
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (bytes.empty()) return Error{path + ": it is empty: was the disk full?"};
  return bytes;
}

// Looks only for the library that the file names: its pickle may use codes that read_pickle() does
// not know.
bool is_of_another_backend(std::string_view bytes) {
  constexpr std::string_view kLibrary = "comm_lib_version";
  const auto at = bytes.find(kLibrary);
  if (at == std::string_view::npos || bytes.find("pg_config") == std::string_view::npos)
    return false;
  constexpr std::size_t kCodes = 16;  // of a pickle, around the text
  return bytes.substr(at + kLibrary.size(), kCodes).find("atp") == std::string_view::npos;
}

}  // namespace

std::string FlightRecord::Group::key() const {
  std::string key = name + "|" + job + "|";
  for (const std::size_t member : ranks) key += std::to_string(member) + ",";
  return key;
}

Result<FlightRecord> read_flight_record(std::string_view bytes, const std::string& file) {
  const Result<Json> whole = read_pickle(bytes);
  if (!whole) {
    if (is_of_another_backend(bytes)) {
      return Error{file +
                   ": written by another backend: read it with `python -m "
                   "torch.distributed.flight_recorder.fr_trace FOLDER`"};
    }
    return Error{file +
                 ": damaged, or not a flight-recorder file of atp: " + whole.error().message};
  }
  if (!whole.value().is_object() || !whole.value().contains("atp")) {
    return Error{file + ": not a flight-recorder file of atp"};
  }
  try {
    const auto format = whole.value()["atp"].at("format").get<std::int64_t>();
    if (format != kFormat) {
      return Error{file + ": has format " + std::to_string(format) +
                   ", but this program reads format " + std::to_string(kFormat) +
                   "; use the atp that ran the job"};
    }
    FlightRecord record = record_of(whole.value());
    record.file = file;
    return record;
  } catch (const std::exception&) {  // a key is missing, or its value is of another kind
    return Error{file + ": damaged: a value is missing or of the wrong kind"};
  }
}

Result<RecordFolder> read_record_folder(const std::vector<std::string>& paths) {
  const auto files = files_of(paths);
  if (!files) return files.error();
  RecordFolder folder;
  for (const std::string& file : files.value()) {
    const Result<std::string> bytes = contents_of(file);
    Result<FlightRecord> record =
        bytes ? read_flight_record(bytes.value(), file) : Result<FlightRecord>(bytes.error());
    if (record) {
      folder.records.push_back(std::move(record).value());
    } else {
      folder.problems.push_back(record.error().message);
    }
  }
  if (folder.records.empty()) {
    std::string all = "no file can be used";
    for (const std::string& problem : folder.problems) all += "\n  " + problem;
    return Error{all};
  }
  std::sort(folder.records.begin(), folder.records.end(), [](const auto& one, const auto& other) {
    return std::tie(one.rank, one.file) < std::tie(other.rank, other.file);
  });
  return folder;
}

}  // namespace atp
