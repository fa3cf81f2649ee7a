#include "atp/planner/step_time.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "atp/planner/feasibility.h"
#include "atp/planner/layer_volume.h"
#include "atp/planner/memory.h"

namespace atp::planner {
namespace {

// The work of one chunk between two collectives for which it waits.
struct Stage {
  double statistics = 0;  // seconds of a norm's sums, which block immediately
  double computed = 0;    // seconds of computation after that
  int link = 0;           // the link of `sent`
  double sent = 0;        // seconds of the collective that the next stage waits for
  double behind = 0;      // seconds of computation during `sent`
};
using Pass = std::vector<Stage>;

// One processor and the links of two dimensions.
class Timeline {
 public:
  double now() const { return now_; }
  double sent() const { return sent_; }

  void compute(double seconds) { now_ += seconds; }

  // Returns when the transfer ends.
  double send(int link, double seconds) {
    double& free = free_[static_cast<std::size_t>(link)];
    const double start = std::max(now_, free);
    free = start + seconds;
    if (static_cast<std::size_t>(link) == shared_) {
      serve_until(start, posted_.size());
      served_ = std::max(served_, start) + seconds;
      free = served_;
    }
    sent_ += seconds;
    return free;
  }

  void wait(double done) { now_ = std::max(now_, done); }

  // Transfers between replicas use a link when the mesh does not: one after the other, in gaps.
  void share(int link) { shared_ = static_cast<std::size_t>(link); }

  // Returns the number of the transfer.
  std::size_t post(double seconds) {
    posted_.push_back({now_, seconds, 0});
    return posted_.size() - 1;
  }
  void wait_posted(std::size_t number) {
    while (next_ <= number) serve_until(std::numeric_limits<double>::infinity(), number);
    wait(posted_[number].done);
  }

 private:
  struct Posted {
    double ready = 0;
    double left = 0;
    double done = 0;
  };

  // The link has nothing else to do until `time`.
  void serve_until(double time, std::size_t last) {
    for (; next_ < posted_.size() && next_ <= last; ++next_) {
      Posted& first = posted_[next_];
      const double start = std::max(served_, first.ready);
      if (start >= time) break;
      const double part = std::min(first.left, time - start);
      served_ = start + part;
      first.left -= part;
      if (served_ >= time && first.left > 0) break;
      first.done = served_;
    }
  }

  double now_ = 0;
  double sent_ = 0;
  std::array<double, 2> free_{};
  std::size_t shared_ = 2;  // of `free_`; 2: neither
  double served_ = 0;       // until when that link has been given out
  std::size_t next_ = 0;    // of the transfers
  std::vector<Posted> posted_;
};

// Simulates one pass: chunks take turns, stage by stage.
void play(const Pass& pass, std::vector<double>& arrives, int statistics_link, Timeline& timeline) {
  for (const Stage& stage : pass) {
    for (double& arrival : arrives) {
      timeline.wait(arrival);
      if (stage.statistics > 0) timeline.wait(timeline.send(statistics_link, stage.statistics));
      timeline.compute(stage.computed);
      arrival = stage.sent > 0 ? timeline.send(stage.link, stage.sent) : timeline.now();
      timeline.compute(stage.behind);
    }
  }
}

// One chunk's passes through a layer, and through the parts before and after the layers.
class Passes {
 public:
  Passes(const CostInputs& inputs, Mesh mesh, const LayerCost& cost)
      : inputs_(inputs),
        mesh_(mesh),
        first_(cost.dimension1),
        second_(cost.dimension2),
        logits_(cost.ends.logits_rate) {
    const Transformer& model = inputs.model;
    tokens_ = inputs.tokens / inputs.options.chunks;
    ranks_ = static_cast<double>(mesh.size());
    q_ = static_cast<double>(model.q_width());
    kv_ = static_cast<double>(model.kv_width()) * kv_copies(model, mesh);
    wide_ = static_cast<double>(model.ffn_width());
    first_matrices_ = model.first_matrices();
    core_copies_ = kv_copies_of_core(model, inputs.at_once, mesh);
    scatters_ = second_.reduce_scatter != Collective::kNone;
    splits_tokens_ = inputs.options.sequence_parallel && mesh.d1 > 1;
    tokens_here_ = splits_tokens_ ? tokens_ / mesh.d1 : tokens_;
  }

  // Seconds of a product of [tokens, from] with [from, to], split over all ranks.
  double product(double from, double to) const {
    return 2 * tokens_ * from * to / ranks_ / inputs_.interconnect.device.flops_per_second;
  }
  // Kernels skip what a causal mask hides: a token attends to half of its sequence on average.
  double core() const {
    const double attended = inputs_.model.causal ? (inputs_.sequence + 1) / 2 : inputs_.sequence;
    return 4 * tokens_ * attended * q_ / ranks_ / inputs_.interconnect.device.flops_per_second;
  }

  double layer_products() const {
    const double passes = recompute() == Recompute::kFull ? 4 : 3;
    return passes * (product(h(), qkv()) + product(q_, h()) + core() +
                     product(h(), (first_matrices_ + 1) * wide_));
  }
  double layer_others() const {
    const double passes = recompute() == Recompute::kNone ? 3 : 4;
    return passes * (2 * norm() + activation());
  }

  Pass forward() const {
    Pass pass;
    add_block(product(h(), qkv()), sliced(scatters_ ? qkv_of_core() : qkv()), pass);
    pass.push_back({.computed = core(), .link = 1, .sent = gathered(q_)});
    pass.push_back({.computed = product(q_, h()), .link = 0, .sent = summed1()});
    add_block(product(h(), first_matrices_ * wide_), summed2(first_matrices_ * wide_), pass);
    pass.push_back({.computed = activation() + product(wide_, h()), .link = 0, .sent = summed1()});
    return pass;
  }

  Pass backward() const {
    const double first = product(h(), first_matrices_ * wide_);
    Pass pass = computed_again();
    for (const Stage& stage : gathered_tokens()) pass.push_back(stage);
    const Pass feed_forward{
        {.computed = product(wide_, h()),
         .link = 1,
         .sent = summed2(wide_),
         .behind = product(wide_, h())},
        {.computed = 2 * activation() + first, .link = 0, .sent = summed1(), .behind = first},
        {.statistics = norm_sum(1), .computed = 2 * norm()}};
    pass.insert(pass.end(), feed_forward.begin(), feed_forward.end());
    for (const Stage& stage : gathered_tokens()) pass.push_back(stage);
    const Pass attention{
        {.computed = product(q_, h()), .link = 1, .sent = sliced(q_), .behind = product(q_, h())},
        {.computed = 2 * core(), .link = 1, .sent = gathered(qkv_of_core())},
        {.computed = product(h(), qkv()),
         .link = 0,
         .sent = summed1(),
         .behind = product(h(), qkv())},
        {.statistics = norm_sum(1), .computed = 2 * norm()}};
    pass.insert(pass.end(), attention.begin(), attention.end());
    return pass;
  }

  double vocabulary() const {
    return mesh_.d1 * static_cast<double>(vocabulary_of_row(inputs_.model.vocabulary, mesh_.d1));
  }
  // Two statistics, the normalized values, the scaled ones, and the residual's sum.
  double norm() const { return 11 * moved(h() / mesh_.d2) * tokens_here_ / tokens_; }
  double loss() const { return 8 * moved(has_whole_logits() ? vocabulary() : of_a_row()); }

  Pass embedding() const { return {{.link = 0, .sent = summed1()}}; }
  // The all-gather of tokens that the rows share: in the backward pass, the gradient of a scattered
  // sum; in the forward pass, the layers' output, if the head needs all of it.
  Pass gathered_tokens() const {
    return splits_tokens_ ? Pass{{.link = 0, .sent = gathered1()}} : Pass{};
  }
  Pass head() const {
    Pass pass;
    add_block(product(h(), vocabulary()), summed2(vocabulary()), pass);
    if (has_whole_logits()) {
      pass.push_back({.link = 0, .sent = logits_.of(tokens_ * vocabulary() * element())});
    }
    return pass;
  }
  Pass head_backward() const {
    return {{.computed = product(h(), vocabulary()),
             .link = 0,
             .sent = summed1(),
             .behind = product(h(), vocabulary())},
            {.statistics = norm_sum(1), .computed = 2 * norm()}};
  }
  // The gradient sums of what several rows store, once for all chunks.
  double copies_sum() const {
    if (mesh_.d1 == 1) return 0;
    const LayerVolume volume = volume_of_layer(inputs_, mesh_, Accounting::kPlain);
    const Rate& rate = first_.all_reduce_rate;
    return volume.copies_all_reduced1 * summed_bytes(inputs_) * rate.seconds_per_byte +
           volume.copies_all_reduces1 * rate.seconds;
  }
  // The maximum and the sums, for all chunks at once.
  double loss_sums() const {
    if (mesh_.d1 == 1 || has_whole_logits()) return 0;
    const double bytes = statistics_bytes() * inputs_.tokens;
    return first_.all_reduce_rate.of(bytes) + first_.all_reduce_rate.of(2 * bytes);
  }

 private:
  // What the backward pass of a layer begins with.
  Pass computed_again() const {
    if (recompute() == Recompute::kFull) return forward();
    Pass pass;
    if (recompute() == Recompute::kNone) return pass;
    for (const double computed : {norm(), norm() + activation()}) {
      pass.push_back({.statistics = norm_sum(inputs_.model.norm_statistics),
                      .computed = computed,
                      .link = 0,
                      .sent = splits_tokens_ ? gathered1() : 0});
    }
    return pass;
  }
  Recompute recompute() const { return inputs_.options.recompute; }

  // A norm and a column-first product: with sequence parallelism a gather is between them.
  void add_block(double product, double sent, Pass& pass) const {
    const double statistics = norm_sum(inputs_.model.norm_statistics);
    if (splits_tokens_) {
      pass.push_back(
          {.statistics = statistics, .computed = norm(), .link = 0, .sent = gathered1()});
      pass.push_back({.computed = product, .link = 1, .sent = sent});
    } else {
      pass.push_back(
          {.statistics = statistics, .computed = norm() + product, .link = 1, .sent = sent});
    }
  }

  bool has_whole_logits() const { return inputs_.options.whole_logits && mesh_.d1 > 1; }
  double of_a_row() const { return vocabulary() / mesh_.d1; }
  double h() const { return inputs_.model.hidden; }
  double qkv() const { return q_ + 2 * kv_; }
  double qkv_of_core() const { return q_ + 2 * kv_ * core_copies_; }
  double element() const { return inputs_.model.bytes_per_element; }
  double statistics_bytes() const { return std::max(4.0, element()); }

  // Seconds for reading or writing `width` values per token.
  double moved(double width) const {
    const double speed = inputs_.interconnect.device.memory_bytes_per_second;
    return speed > 0 ? tokens_ * width * element() / speed : 0;
  }
  double activation() const { return (1 + 2.0 * first_matrices_) * moved(wide_ / mesh_.d1); }

  // The seconds of a sum on dimension 1; with sequence parallelism, each rank gets only its tokens.
  double summed1() const {
    if (mesh_.d1 == 1) return 0;
    const bool scatters = splits_tokens_ && first_.reduce_scatter != Collective::kNone;
    return (scatters ? first_.reduce_scatter_rate : first_.all_reduce_rate)
        .of(tokens_ * h() / mesh_.d2 * summed_bytes(inputs_));
  }
  double gathered1() const {
    return first_.all_gather_rate.of(tokens_ * h() / mesh_.d2 * element());
  }
  double of_row(double width) const { return tokens_ * width / mesh_.d1; }
  double summed_of_row(double width) const { return of_row(width) * summed_bytes(inputs_); }
  double summed2(double width) const {
    return mesh_.d2 == 1 ? 0 : second_.all_reduce_rate.of(summed_of_row(width));
  }
  double sliced(double width) const {
    if (mesh_.d2 == 1) return 0;
    return (scatters_ ? second_.reduce_scatter_rate : second_.all_reduce_rate)
        .of(summed_of_row(width));
  }
  double gathered(double width) const {
    return mesh_.d2 == 1 ? 0 : second_.all_gather_rate.of(of_row(width) * element());
  }
  // The seconds of a norm's sums in this many consecutive operations: in the forward pass the mean
  // precedes the squares.
  double norm_sum(std::uint32_t operations) const {
    if (mesh_.d2 == 1) return 0;
    const Rate& rate = second_.all_reduce_rate;
    const double bytes = tokens_here_ * inputs_.model.norm_statistics * statistics_bytes();
    return bytes * rate.seconds_per_byte + operations * rate.seconds;
  }

  const CostInputs& inputs_;
  Mesh mesh_;
  const DimensionCost& first_;
  const DimensionCost& second_;
  const Rate& logits_;
  double tokens_ = 0, ranks_ = 1, q_ = 0, kv_ = 0, core_copies_ = 1, wide_ = 0;
  double first_matrices_ = 1;
  bool scatters_ = false, splits_tokens_ = false;
  double tokens_here_ = 0;  // between the blocks
};

// Whether both dimensions' sums use the links of one level and so wait for each other.
bool share_links(const LayerCost& cost) {
  const Bottleneck& first = cost.dimension1.bottleneck;
  const Bottleneck& second = cost.dimension2.bottleneck;
  return first.role != LinkRole::kNone && second.role != LinkRole::kNone &&
         first.level == second.level;
}

Pass on_one_link(Pass pass) {
  for (Stage& stage : pass) stage.link = 0;
  return pass;
}

// What the replicas send during one micro-batch, spread over layers and ends by their weights.
class Replicas {
 public:
  Replicas(const CostInputs& inputs, Mesh mesh, const DataCost& data)
      : data_(data), layers_(inputs.model.layers), tied_(inputs.model.tied_head) {
    Transformer layers = inputs.model;
    layers.vocabulary = 0;
    of_layers_ = trained_per_rank(layers, mesh) / trained_per_rank(inputs.model, mesh);
  }

  bool exist() const { return data_.replicas > 1; }

  void start_forward(Timeline& timeline) {
    if (!gathers()) return;
    timeline.wait_posted(timeline.post((1 - of_layers_) * gathering()));
    prefetch(timeline);
  }
  void start_backward(Timeline& timeline) {
    if (!gathers()) return;
    timeline.post((1 - of_layers_) * gathering());
    prefetch(timeline);
  }
  // Waits for this layer's weights and asks for the next one's.
  void enter_layer(bool is_last, Timeline& timeline) {
    if (!gathers()) return;
    const std::size_t own = prefetched_;
    if (!is_last) prefetch(timeline);
    timeline.wait_posted(own);
  }
  void leave_layer(Timeline& timeline) { send(of_layers_ / layers_, timeline); }
  // The gradient of a head that is not the embedding is complete before the layers'.
  void leave_head(Timeline& timeline) {
    if (!tied_) send((1 - of_layers_) / 2, timeline);
  }
  void finish(Timeline& timeline) {
    send((1 - of_layers_) / (tied_ ? 1 : 2), timeline);
    if (exist()) timeline.wait_posted(last_);
  }

 private:
  bool gathers() const { return exist() && data_.gathering > 0; }
  // Once in each pass.
  double gathering() const { return data_.gathering / 2; }
  void prefetch(Timeline& timeline) {
    prefetched_ = timeline.post(of_layers_ / layers_ * gathering());
  }
  void send(double part, Timeline& timeline) {
    if (exist()) last_ = timeline.post(part * (data_.seconds - data_.gathering));
  }

  DataCost data_;
  double layers_ = 1, of_layers_ = 1;
  bool tied_ = true;
  std::size_t prefetched_ = 0, last_ = 0;
};

struct Played {
  double seconds = 0;
  double sent = 0;
};

// The link that the replicas share with the mesh: that of a dimension whose fullest links are on
// the same level; 2: none.
int link_of(const DataCost& data, const LayerCost& cost) {
  const auto shares = [&data](const DimensionCost& dimension) {
    return dimension.bottleneck.role != LinkRole::kNone && dimension.bottleneck.level == data.level;
  };
  if (shares(cost.dimension1)) return 0;
  if (shares(cost.dimension2)) return share_links(cost) ? 0 : 1;
  return 2;
}

// A micro-batch with this many layers, without the optimizer. `outside` are the passes of embedding
// and head, where models with whole logits have whole sequences.
Played play_step(const CostInputs& inputs, const Passes& passes, const Passes& outside,
                 const LayerCost& cost, std::uint32_t layers, Replicas& replicas, int link) {
  const bool shared = share_links(cost);
  const bool has_ends = inputs.model.vocabulary > 0;
  Timeline timeline;
  timeline.share(link);
  std::vector<double> arrives(inputs.options.chunks, 0);
  const auto run = [&](const Pass& pass) {
    play(shared ? on_one_link(pass) : pass, arrives, shared ? 0 : 1, timeline);
  };
  replicas.start_forward(timeline);
  if (has_ends) run(outside.embedding());
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    replicas.enter_layer(layer + 1 == layers, timeline);
    run(passes.forward());
  }
  replicas.start_backward(timeline);
  if (has_ends) {
    if (inputs.options.whole_logits) run(passes.gathered_tokens());
    run(outside.head());
    for (const double arrival : arrives) timeline.wait(arrival);
    timeline.compute(inputs.options.chunks * outside.loss());
    if (outside.loss_sums() > 0) timeline.wait(timeline.send(0, outside.loss_sums()));
    arrives.assign(arrives.size(), timeline.now());
    run(outside.head_backward());
    replicas.leave_head(timeline);
  }
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    replicas.enter_layer(layer + 1 == layers, timeline);
    run(passes.backward());
    if (passes.copies_sum() > 0) timeline.wait(timeline.send(0, passes.copies_sum()));
    replicas.leave_layer(timeline);
  }
  if (has_ends) run(passes.gathered_tokens());
  for (const double arrival : arrives) timeline.wait(arrival);
  replicas.finish(timeline);
  return {timeline.now(), timeline.sent()};
}

// Adam reads and writes the weights and two moments in float32, and reads the gradients.
double optimizer_seconds(const CostInputs& inputs, Mesh mesh) {
  const double speed = inputs.interconnect.device.memory_bytes_per_second;
  if (speed == 0) return 0;
  return parameters_per_rank(inputs.model, mesh) * (3.0 * inputs.model.bytes_per_element + 16) /
         speed;
}

// Outside the layers, models with whole logits have whole sequences.
Options options_of_ends(const CostInputs& inputs) {
  Options options = inputs.options;
  options.sequence_parallel &= !options.whole_logits;
  return options;
}

CostInputs with_options(const CostInputs& inputs, const Options& options) {
  return {inputs.interconnect, inputs.model,        options, inputs.tokens, inputs.sequence,
          inputs.at_once,      inputs.micro_batches};
}

}  // namespace

StepTime step_time(const CostInputs& inputs, Mesh mesh, const LayerCost& cost) {
  const Passes passes(inputs, mesh, cost);
  const Options options = options_of_ends(inputs);
  const CostInputs of_ends = with_options(inputs, options);
  const Passes outside(of_ends, mesh, cost);
  Replicas alone(inputs, mesh, {});
  // Every further layer takes as long as the second.
  const Played one = play_step(inputs, passes, outside, cost, 1, alone, 2);
  const Played two = play_step(inputs, passes, outside, cost, 2, alone, 2);
  const double chunks = inputs.options.chunks, layers = inputs.model.layers;
  const double times = inputs.micro_batches;
  const double optimizer = optimizer_seconds(inputs, mesh);
  StepTime time;
  time.products = times * layers * chunks * passes.layer_products();
  time.others = times * layers * chunks * passes.layer_others() + optimizer;
  if (inputs.model.vocabulary > 0) {
    time.products +=
        times * 3 * chunks * outside.product(inputs.model.hidden, outside.vocabulary());
    time.others += times * chunks * (outside.loss() + 3 * outside.norm());
  }
  time.sent = times * (one.sent + (layers - 1) * (two.sent - one.sent));
  time.seconds = times * (one.seconds + (layers - 1) * (two.seconds - one.seconds)) + optimizer;
  time.waited = std::max(0.0, time.seconds - time.products - time.others);
  return time;
}

double waited_between_replicas(const CostInputs& inputs, Mesh mesh, const LayerCost& cost,
                               const DataCost& data) {
  const Passes passes(inputs, mesh, cost);
  const Options options = options_of_ends(inputs);
  const CostInputs of_ends = with_options(inputs, options);
  const Passes outside(of_ends, mesh, cost);
  // Of one micro-batch: if the weights are whole, only the last one sums gradients.
  DataCost of_one = data;
  const double times = data.fully_shard ? inputs.micro_batches : 1;
  of_one.seconds /= times;
  of_one.gathering /= times;
  const auto seconds = [&](const DataCost& sent, int link) {
    Replicas replicas(inputs, mesh, sent);
    return play_step(inputs, passes, outside, cost, inputs.model.layers, replicas, link).seconds;
  };
  return times * std::max(0.0, seconds(of_one, link_of(data, cost)) - seconds({}, 2));
}

}  // namespace atp::planner
