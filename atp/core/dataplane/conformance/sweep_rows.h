#pragma once

#include "atp/core/dataplane/conformance/words.h"

// The sweep looks at an aggregator.

namespace atp::conformance {

inline constexpr Row kSweepRows[] = {
    {.name = "the sweep leaves an aggregator in use alone",
     .event = Event::kSweep,
     .before = kHolds01,
     .reason = ATP_KEPT,
     .forward = ATP_FORWARD_NOWHERE,
     .after = kHolds01},
    {.name = "the sweep emits an unused sum as RESEND",
     .event = Event::kSweep,
     .before = unused(with(kHolds01, kEcn)),
     .reason = ATP_SWEPT,
     .forward = ATP_FORWARD_PARENT,
     .after = empty(kThis),
     .out = with(kSum01, kEcn | kResend)},
    {.name = "the sweep leaves a mark alone",
     .event = Event::kSweep,
     .before = empty(kThis),
     .reason = ATP_KEPT,
     .forward = ATP_FORWARD_NOWHERE,
     .after = empty(kThis)},
    {.name = "the sweep leaves a fresh aggregator alone",
     .event = Event::kSweep,
     .before = fresh(),
     .reason = ATP_KEPT,
     .forward = ATP_FORWARD_NOWHERE,
     .after = fresh()},
    {.name = "the sweep trusts no use in the future",
     .event = Event::kSweep,
     .before = {.ranks = 0b001, .last_use = kNow + 5 * kReclaim},
     .reason = ATP_KEPT,
     .forward = ATP_FORWARD_NOWHERE,
     .after = {.ranks = 0b001, .last_use = kNow + 5 * kReclaim}},
};

}  // namespace atp::conformance
