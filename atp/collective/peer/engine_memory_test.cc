#include <gtest/gtest.h>

#include "atp/collective/peer/engine.h"
#include "atp/collective/testing/no_memory.h"
#include "atp/collective/testing/peers.h"

namespace atp::testing {
namespace {

TEST(PeerEngine, EndsAnOperationOnceIfThereIsNoMemoryForIt) {
  std::vector<float> values(3000, 1);
  const auto listener = std::make_shared<TcpListener>(TcpListener::open("127.0.0.1:0").value());
  for (const Collective call :
       {Collective::kSend, Collective::kBroadcast, Collective::kAllReduce}) {
    int failures = 0;
    for (bool fails = true; fails; failures += fails) {
      PeerOptions options;
      options.world_size = 2;
      Poller poller = Poller::create().value();
      PeerEngine engine(options, listener, {listener->address(), listener->address()}, poller);
      CollectiveRequest request;
      request.call = call;
      request.root = call == Collective::kSend ? 1 : 0;
      if (call != Collective::kAllReduce) request.inputs = {readable(values)};
      if (call != Collective::kSend) request.outputs = {writable(values)};
      if (call == Collective::kAllReduce) {  // in stages
        request.kind = ElementKind::kFloat32;
        request.reduction = ElementReduction::kSum;
        request.format = NumberFormat::kBlocks;
      }
      const auto operation = std::make_shared<PeerOperation>(request, 0, Wording{});
      fails = lacks_memory(engine, operation, failures);
    }
    EXPECT_GT(failures, 3);
  }
}

}  // namespace
}  // namespace atp::testing
