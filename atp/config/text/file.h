#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "atp/base/result.h"

// Descriptions that people write are files: how one is read, and what one may do wrong, said in one
// form: where (file, line, key), what was found, what was expected, what to do. The readers throw
// FileError from any depth, and the functions that other folders call turn it into a Result.

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

// The sentence of all readers: "found F, expected E; A". The advice may be empty.
[[noreturn]] void refuse(const Place& place, std::string_view found, std::string_view expected,
                         std::string_view advice = {});

// A value as an error message shows it: quoted, cut when long, made plain.
std::string shown(std::string_view text);

// Runs a reader, and turns the FileError that it may throw into an Error.
template <class Reader>
auto read_or_error(Reader&& reader) -> Result<decltype(reader())> {
  try {
    return std::forward<Reader>(reader)();
  } catch (const FileError& error) {
    return Error{error.what()};
  }
}

// A description has kilobytes; the matrix between a thousand devices, some MiB.
inline constexpr std::size_t kMaxFileBytes = std::size_t{8} << 20;

// The whole file, or standard input for "-". Throws FileError, also when there is more than
// kMaxFileBytes of it.
std::string read_text_file(const std::string& path);

// What messages call it: "standard input" for "-".
std::string input_name(const std::string& path);

}  // namespace atp
