#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "atp/base/rank_set.h"
#include "atp/base/time.h"

// Numbers, durations and lists of ranks as error messages spell them.

namespace atp {

std::string with_commas(std::uint64_t number);  // 1,048,576
std::string seconds_text(Duration duration);    // 30 s, 0.25 s

// How every transport says that an operation's total time has run out. torch's own tests, and
// programs that recover from torch's errors, look for the word "timeout", so that spelling is used
// here.
std::string overdue_text(Duration time_out);

// "rank 3", "ranks 2 and 3", "ranks 0, 1 and 7", "ranks 0 to 5 and 9". A long list ends in
// "and 12 others".
std::string ranks_text(const RankSet& ranks);
std::string ranks_text(const std::vector<std::size_t>& ranks);  // in ascending order

}  // namespace atp
