#pragma once

#include "atp/core/dataplane/conformance/words.h"

// A GRADIENT of a job with less than a share of all aggregators.

namespace atp::conformance {

inline constexpr Row kGradientShareRows[] = {
    {.name = "a job without a region passes the aggregator that it would fit",
     .tree = {.region = 0},
     .before = kHolds01,
     .in = kFrom2,
     .reason = ATP_PASS_NO_REGION,
     .forward = ATP_FORWARD_PARENT,
     .after = kHolds01,
     .out = kFrom2},
    {.name = "a job at its quota claims nothing, and leaves a mark for the fragment's others",
     .tree = {.quota = 0},
     .before = empty(kOtherJob),
     .in = kFrom0,
     .reason = ATP_PASS_OVER_QUOTA,
     .forward = ATP_FORWARD_PARENT,
     .after = empty(kThis),
     .out = kFrom0},
    {.name = "a job at its quota takes no mark back",
     .tree = {.quota = 0},
     .before = empty(kLater),
     .in = kFrom0,
     .reason = ATP_PASS_LATE,
     .forward = ATP_FORWARD_PARENT,
     .after = empty(kLater),
     .out = kFrom0},
    {.name = "a job at its quota adds to what it holds",
     .tree = {.quota = 0},
     .before = kHolds01,
     .in = kFrom2,
     .reason = ATP_COMPLETED,
     .forward = ATP_FORWARD_PARENT,
     .after = used_now(kHoldsAll),
     .out = kSumAll},
};

}  // namespace atp::conformance
