#include "atp/core/worker/congestion_window.h"

#include <algorithm>

namespace atp {
namespace {

// The step of linear growth: the same for all jobs on a link, whatever their packet size.
constexpr std::uint64_t kStep = 1500;

}  // namespace

CongestionWindow::CongestionWindow(CongestionPolicy policy, std::uint64_t packet_bytes,
                                   std::uint64_t most, std::uint64_t servers)
    : policy_(policy),
      packet_bytes_(packet_bytes),
      most_(std::max(most / servers, 2 * packet_bytes)),
      bytes_(std::clamp(std::min(kInitialPackets * packet_bytes, kInitialBytesMax) / servers,
                        2 * packet_bytes, most_)) {}

bool CongestionWindow::on_answer(std::uint64_t bytes, bool ecn, bool limited) {
  answered_ += bytes;
  if (ecn) return cut(policy_ == CongestionPolicy::kPaper ? bytes_ / 2 : bytes_ * 4 / 5);
  if (limited && policy_ != CongestionPolicy::kNone) grow(bytes);
  return false;
}

void CongestionWindow::grow(std::uint64_t answered) {
  if (bytes_ < threshold_) {
    bytes_ += answered;
  } else {
    credit_ += answered;
    if (credit_ >= bytes_) {
      credit_ -= bytes_;
      bytes_ += kStep;
    }
  }
  bytes_ = std::min(bytes_, most_);
}

bool CongestionWindow::cut(std::uint64_t bytes) {
  if (policy_ == CongestionPolicy::kNone || answered_ < next_cut_) return false;
  next_cut_ = answered_ + bytes_;  // then all that is in flight now has been answered
  bytes_ = std::max(bytes, 2 * packet_bytes_);
  threshold_ = bytes_;
  credit_ = 0;
  return true;
}

}  // namespace atp
