#pragma once

#include <string>
#include <utility>
#include <variant>

#include "atp/base/check.h"

// The result of an operation that the outside world can make fail (sockets, files, arguments): a
// value, or an Error whose text says what was expected, what was found and what to do. The command
// line turns an Error into a message and an exit code; Python turns it into an exception.

namespace atp {

struct Error {
  std::string message;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: implicit by design

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }

  T& value() & {
    ATP_CHECK(ok());
    return std::get<T>(state_);
  }
  const T& value() const& {
    ATP_CHECK(ok());
    return std::get<T>(state_);
  }
  T&& value() && {
    ATP_CHECK(ok());
    return std::get<T>(std::move(state_));
  }
  const Error& error() const {
    ATP_CHECK(!ok());
    return std::get<Error>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

// For operations that succeed without a value.
using Status = Result<std::monostate>;
inline Status ok_status() { return Status(std::monostate{}); }

}  // namespace atp
