#include "atp/collective/ring/stages.h"

#include <utility>

#include "atp/collective/ring/number_stages.h"

namespace atp {
namespace {

class OneStage final : public Stages {
 public:
  explicit OneStage(Schedule schedule) : schedule_(std::move(schedule)) {}
  std::optional<Schedule> next() override { return std::exchange(schedule_, std::nullopt); }
  bool has_more() const override { return schedule_.has_value(); }

 private:
  std::optional<Schedule> schedule_;
};

}  // namespace

std::size_t stages_scratch_bytes(const RingRequest& request, std::size_t rank, std::size_t ranks) {
  return follows_number_rule(request) ? NumberStages::scratch_bytes(request, ranks)
                                      : scratch_bytes(request, rank);
}

std::unique_ptr<Stages> make_stages(const RingRequest& request, std::size_t rank, std::size_t ranks,
                                    Bytes scratch) {
  if (follows_number_rule(request)) {
    return std::make_unique<NumberStages>(request, rank, ranks, scratch);
  }
  return std::make_unique<OneStage>(make_schedule(request, rank, ranks, scratch));
}

}  // namespace atp
