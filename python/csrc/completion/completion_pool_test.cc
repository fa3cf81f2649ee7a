#include "python/csrc/completion/completion_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

// The order in which works finish, the threads that waiting callbacks need, and the pool's end.

namespace atp::pytorch {
namespace {

using namespace std::chrono_literals;
using Ended = CompletionPool::Ended;

struct Pool {
  std::shared_ptr<CompletionPool> pool = CompletionPool::start();
  ~Pool() { pool->close(); }
  CompletionPool* operator->() const { return pool.get(); }
};

TEST(CompletionPool, OneThreadServesWorksThatEndOneAfterTheOther) {
  const Pool pool;
  std::vector<int> order;  // no lock: one thread
  for (int i = 0; i < 1000; ++i) {
    pool->expect().end({.settle = nullptr, .tell = [&order, i] { order.push_back(i); }});
    pool->wait_until_idle();
  }
  ASSERT_EQ(order.size(), 1000U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(pool->thread_count(), 1U);
}

TEST(CompletionPool, AllOfManyWorksThatEndAtOnceAreFinished) {
  const Pool pool;
  std::atomic<int> told{0};
  std::vector<CompletionPool::Expected> works;
  for (int i = 0; i < 1000; ++i) works.push_back(pool->expect());
  for (auto& work : works) work.end({.settle = nullptr, .tell = [&told] { ++told; }});
  pool->wait_until_idle();
  EXPECT_EQ(told, 1000);
}

TEST(CompletionPool, AContinuationMayDropAWork) {
  const Pool pool;
  CompletionPool::Expected first = pool->expect();
  auto dropped = std::make_shared<CompletionPool::Expected>(pool->expect());
  pool->when_settled(pool->mark() - 1, [held = std::move(dropped)] { (void)held; });
  first.end({});
  pool->wait_until_idle();
}

// A callback that starts a work and waits for it; the callback of that work does the same, ….
void nest(CompletionPool& pool, int levels, std::atomic<int>& reached) {
  ++reached;
  if (levels == 0) return;
  std::promise<void> finished;
  pool.expect().end({.settle = nullptr, .tell = [&] {
                       nest(pool, levels - 1, reached);
                       finished.set_value();
                     }});
  finished.get_future().wait();
}

TEST(CompletionPool, CallbacksMayWaitForWorksManyLevelsDeep) {
  const Pool pool;
  std::atomic<int> reached{0};
  pool->expect().end({.settle = nullptr, .tell = [&] { nest(*pool.pool, 20, reached); }});
  pool->wait_until_idle();
  EXPECT_EQ(reached, 21);
  EXPECT_LE(pool->thread_count(), 22U);
}

TEST(CompletionPool, ManyCallbacksMayWaitForOneThatEndsLater) {
  const Pool pool;
  std::promise<void> last;
  const std::shared_future<void> finished = last.get_future().share();
  for (int i = 0; i < 50; ++i) {
    pool->expect().end({.settle = nullptr, .tell = [finished] { finished.wait(); }});
  }
  pool->expect().end({.settle = nullptr, .tell = [&] { last.set_value(); }});
  pool->wait_until_idle();
  EXPECT_LE(pool->thread_count(), 52U);
}

TEST(CompletionPool, ThreadsThatWaitedAreReused) {
  const Pool pool;
  std::atomic<int> reached{0};
  for (int i = 0; i < 100; ++i) {
    pool->expect().end({.settle = nullptr, .tell = [&] { nest(*pool.pool, 3, reached); }});
    pool->wait_until_idle();
  }
  EXPECT_EQ(reached, 400);
  EXPECT_LE(pool->thread_count(), 6U);
}

TEST(CompletionPool, AWorkThatIsDroppedCountsAsEnded) {
  const Pool pool;
  try {
    const CompletionPool::Expected work = pool->expect();
    throw std::runtime_error("the transport accepts no more");
  } catch (const std::runtime_error&) {
  }
  pool->wait_until_settled(pool->mark());
  pool->wait_until_idle();  // shutdown() does it
}

TEST(CompletionPool, TheThreadThatWouldWaitForAWorkMayFinishIt) {
  const Pool pool;
  CompletionPool::Expected earlier = pool->expect();
  CompletionPool::Expected work = pool->expect();
  std::vector<std::thread::id> threads;
  const auto note = [&] { threads.push_back(std::this_thread::get_id()); };
  work.end_here({.settle = note, .tell = note});
  EXPECT_EQ(threads, std::vector<std::thread::id>(2, std::this_thread::get_id()));
  EXPECT_FALSE(pool->have_settled(pool->mark())) << "though the earlier one has not ended";
  earlier.end({});
  pool->wait_until_settled(pool->mark());
  pool->wait_until_idle();
}

TEST(CompletionPool, SettledMeansThatAllEarlierWorksHaveTheirResults) {
  const Pool pool;
  CompletionPool::Expected first = pool->expect();
  CompletionPool::Expected second = pool->expect();
  std::atomic<int> settled{0};
  std::promise<int> seen;
  pool->when_settled(pool->mark(), [&] { seen.set_value(settled); });
  CompletionPool::Expected later = pool->expect();  // is not waited for
  std::future<int> result = seen.get_future();
  second.end({.settle = [&] { ++settled; }, .tell = nullptr});
  EXPECT_EQ(result.wait_for(50ms), std::future_status::timeout);
  first.end({.settle = [&] { ++settled; }, .tell = nullptr});
  EXPECT_EQ(result.get(), 2);
  later.end({});
}

TEST(CompletionPool, ACallbackMayWaitUntilEarlierWorksHaveSettled) {
  const Pool pool;
  std::promise<void> done;
  CompletionPool::Expected other = pool->expect();
  CompletionPool::Expected work = pool->expect();
  work.end({.settle = nullptr, .tell = [&] {
              pool->wait_until_settled(pool->mark());
              done.set_value();
            }});
  other.end({});
  done.get_future().wait();
}

TEST(CompletionPool, ClosingFinishesWorksStillInProgress) {
  bool told = false;
  std::thread slow;
  {
    const Pool pool;
    slow = std::thread([work = std::make_shared<CompletionPool::Expected>(pool->expect()), &told] {
      std::this_thread::sleep_for(50ms);
      work->end({.settle = nullptr, .tell = [&told] { told = true; }});
    });
  }
  EXPECT_TRUE(told);
  slow.join();
}

TEST(CompletionPool, ACallbackMayCloseThePool) {
  auto pool = CompletionPool::start();
  std::promise<void> closed;
  pool->expect().end({.settle = nullptr, .tell = [&closed, weak = std::weak_ptr(pool)] {
                        weak.lock()->close();
                        closed.set_value();
                      }});
  pool.reset();
  closed.get_future().wait();
}

}  // namespace
}  // namespace atp::pytorch
