#include "atp/collective/ring/stages.h"

#include <utility>

#include "atp/collective/ring/number_stages.h"

namespace atp {
namespace {

class OneStage final : public Stages {
 public:
  explicit OneStage(Passage passage) : passage_(std::move(passage)) {}
  std::optional<Passage> next() override { return std::exchange(passage_, std::nullopt); }
  bool has_more() const override { return passage_.has_value(); }

 private:
  std::optional<Passage> passage_;
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
  return std::make_unique<OneStage>(make_passage(request, rank, ranks, scratch));
}

}  // namespace atp
