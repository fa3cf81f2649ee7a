#include "python/csrc/reconfigurable_group.h"

#ifdef C10D_BACKEND_HAS_RECONFIGURE

#include <algorithm>
#include <utility>
#include <variant>

namespace atp::pytorch {
namespace {

// Ranks are places in the list. A set has no order, so its handles are sorted, as on every rank.
std::vector<c10d::ReconfigureHandle> in_order(const c10d::ReconfigureOptions& options) {
  if (const auto* list = std::get_if<std::vector<c10d::ReconfigureHandle>>(&options.handles)) {
    return *list;
  }
  const auto& set = std::get<std::unordered_set<c10d::ReconfigureHandle>>(options.handles);
  std::vector<c10d::ReconfigureHandle> handles(set.begin(), set.end());
  std::sort(handles.begin(), handles.end());
  return handles;
}

}  // namespace

ReconfigurableGroup::ReconfigurableGroup(int rank, int size, Milliseconds timeout,
                                         std::string handle, Make make)
    : Backend(rank, size),
      options_(c10::make_intrusive<GroupOptions>("atp", timeout)),
      handle_(std::move(handle)),
      make_(std::move(make)) {
  options_->enable_reconfigure = true;
  init();
}

ReconfigurableGroup::Member ReconfigurableGroup::member_or_none() const {
  const std::lock_guard lock(mutex_);
  return member_;
}

ReconfigurableGroup::Member ReconfigurableGroup::member() const {
  Member member = member_or_none();
  TORCH_CHECK_WITH(DistBackendError, member != nullptr,
                   "this group was created with enable_reconfigure and has no ranks yet, or its "
                   "last reconfigure failed: call torch.distributed._reconfigure() with the ranks' "
                   "handles first");
  return member;
}

ReconfigurableGroup::WorkPtr ReconfigurableGroup::reconfigure(
    const c10d::ReconfigureOptions& options) {
  const std::vector<c10d::ReconfigureHandle> handles = in_order(options);
  const auto own = std::find(handles.begin(), handles.end(), handle_);
  TORCH_CHECK_VALUE(own != handles.end(), "reconfigure: this rank's handle is not among the ",
                    handles.size(),
                    " that were given; a rank that leaves must not call reconfigure");
  TORCH_CHECK_VALUE(std::count(handles.begin(), handles.end(), handle_) == 1,
                    "reconfigure: this rank's handle was given twice");
  TORCH_CHECK(used_.insert(options.uuid).second, "reconfigure: the uuid ", options.uuid,
              " was already used; give all ranks the same new one");
  const auto begun = std::chrono::steady_clock::now();
  Member former;
  {
    const std::lock_guard lock(mutex_);
    std::swap(former, member_);
  }
  if (former != nullptr) former->abort();
  former.reset();
  // One time-out bounds the whole call, also the end of the former group.
  const auto spent =
      std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - begun);
  const Milliseconds left = options.timeout.value_or(options_->timeout) - spent;
  const int rank = static_cast<int>(own - handles.begin());
  const int size = static_cast<int>(handles.size());
  Member made = make_(options.uuid, rank, size, std::max(left, Milliseconds(1)));
  {
    const std::lock_guard lock(mutex_);
    if (has_own_timeout_) made->setTimeout(options_->timeout);
    member_ = std::move(made);
    rank_ = rank;
    size_ = size;
  }
  auto ended = c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get());
  ended->markCompleted();
  return c10d::Work::create_from_future(ended);
}

void ReconfigurableGroup::setTimeout(Milliseconds timeout) {
  const std::lock_guard lock(mutex_);
  options_->timeout = timeout;
  has_own_timeout_ = true;
  if (member_ != nullptr) member_->setTimeout(timeout);
}

std::uint64_t ReconfigurableGroup::getSequenceNumberForGroup() {
  const Member member = member_or_none();
  return member == nullptr ? 0 : member->getSequenceNumberForGroup();
}

void ReconfigurableGroup::shutdown() {
  if (const Member member = member_or_none()) member->shutdown();
}

void ReconfigurableGroup::abort() {
  if (const Member member = member_or_none()) member->abort();
}

c10d::ErrorType ReconfigurableGroup::getError() {
  const Member member = member_or_none();
  return member == nullptr ? c10d::ErrorType::SUCCESS : member->getError();
}

}  // namespace atp::pytorch

#endif
