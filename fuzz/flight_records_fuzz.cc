#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "atp/cli/report/flight_record.h"
#include "atp/cli/report/host_clocks.h"
#include "atp/cli/report/report_text.h"
#include "atp/cli/report/story.h"

// A flight-recorder file, which a stranger may have written. Whatever it contains, it is read or
// refused with a message that names it, and what was read becomes a report of printable text.

namespace {

[[noreturn]] void fail(const char* what, const std::string& text) {
  std::fprintf(stderr, "%s:\n%s\n", what, text.c_str());
  std::abort();
}

void check_printable(const std::string& text) {
  for (const char each : text) {
    if (each != '\n' && (each < ' ' || each > '~')) fail("a report that is not printable", text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  auto record = atp::read_flight_record(bytes, "file");
  if (!record) {
    if (!record.error().message.starts_with("file: ")) fail("no name", record.error().message);
    check_printable(record.error().message);
    return 0;
  }
  // The second file is of another rank of the same job, on another host.
  atp::RecordFolder folder{.records = {record.value(), record.value()}};
  folder.records[1].rank ^= 1;
  folder.records[1].host += "x";
  static_cast<void>(atp::check_one_job(folder.records).ok());
  const atp::HostClocks clocks(folder.records);
  const atp::Story story = atp::tell_story(folder.records, clocks, {.all_operations = true});
  check_printable(atp::report_text(story, clocks, folder));
  check_printable(atp::report_json(story, clocks, folder));
  return 0;
}
