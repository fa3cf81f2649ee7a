#include <gtest/gtest.h>

#include "atp/collective/network/failure_text.h"

namespace atp {
namespace {

const Endpoint kSwitch = Endpoint::ipv4(10, 0, 0, 1, 5501);
const Endpoint kServer = Endpoint::ipv4(10, 0, 0, 9, 5500);

RankSet set_of(std::initializer_list<Rank> ranks) {
  RankSet set;
  for (const Rank rank : ranks) set.insert(rank);
  return set;
}

struct Case {
  Refusal refusal;
  Endpoint by;
  const char* text;
};

const Case kCases[] = {
    {{RefusalReason::kWorldSize, 4, 8, set_of({0})},
     kServer,
     "rank 3 was refused: it says the job has 8 ranks, rank 0 says 4; start all ranks with the "
     "same world size"},
    {{RefusalReason::kWorldSize, 4, 1, set_of({0, 1})},
     kSwitch,
     "rank 3 was refused: it says the job has 1 rank, ranks 0 and 1 say 4; start all ranks with "
     "the same world size"},
    {{RefusalReason::kWorldSize, 4, 8, {}},
     kServer,
     "rank 3 was refused: it says the job has 8 ranks, the others say 4; start all ranks with the "
     "same world size"},
    {{RefusalReason::kWorldSize, 0, 0, {}},
     kServer,
     "rank 3 was refused: its world size differs from the other ranks'"},
    {{RefusalReason::kStreams, streams_number(0, 4), streams_number(3, 1), set_of({0})},
     kServer,
     "rank 3 was refused: it uses stream 3, rank 0 uses streams 0 to 3; start all ranks with the "
     "same streams"},
    {{RefusalReason::kStreams, 8, 9, {}},
     kServer,
     "server 10.0.0.9:5500 refused rank 3: the rank asks for 9 streams, and no job may have more "
     "than 8"},
    {{RefusalReason::kValueCount, 350, 88, set_of({0, 1, 2})},
     kServer,
     "rank 3 was refused: the rank's path carries 88 values per fragment, and the job runs with "
     "350; start all ranks with at most 88"},
    {{RefusalReason::kNumberFormat, 0, 1, set_of({0, 1, 2})},
     kServer,
     "rank 3 was refused: it uses blocks of int32 (wire=int32), ranks 0 to 2 use a fixed scale "
     "(scale=fixed); start all ranks with the same ATP_SCALE, ATP_WIRE and ATP_EXACT, or options "
     "scale, wire and exact"},
    {{RefusalReason::kNumberFormat, 1, 2, set_of({0})},
     kServer,
     "rank 3 was refused: it uses blocks of int16 (wire=int16), rank 0 uses blocks of int32 "
     "(wire=int32); start all ranks with the same ATP_SCALE, ATP_WIRE and ATP_EXACT, or options "
     "scale, wire and exact"},
    {{RefusalReason::kNumberFormat, 3, 9, {}},
     kServer,
     "rank 3 was refused: it uses number format 9, which is unknown to this program, the others "
     "use exact sums (exact=1); start all ranks with the same ATP_SCALE, ATP_WIRE and ATP_EXACT, "
     "or options scale, wire and exact"},
    {{RefusalReason::kUpstream, 0, 0, {}},
     kSwitch,
     "switch 10.0.0.1:5501 refused rank 3: the switch may not send to the "
     "next hop of the route (see --upstream)"},
    {{RefusalReason::kRoute, 0, 0, set_of({0})},
     kSwitch,
     "rank 3 was refused: its route has a different next hop from that of rank 0; all routes "
     "through a switch must have the same next hop"},
    {{RefusalReason::kRoute, 0, 0, {}},
     kSwitch,
     "switch 10.0.0.1:5501 refused rank 3: the rank's route is empty, too long, "
     "or not in order (switches first, the server last)"},
    {{RefusalReason::kTooManyJobs, 256, 0, {}},
     kServer,
     "server 10.0.0.9:5500 refused rank 3: the node already serves 256 jobs, its maximum; try "
     "again when one of them has ended"},
    {{RefusalReason::kRank, 3, 4, {}},
     kServer,
     "server 10.0.0.9:5500 refused rank 3: the rank says the job has 3 ranks, which are numbered "
     "from 0"},
    {{RefusalReason::kVersion, versions_number(1, 1), versions_number(2, 3), {}},
     kServer,
     "server 10.0.0.9:5500 refused rank 3: the rank supports protocol versions 2 to 3, and the "
     "node version 1; run the same version of atp everywhere"},
    {{RefusalReason::kMemory, 24, 1300, {}},
     kServer,
     "server 10.0.0.9:5500 refused rank 3: the job needs 1,300 MiB there, and only 24 MiB of the "
     "memory for all jobs is left"},
    {{RefusalReason::kKey, 1, 0, {}},
     kServer,
     "server 10.0.0.9:5500 refused rank 3: the node serves only jobs with a key, and "
     "the rank has none: set ATP_KEY_FILE, or use `atp run --key FILE`"},
    {{RefusalReason::kTenantJobs, 2, 0, {}},
     kServer,
     "server 10.0.0.9:5500 refused rank 3: its tenant may have 2 jobs at the node at a time; try "
     "again when one of them has ended"},
    {{RefusalReason::kTenantMemory, 3, 900, {}},
     kServer,
     "server 10.0.0.9:5500 refused rank 3: the job needs 900 MiB there, and its tenant "
     "has only 3 MiB left"},
    {{RefusalReason::kTooManyRanks, 64, 128, {}},
     kServer,
     "server 10.0.0.9:5500 refused rank 3: values of 16 bits are possible with up to 64 ranks, and "
     "the job has 128; use ATP_WIRE=int32, or option wire=int32"},
    {{RefusalReason::kSocket, 0, 0, set_of({0})},
     kServer,
     "rank 3 was refused: it joins from the socket of rank 0; each rank needs a socket of its own"},
    {{RefusalReason::kDraining, 0, 0, {}},
     kServer,
     "server 10.0.0.9:5500 refused rank 3: the node takes no new jobs, because it is being drained "
     "(`atp drain`); try again when it has been restarted, or use another one"},
};

TEST(RefusalText, NamesWhatWasExpectedWhatWasFoundAndWhichRanksDiffer) {
  const FailureContext context{.rank = 3, .world_size = 8, .route = {kSwitch, kServer}};
  for (const Case& c : kCases) {
    const Failure failure{.code = FailureCode::kRefused,
                          .reason = c.refusal.reason,
                          .expected = c.refusal.expected,
                          .found = c.refusal.found,
                          .ranks = RankSet::of(3),
                          .other = c.refusal.holders,
                          .endpoint = c.by};
    EXPECT_EQ(failure_text(failure, context), c.text);
  }
}

}  // namespace
}  // namespace atp
