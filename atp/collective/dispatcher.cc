// Checks each operation, gives it its number and its transports, and decides when it is sent.
#include "atp/collective/dispatcher.h"

#include <algorithm>
#include <utility>

#include "atp/base/text.h"
#include "atp/base/time.h"
#include "atp/collective/base/hosts.h"
#include "atp/collective/network/failure_text.h"

namespace atp {

namespace {

// Of an operation in place.
std::size_t values_of(const CollectiveRequest& request) {
  return request.outputs.empty() ? 0 : request.outputs.front().size() / bytes_of(request.kind);
}

Status check_segments(const CollectiveRequest& request) {
  if (request.segments.empty()) return ok_status();
  std::size_t sum = 0;
  for (const std::size_t length : request.segments) sum += length;
  const std::size_t values = values_of(request);
  if (sum == values) return ok_status();
  return Error{"its segments have " + with_commas(sum) + " values and the tensor has " +
               with_commas(values) + ": give the lengths of all segments"};
}

// For a sum, its values; otherwise the bytes of the longest block: rows are as long on all ranks.
std::size_t length_of(const CollectiveRequest& request) {
  if (!adds(request.call)) return longest_block(request);
  std::size_t bytes = 0;
  for (const ConstBytes block : request.inputs) bytes += block.size();
  return request.inputs.empty() ? values_of(request) : bytes / bytes_of(request.kind);
}

// In memory, the blocks of a reduce-scatter follow each other. If they do not, the request gets a
// copy.
void put_side_by_side(CollectiveRequest& request) {
  const std::byte* end = nullptr;
  std::size_t bytes = 0;
  bool are = true;
  for (const ConstBytes block : request.inputs) {
    if (block.empty()) continue;
    are = are && (end == nullptr || end == block.data());
    end = block.data() + block.size();
    bytes += block.size();
  }
  if (are) return;
  const auto copy = std::make_shared<std::vector<std::byte>>();
  copy->reserve(bytes);
  for (ConstBytes& block : request.inputs) {
    copy->insert(copy->end(), block.begin(), block.end());
    block = {copy->data() + copy->size() - block.size(), block.size()};
  }
  request.on_done = [copy, done = std::move(request.on_done)](const Status& status) {
    if (done) done(status);
  };
}

// A part of an all-reduce, or all of it.
std::shared_ptr<PendingOperation> part_of(const OperationName& name, CollectiveRequest&& request,
                                          const BlockLayout& layout, const Shards::Part& part,
                                          NumberFormat format) {
  const std::size_t size = bytes_of(request.kind);
  Bytes& tensor = request.outputs.front();
  tensor = tensor.subspan(part.begin * size, (part.end - part.begin) * size);
  return std::make_shared<PendingOperation>(name, std::move(request),
                                            layout.part(part.begin, part.end), format);
}

// A sum of the dispatcher's own.
template <class Words>
CollectiveRequest request_for(Words& words, ElementReduction reduction) {
  CollectiveRequest request{
      .call = Collective::kAllReduce, .kind = ElementKind::kInt32, .reduction = reduction};
  request.outputs = {std::as_writable_bytes(std::span(words))};
  return request;
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

bool Dispatcher::in_host_memory() const {
  return transports_.front()->value_count() == 0 && !sums_on_hosts(options_);
}

Status Dispatcher::check(const CollectiveRequest& request,
                         std::optional<NumberFormat> format) const {
  const std::string name(to_string(request.call));
  const bool by_rule = adds(request.call) && has_rule(request.kind, request.reduction);
  if (!adds(request.call) && !exchanges(request.call) && request.call != Collective::kBroadcast &&
      request.call != Collective::kAllGather) {
    return Error{name + " needs connections between the ranks"};
  }
  if (by_rule) {
    const Status kind =
        check_kind({*data_type_of(request.kind), *wire_reduction_of(request.reduction)},
                   options_.number_format, format, options_.world_size);
    if (!kind) return kind;
  }
  Status valid = atp::check(request, options_.rank, options_.world_size);
  if (!valid) return valid;
  if (by_rule && request.call == Collective::kAllReduce) return check_segments(request);
  if (in_host_memory()) return ok_status();
  std::string what = name;
  if (adds(request.call)) {
    what += " (the " + std::string(to_string(request.reduction)) + " of " +
            std::string(to_string(request.kind)) + ")";
  }
  return Error{what + " needs the memory of one host, which the ranks of this job do not share"};
}

Dispatcher::Operations Dispatcher::submit(CollectiveRequest&& request) {
  if (request.timeout.count() == 0) request.timeout = options_.operation_timeout;
  request.timeout = bounded_timeout(request.timeout);
  const auto asked = std::exchange(request.format, std::nullopt);
  const NumberFormat format = asked.value_or(options_.number_format);
  if (request.is_probe) return submit_probe(std::move(request), format);
  // An operation that may be held is carried out by the thread that releases it.
  request.here = request.here && transports_.size() == 1 && options_.digest_every == 0;
  const bool here = request.here;
  const Status valid = check(request, asked);
  if (valid && request.call == Collective::kReduceScatter) put_side_by_side(request);
  Refusals refused;
  Operations operations;
  {
    const std::lock_guard lock(mutex_);
    if (valid) record(request);
    // A digest has the numbers of these, and only they go through the network.
    const bool is_cut =
        request.call == Collective::kAllReduce && has_rule(request.kind, request.reduction);
    operations = take(is_cut ? cut(std::move(request), format) : whole(std::move(request), format),
                      valid, refused);
  }
  tell(refused);
  if (here && refused.empty()) transports_.front()->help(*operations.front());
  return operations;
}

// The order of all operations is the same on all ranks, whatever their kinds, so one counter
// numbers them.
void Dispatcher::record(CollectiveRequest& request) {
  if (recorded_ == nullptr) return;
  const bool in_memory = transports_.front()->value_count() == 0;
  const auto shape_of = [&](const auto& blocks) {
    return RecordedShape::of_blocks(blocks, bytes_of(request.kind));
  };
  const RecordedShape output = shape_of(request.outputs);
  const RecordedGroup::Token token =
      recorded_->begin({.name = to_string(request.call),
                        .path = in_memory ? "memory" : "innetwork",
                        .type = to_string(request.kind),
                        .number = next_number_ + next_request_,
                        .tag = request.tag,
                        .timeout = request.timeout,
                        .input = is_in_place(request.call) ? output : shape_of(request.inputs),
                        .output = output});
  request.on_done = RecordedGroup::ending(recorded_, token, std::move(request.on_done));
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

// An operation that is not split.
Dispatcher::Submission Dispatcher::whole(CollectiveRequest&& request, NumberFormat format) {
  request.segments.clear();
  const std::size_t length = length_of(request);
  const OperationName name{next_request_++,
                           length / (adds(request.call) ? 1 : bytes_of(request.kind)),
                           to_string(request.call)};
  auto operation =
      std::make_shared<PendingOperation>(name, std::move(request), BlockLayout(length), format);
  return {.parts = {std::move(operation)}, .transports = {0}};
}

Dispatcher::Submission Dispatcher::cut(CollectiveRequest&& request, NumberFormat format) {
  request.outputs.resize(1);  // it may be one that is refused
  const OperationName name{next_number_++, values_of(request)};
  Submission submission{.number = name.number};
  const BlockLayout layout =
      request.segments.empty() ? BlockLayout(name.values) : BlockLayout(request.segments);
  request.segments.clear();
  if (ends_comparison(name.number)) submission.comparison = make_comparison(name, request);
  if (keeps_digest_) {
    const DataType type = data_type_of(request.kind).value_or(DataType::kFloat32);
    request.on_done = [self = shared_from_this(), number = name.number, type,
                       result = request.outputs.front(),
                       done = std::move(request.on_done)](const Status& status) {
      self->result_is_in(number, type, result, status);
      if (done) done(status);
    };
  }
  if (tuning_ != nullptr) {
    request.here = false;
    request.on_done = [self = shared_from_this(),
                       done = std::move(request.on_done)](const Status& status) {
      self->has_ended(status);
      if (done) done(status);
    };
    submission.is_undecided = true;
    submission.parts = {
        std::make_shared<PendingOperation>(name, std::move(request), layout, format)};
    return submission;
  }
  const std::vector<Shards::Part> parts = shards_.split(layout);
  if (parts.size() > 1) request.on_done = after(parts.size(), std::move(request.on_done));
  const auto add = [&](const Shards::Part& part, CollectiveRequest&& own) {
    submission.transports.push_back(part.shard);
    submission.parts.push_back(part_of(name, std::move(own), layout, part, format));
  };
  for (const Shards::Part& part : std::span(parts).first(parts.size() - 1)) {
    add(part, CollectiveRequest(request));
  }
  add(parts.back(), std::move(request));
  return submission;
}

bool Dispatcher::ends_comparison(std::uint64_t number) const {
  return options_.digest_every > 0 && options_.world_size > 1 &&
         (number + 1) % options_.digest_every == 0;
}

std::shared_ptr<PendingOperation> Dispatcher::make_comparison(const OperationName& after_this,
                                                              CollectiveRequest& request) {
  request.on_done = after(2, std::move(request.on_done));
  const auto words =
      std::make_shared<std::vector<std::uint32_t>>(kDigestWords * options_.world_size);
  CollectiveRequest own = request_for(*words, ElementReduction::kSum);
  own.timeout = request.timeout;
  own.timeout_is_total = request.timeout_is_total;
  own.on_done = request.on_done;
  const OperationName name{after_this.number, words->size(), "comparison of digests after"};
  return std::make_shared<PendingOperation>(
      name, std::move(own), BlockLayout(words->size()), options_.number_format,
      [self = shared_from_this(), after_this, words](Status status) {
        return self->judge(after_this, *words, std::move(status));
      });
}

void Dispatcher::result_is_in(std::uint64_t number, DataType type, Bytes result,
                              const Status& status) {
  if (status.ok()) {
    digest_.add(number, type, result);
  } else {
    digest_.add_failed(number);
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
  const OperationKind& kind = operation.kind();
  if (kind.type == DataType::kInt32) return true;
  return kind.type == DataType::kFloat32 && is_sum(kind.reduction) &&
         kind.format != NumberFormat::kFixed;
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
    CollectiveRequest request = whole->request();
    request.on_done = end_part;
    send_to(part.shard,
            part_of(whole->name(), std::move(request), whole->layout(), part, whole->format()),
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
  CollectiveRequest request = request_for(*times, ElementReduction::kMin);
  request.timeout = bounded_timeout(options_.operation_timeout);
  request.on_done = [self = shared_from_this(), times](const Status& status) {
    self->times_are_in(status, *times);
  };
  const OperationName name{next_number_, kSumPaths * kSizeClasses, "exchange of times before"};
  tuning_->asked = true;
  tuning_->asks = true;
  send_to(0,
          std::make_shared<PendingOperation>(name, std::move(request), BlockLayout(name.values),
                                             options_.number_format),
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

Dispatcher::Operations Dispatcher::submit_probe(CollectiveRequest request, NumberFormat format) {
  const OperationName name{0, values_of(request), "probe before"};
  request.here = false;
  Refusals refused;
  const auto operation = std::make_shared<PendingOperation>(name, std::move(request),
                                                            BlockLayout(name.values), format);
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
