#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "atp/base/result.h"

// Reading the files that people write, and reporting errors in them in one form: where (file, line,
// key), what was found, what was expected, what to do. Readers throw FileError from any depth; the
// functions that other folders call turn it into a Result.

namespace atp {

struct Place {
  std::string file;
  int line = 0;     // from 1; 0: the file as a whole
  std::string key;  // as in "levels[1].bandwidth"; empty: the line as a whole

  std::string text() const;  // "cluster.yaml:7: levels[1].bandwidth"
};

class FileError : public std::runtime_error {
 public:
  FileError(const Place& place, std::string_view problem);
};

// Throws the error "found F, expected E; A" that all readers use. The advice may be empty.
[[noreturn]] void refuse(const Place& place, std::string_view found, std::string_view expected,
                         std::string_view advice = {});

// A value as shown in error messages: quoted, truncated, and made plain.
std::string shown(std::string_view text);

// Runs a reader and turns a FileError that it throws into an Error.
template <class Reader>
auto read_or_error(Reader&& reader) -> Result<decltype(reader())> {
  try {
    return std::forward<Reader>(reader)();
  } catch (const FileError& error) {
    return Error{error.what()};
  }
}

// A description takes a few kilobytes, the matrix of a thousand devices up to 8 MiB.
inline constexpr std::size_t kMaxFileBytes = std::size_t{8} << 20;

// The whole file, or standard input for "-". Throws FileError if it cannot be read or is larger
// than kMaxFileBytes.
std::string read_text_file(const std::string& path);

// Why it must not be read by a thread that may not wait: it is a pipe, a socket or a device.
std::optional<std::string> why_reading_may_wait(const std::string& path);

// Its name in messages: "standard input" for "-".
std::string input_name(const std::string& path);

}  // namespace atp
