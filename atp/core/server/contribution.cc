#include "atp/core/server/contribution.h"

namespace atp {
namespace {

Contribution judge_collecting(const Fragment& fragment, const ContributionHeader& packet) {
  if (packet.kind == ATP_KIND_SUM_EXACT) {
    return packet.ranks.size() == 1 ? Contribution::kFloatsFromTheStart
                                    : Contribution::kFloatsOfMany;
  }
  if (packet.is_float) return Contribution::kFloatTooEarly;
  if (fragment.bitmap.empty()) return Contribution::kFirst;
  if (!fragment.bitmap.intersects(packet.ranks)) return Contribution::kAdd;
  if (fragment.bitmap.contains(packet.ranks)) return Contribution::kDuplicate;
  if (packet.ranks.contains(fragment.bitmap)) return Contribution::kReplace;
  return Contribution::kOverlap;
}

Contribution judge_waiting(const ContributionHeader& packet) {
  if (packet.kind != ATP_KIND_SUM_EXACT) return Contribution::kDuplicate;
  return packet.ranks.size() == 1 ? Contribution::kFloatWaits : Contribution::kFloatsOfMany;
}

Contribution judge_float(const Fragment& fragment, const ContributionHeader& packet) {
  if (fragment.bitmap.contains(packet.ranks)) return Contribution::kDuplicate;
  if (!packet.is_float) return Contribution::kIntegerTooLate;
  return packet.ranks.size() == 1 ? Contribution::kAdd : Contribution::kFloatsOfMany;
}

}  // namespace

Contribution judge(const Fragment& fragment, const ContributionHeader& packet) {
  if (fragment.named && fragment.operation != packet.operation) {
    return Contribution::kOtherOperation;
  }
  if (fragment.named &&
      (fragment.kind != packet.kind || fragment.value_count != packet.value_count)) {
    return Contribution::kOtherShape;
  }
  switch (fragment.mode) {
    case FragmentMode::kCollecting: return judge_collecting(fragment, packet);
    case FragmentMode::kAwaitingFloatSlot: return judge_waiting(packet);
    case FragmentMode::kFloat: return judge_float(fragment, packet);
    case FragmentMode::kComplete: break;
  }
  return Contribution::kComplete;
}

}  // namespace atp
