#include <gmock/gmock.h>

#include <string>

#include "atp/collective/communicator.h"
#include "atp/collective/testing/cluster.h"
#include "atp/collective/testing/tensors.h"
#include "atp/collective/testing/threads.h"

// A communicator in a process that cannot start more threads.

namespace atp::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ThreadLimit, IsAnErrorWithAdviceThatLeavesNothingBehind) {
  struct Case {
    const char* name;
    bool has_colocated_server;
    std::size_t room;
  };
  const Case cases[] = {
      {"not one thread", false, 0},
      {"the first of two lanes alone", false, 1},
      {"not even the server of this process", true, 0},
      {"the server of this process, and no lane", true, 1},
  };
  const TestingCluster first(2);
  const TestingCluster second(2);
  const Endpoint own = UdpSocket::open(loopback()).value().local();
  CommunicatorOptions options = first.options(0);
  options.more_routes = {{second.server().endpoint()}};
  const std::size_t threads_before = thread_count();
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    if (c.has_colocated_server) options.colocated_server = own;
    const RoomForThreads room(c.room);
    const auto joined = Communicator::connect(options);
    ASSERT_FALSE(joined.ok());
    EXPECT_THAT(joined.error().message,
                AllOf(HasSubstr("cannot start a thread"), HasSubstr("ulimit -u")));
    EXPECT_TRUE(only_threads_left(threads_before));
    EXPECT_TRUE(UdpSocket::open(own).ok()) << "its address is free again";
  }
}

TEST(ThreadLimit, IsAnErrorInTheHostsMemoryToo) {
  const std::size_t threads_before = thread_count();
  const RoomForThreads room(0);
  const auto joined =
      Communicator::connect({.job = {std::random_device{}(), 1}, .host_memory = true});
  ASSERT_FALSE(joined.ok());
  EXPECT_THAT(joined.error().message,
              AllOf(HasSubstr("rank 0 cannot join the job"), HasSubstr("cannot start a thread")));
  EXPECT_TRUE(only_threads_left(threads_before));
}

}  // namespace
}  // namespace atp::testing
