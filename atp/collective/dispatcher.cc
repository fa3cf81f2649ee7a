// Checks each operation, gives it its number and its transports, and decides when it is sent.
#include "atp/collective/dispatcher.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "atp/base/text.h"
#include "atp/base/time.h"
#include "atp/collective/network/failure_text.h"

namespace atp {

namespace {

Status check(const Values& values, const AllReduceOptions& options,
             const CommunicatorOptions& job) {
  if (!options.segments.empty()) {
    std::size_t sum = 0;
    for (const std::size_t length : options.segments) sum += length;
    if (sum != values.count) {
      return Error{"its segments have " + with_commas(sum) + " values and the tensor has " +
                   with_commas(values.count) + ": give the lengths of all segments"};
    }
  }
  return check_kind({values.type, options.reduction}, job.number_format, options.format,
                    job.world_size);
}

Status check(const Values& values, const HostRequest& request, const AllReduceOptions& options,
             const CommunicatorOptions& job) {
  const std::vector<std::size_t>& lengths = request.lengths;
  if (has_root(request.collective) && request.root >= job.world_size) {
    return Error{"rank " + std::to_string(request.root) + " is not one of the job's ranks 0 to " +
                 std::to_string(job.world_size - 1) + ": give another root"};
  }
  if (request.collective == HostCollective::kBroadcast) return ok_status();
  if (request.collective == HostCollective::kAllReduce) return ok_status();
  if (request.collective == HostCollective::kReduce) return check(values, options, job);
  if (exchanges(request.collective)) {
    if (request.blocks_to.size() == job.world_size && request.blocks_from.size() == job.world_size)
      return ok_status();
    return Error{"expected a block for and from each of " + with_commas(job.world_size) +
                 " ranks, but found " + with_commas(request.blocks_to.size()) + " and " +
                 with_commas(request.blocks_from.size())};
  }
  if (lengths.size() != job.world_size) {
    return Error{"expected a length for each of " + with_commas(job.world_size) +
                 " ranks, but found " + with_commas(lengths.size())};
  }
  const bool gathers = request.collective == HostCollective::kAllGather;
  const std::size_t outputs = gathers ? job.world_size : 1;
  if (request.outputs.size() != outputs) {
    return Error{"expected memory for " + with_commas(outputs) + " results, but found " +
                 with_commas(request.outputs.size())};
  }
  const std::size_t expected =
      gathers ? lengths[job.rank] : std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
  if (values.count != expected) {
    return Error{"expected a tensor of " + with_commas(expected) +
                 (gathers ? " bytes, this rank's length" : " values, the sum of all lengths") +
                 ", but found " + with_commas(values.count)};
  }
  return gathers ? ok_status() : check(values, options, job);
}

}  // namespace

Dispatcher::Dispatcher(const CommunicatorOptions& options,
                       std::vector<std::shared_ptr<Transport>> transports)
    : options_(options),
      transports_(std::move(transports)),
      network_transports_(transports_.size()),
      keeps_digest_(options.digest || options.digest_every > 0),
      shards_(transports_.size()) {}

Status Dispatcher::add_ring(std::shared_ptr<Transport> ring, const CostModels& figures,
                            std::uint64_t judged_every) {
  const std::lock_guard lock(mutex_);
  if (next_number_ > 0 || tuning_ != nullptr) {
    return Error{"a ring can be added only once, and only before the first operation"};
  }
  transports_.push_back(std::move(ring));
  tuning_ = std::make_unique<Tuning>(figures, judged_every);
  return ok_status();
}

std::optional<TunerCounts> Dispatcher::tuner_counts() {
  const std::lock_guard lock(mutex_);
  if (tuning_ == nullptr) return std::nullopt;
  TunerCounts counts = tuning_->counts;
  counts.trials = tuning_->choice.trials();
  counts.changes = tuning_->choice.changes();
  counts.ring_from = tuning_->choice.ring_from();
  return counts;
}

Dispatcher::Operations Dispatcher::submit(const Values& values, AllReduceOptions options) {
  if (options.timeout.count() == 0) options.timeout = options_.operation_timeout;
  options.timeout = bounded_timeout(options.timeout);
  if (options.is_probe) return submit_probe(values, std::move(options));
  // An operation that may be held is carried out by the thread that releases it.
  options.here = options.here && transports_.size() == 1 && options_.digest_every == 0;
  const bool here = options.here;
  const Status valid = check(values, options, options_);
  Refusals refused;
  Operations operations;
  {
    const std::lock_guard lock(mutex_);
    const RecordedShape shape = RecordedShape::of_values(values.count);
    if (valid) record("all_reduce", name_of(values.type), shape, shape, options);
    const OperationName name{next_number_++, values.count};
    operations = take(cut(name, values, std::move(options)), valid, refused);
  }
  tell(refused);
  if (here && refused.empty()) transports_.front()->help(*operations.front());
  return operations;
}

Dispatcher::Operations Dispatcher::submit(const Values& values, HostRequest request,
                                          AllReduceOptions options) {
  if (options.timeout.count() == 0) options.timeout = options_.operation_timeout;
  options.timeout = bounded_timeout(options.timeout);
  options.here = options.here && options_.digest_every == 0;
  options.segments.clear();
  const bool here = options.here;
  const Status valid = check(values, request, options, options_);
  const bool sums = adds(request.collective);
  // On all ranks, rows are as long as the longest block.
  std::size_t longest = values.count;
  if (!sums && !request.lengths.empty()) {
    longest = *std::max_element(request.lengths.begin(), request.lengths.end());
  }
  if (exchanges(request.collective)) longest = longest_block(request);
  const NumberFormat format = options.format.value_or(options_.number_format);
  Refusals refused;
  Operations operations;
  {
    const std::lock_guard lock(mutex_);
    if (valid) record_request(values, request, options);
    const OperationName name{next_request_++, longest / (sums ? 1 : request.element_bytes),
                             name_of(request.collective)};
    auto operation =
        std::make_shared<PendingOperation>(name, TensorPart{values, BlockLayout(longest)}, format,
                                           std::move(options), std::move(request));
    operations = take({.parts = {std::move(operation)}, .transports = {0}}, valid, refused);
  }
  tell(refused);
  if (here && refused.empty()) transports_.front()->help(*operations.front());
  return operations;
}

// The order of all operations is the same on all ranks, whatever their kinds, so one counter
// numbers them.
void Dispatcher::record(const char* name, const char* type, const RecordedShape& input,
                        const RecordedShape& output, AllReduceOptions& options) {
  if (recorded_ == nullptr) return;
  const bool in_memory = transports_.front()->value_count() == 0;
  const RecordedGroup::Token token = recorded_->begin({.name = name,
                                                       .path = in_memory ? "memory" : "innetwork",
                                                       .type = type,
                                                       .number = next_number_ + next_request_,
                                                       .tag = options.tag,
                                                       .timeout = options.timeout,
                                                       .input = input,
                                                       .output = output});
  options.on_done = RecordedGroup::ending(recorded_, token, std::move(options.on_done));
}

void Dispatcher::record_request(const Values& values, const HostRequest& request,
                                AllReduceOptions& options) {
  if (recorded_ == nullptr) return;
  const bool sums = adds(request.collective);
  const std::size_t total =
      std::accumulate(request.lengths.begin(), request.lengths.end(), std::size_t{0});
  const std::size_t bytes = sums ? 1 : std::max<std::size_t>(request.element_bytes, 1);
  const auto of = [&](std::size_t count) { return RecordedShape::of_values(count / bytes); };
  RecordedShape input = of(values.count);
  RecordedShape output = input;
  if (sums && options_.rank < request.lengths.size()) output = of(request.lengths[options_.rank]);
  if (exchanges(request.collective)) {
    input = RecordedShape::of_blocks(request.blocks_to, bytes);
    output = RecordedShape::of_blocks(request.blocks_from, bytes);
  }
  if (request.collective == HostCollective::kAllGather) output = of(total);
  const char* type = sums ? name_of(values.type) : "bytes";
  if (request.reduction != ElementReduction::kNone) type = to_string(request.kind).data();
  record(name_of(request.collective), type, input, output, options);
}

Dispatcher::Operations Dispatcher::take(Submission submission, const Status& valid,
                                        Refusals& refused) {
  Operations operations = submission.parts;
  if (submission.comparison) operations.push_back(submission.comparison);
  if (!valid) {
    for (const auto& operation : operations) refused.push_back({operation, valid.error().message});
    return operations;
  }
  if (submission.is_undecided && both_can_take(*submission.parts.front())) {
    transports_[network_transports_]->reserve(*submission.parts.front());
  }
  if (holds() || !held_.empty()) {
    held_.push_back(std::move(submission));
  } else {
    send(std::move(submission), refused);
  }
  return operations;
}

Dispatcher::Submission Dispatcher::cut(const OperationName& name, const Values& values,
                                       AllReduceOptions options) {
  Submission submission{.number = name.number};
  const BlockLayout layout =
      options.segments.empty() ? BlockLayout(values.count) : BlockLayout(options.segments);
  options.segments.clear();
  const NumberFormat format = options.format.value_or(options_.number_format);
  if (ends_comparison(name.number)) submission.comparison = make_comparison(name, options);
  if (keeps_digest_) {
    options.on_done = [self = shared_from_this(), name, values,
                       done = std::move(options.on_done)](const Status& status) {
      self->result_is_in(name, values, status);
      if (done) done(status);
    };
  }
  if (tuning_ != nullptr) {
    options.here = false;
    options.on_done = [self = shared_from_this(),
                       done = std::move(options.on_done)](const Status& status) {
      self->has_ended(status);
      if (done) done(status);
    };
    submission.is_undecided = true;
    submission.parts = {std::make_shared<PendingOperation>(name, TensorPart{values, layout}, format,
                                                           std::move(options))};
    return submission;
  }
  const std::vector<Shards::Part> parts = shards_.split(layout);
  if (parts.size() > 1) options.on_done = after(parts.size(), std::move(options.on_done));
  for (const Shards::Part& part : parts) {
    const Values of_part{values.data + part.begin * bytes_of(values.type), part.end - part.begin,
                         values.type};
    const TensorPart tensor{of_part, layout.part(part.begin, part.end)};
    submission.transports.push_back(part.shard);
    submission.parts.push_back(std::make_shared<PendingOperation>(name, tensor, format, options));
  }
  return submission;
}

bool Dispatcher::ends_comparison(std::uint64_t number) const {
  return options_.digest_every > 0 && options_.world_size > 1 &&
         (number + 1) % options_.digest_every == 0;
}

std::shared_ptr<PendingOperation> Dispatcher::make_comparison(const OperationName& after_this,
                                                              AllReduceOptions& options) {
  options.on_done = after(2, std::move(options.on_done));
  const auto words =
      std::make_shared<std::vector<std::uint32_t>>(kDigestWords * options_.world_size);
  AllReduceOptions own;
  own.timeout = options.timeout;
  own.timeout_is_total = options.timeout_is_total;
  own.on_done = options.on_done;
  const OperationName name{after_this.number, words->size(), "comparison of digests after"};
  const Values values{reinterpret_cast<std::byte*>(words->data()), words->size(), DataType::kInt32};
  return std::make_shared<PendingOperation>(
      name, TensorPart{values, BlockLayout(values.count)}, options_.number_format, std::move(own),
      [self = shared_from_this(), after_this, words](Status status) {
        return self->judge(after_this, *words, std::move(status));
      });
}

void Dispatcher::result_is_in(const OperationName& name, const Values& values,
                              const Status& status) {
  if (status.ok()) {
    digest_.add(name.number, values.type, {values.data, values.count * bytes_of(values.type)});
  } else {
    digest_.add_failed(name.number);
  }
  if (options_.digest_every == 0) return;
  Refusals refused;
  {
    const std::lock_guard lock(mutex_);
    if (comparison_ && digest_.whole().operations >= compared_operations_) let_go(refused);
  }
  tell(refused);
}

// Sends the comparison, and the operations held behind it up to the next one.
void Dispatcher::let_go(Refusals& refused) {
  const std::span<std::byte> bytes = comparison_->bytes();
  write_digest(digest_.whole().digest, options_.rank,
               {reinterpret_cast<std::uint32_t*>(bytes.data()), bytes.size() / 4});
  send_to(0, std::exchange(comparison_, nullptr), refused);
  send_held(refused);
}

void Dispatcher::send_held(Refusals& refused) {
  while (!held_.empty() && !holds()) {
    Submission next = std::move(held_.front());
    held_.pop_front();
    send(std::move(next), refused);
  }
  if (held_.empty() && !comparison_) sent_.notify_all();
}

void Dispatcher::send(Submission submission, Refusals& refused) {
  if (submission.is_undecided) {
    judge_paths(refused);
    send_where_it_is_faster(submission.parts.front(), refused);
    ++tuning_->sent;
  }
  for (std::size_t i = 0; i < submission.transports.size(); ++i) {
    send_to(submission.transports[i], submission.parts[i], refused);
  }
  comparison_ = std::move(submission.comparison);
  compared_operations_ = submission.number + 1;
}

bool Dispatcher::both_can_take(const PendingOperation& operation) const {
  return operation.values().type == DataType::kFloat32 && is_sum(operation.options().reduction) &&
         operation.format() != NumberFormat::kFixed;
}

void Dispatcher::send_where_it_is_faster(const std::shared_ptr<PendingOperation>& whole,
                                         Refusals& refused) {
  const auto now = std::chrono::steady_clock::now();
  const std::size_t bytes = whole->bytes().size();
  if (both_can_take(*whole)) {
    const SumPath path = tuning_->choice.next(bytes);
    ++tuning_->counts.operations[index_of(path)];
    tuning_->samples.begin(path, bytes, now);
    if (path == SumPath::kRing) return send_to(network_transports_, whole, refused);
    transports_[network_transports_]->skip(*whole);
  } else {
    tuning_->samples.begin(std::nullopt, bytes, now);
  }
  send_to_servers(whole, shards_.split(whole->layout()), refused);
}

void Dispatcher::send_to_servers(const std::shared_ptr<PendingOperation>& whole,
                                 const std::vector<Shards::Part>& parts, Refusals& refused) {
  if (parts.size() == 1) return send_to(parts.front().shard, whole, refused);
  const auto end_part =
      after(parts.size(), [whole](const Status& status) { whole->finish(status); });
  for (const Shards::Part& part : parts) {
    const Values& values = whole->values();
    const Values of_part{values.data + part.begin * bytes_of(values.type), part.end - part.begin,
                         values.type};
    AllReduceOptions options = whole->options();
    options.on_done = end_part;
    const TensorPart tensor{of_part, whole->layout().part(part.begin, part.end)};
    send_to(part.shard,
            std::make_shared<PendingOperation>(whole->name(), tensor, whole->format(), options),
            refused);
  }
}

void Dispatcher::has_ended(const Status& status) {
  tuning_->samples.end(std::chrono::steady_clock::now());
  if (!status) end_all_transports(status.error().message);
}

// Other ranks learn of a failure only on the path that has failed; on the other one they would wait
// for a rank that has given up.
void Dispatcher::end_all_transports(const std::string& why) {
  for (const auto& transport : transports_) transport->give_up(why);
}

bool Dispatcher::awaits_times() const {
  return tuning_ != nullptr && tuning_->asks && tuning_->exchanges.is_due(tuning_->sent);
}

// Exchanges times and judges the paths, if that is due before the next operation.
void Dispatcher::judge_paths(Refusals& refused) {
  if (!tuning_->exchanges.is_due(tuning_->sent)) return;
  tuning_->exchanges.advance();
  if (tuning_->asked) {
    tuning_->choice.judge(tuning_->told);
    ++tuning_->counts.judgements;
  }
  ask_for_times(refused);
}

void Dispatcher::ask_for_times(Refusals& refused) {
  const auto times = std::make_shared<MeasuredTimes>(tuning_->samples.take());
  AllReduceOptions options;
  options.reduction = Reduction::kMin;
  options.timeout = bounded_timeout(options_.operation_timeout);
  options.on_done = [self = shared_from_this(), times](const Status& status) {
    self->times_are_in(status, *times);
  };
  const OperationName name{next_number_, kSumPaths * kSizeClasses, "exchange of times before"};
  const Values values{reinterpret_cast<std::byte*>(times->data()), name.values, DataType::kInt32};
  tuning_->asked = true;
  tuning_->asks = true;
  send_to(0,
          std::make_shared<PendingOperation>(name, TensorPart{values, BlockLayout(values.count)},
                                             options_.number_format, std::move(options)),
          refused);
}

void Dispatcher::times_are_in(const Status& status, const MeasuredTimes& times) {
  if (!status) end_all_transports(status.error().message);
  Refusals refused;
  {
    const std::lock_guard lock(mutex_);
    tuning_->told = status ? times : no_times();
    tuning_->asks = false;
    send_held(refused);
  }
  tell(refused);
}

Dispatcher::Operations Dispatcher::submit_probe(const Values& values, AllReduceOptions options) {
  const OperationName name{0, values.count, "probe before"};
  const NumberFormat format = options.format.value_or(options_.number_format);
  options.here = false;
  Refusals refused;
  const auto operation = std::make_shared<PendingOperation>(
      name, TensorPart{values, BlockLayout(values.count)}, format, std::move(options));
  {
    const std::lock_guard lock(mutex_);
    // With shards of its own, so that a probe does not change how operations are spread.
    send_to_servers(operation, Shards(network_transports_).split(operation->layout()), refused);
  }
  tell(refused);
  return {operation};
}

void Dispatcher::send_to(std::size_t transport, const std::shared_ptr<PendingOperation>& part,
                         Refusals& refused) {
  std::optional<std::string> why = failure();
  if (!why) why = transports_[transport]->submit(part);
  if (!why) return;
  if (tuning_ != nullptr) end_all_transports(*why);
  refused.push_back({part, *why});
}

// After a failure the sequence spaces of the workers no longer agree in one transport, so the job
// is over in all transports.
std::optional<std::string> Dispatcher::failure() const {
  for (const auto& transport : transports_) {
    if (const auto why = transport->failure()) return why;
  }
  return std::nullopt;
}

// A transport that was stopped because another one has failed knows no kind.
FailureKind Dispatcher::failure_kind() const {
  for (const auto& transport : transports_) {
    if (const FailureKind kind = transport->failure_kind(); kind != FailureKind::kNone) return kind;
  }
  return results_differ_ ? FailureKind::kBroken : FailureKind::kNone;
}

void Dispatcher::tell(const Refusals& refused) {
  for (const Refused& each : refused) {
    each.operation->finish(Error{each.operation->text() + ": " + each.why});
  }
}

Status Dispatcher::judge(const OperationName& name, std::span<const std::uint32_t> words,
                         Status status) {
  if (!status.ok()) return status;
  const std::optional<std::string> difference =
      digest_difference(words, {name.number + 1 - options_.digest_every, name.number});
  if (!difference) return status;
  results_differ_ = true;
  for (const auto& transport : transports_) transport->give_up(*difference);
  return Error{operation_text(name.what, name.number, name.values) + ": " + *difference};
}

std::uint64_t Dispatcher::submitted() {
  const std::lock_guard lock(mutex_);
  return next_number_ + next_request_;
}

void Dispatcher::wait_until_sent(std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex_);
  sent_.wait_until(lock, until, [this] { return !comparison_ && held_.empty(); });
}

}  // namespace atp
