#pragma once

#include <cstdint>

namespace atp {

// How a rank came to know that its group has failed. The text of the failure says what happened;
// this is for programs that need to decide what to do, for example through torch's get_error().
enum class FailureKind : std::uint8_t {
  kNone,      // it has not failed; or the rank was told to leave, which is not a failure
  kBroken,    // a rank, a node or a connection is lost, or refuses, or has another operation
  kTimeout,   // an operation of this rank was not over in time
  kReported,  // another rank, or whoever supervises it, has reported the failure
};

}  // namespace atp
