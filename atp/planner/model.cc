#include "atp/planner/model.h"

namespace atp::planner {
namespace {

std::uint64_t head_width(const Transformer& model) {
  return model.head_width != 0 ? model.head_width : model.hidden / model.heads;
}

Error must_be_positive(const char* what) {
  return Error{std::string("the model's ") + what + " must be at least 1, found 0"};
}

}  // namespace

std::uint64_t Transformer::q_width() const {
  return std::uint64_t{heads} * planner::head_width(*this);
}

std::uint64_t Transformer::kv_width() const {
  return std::uint64_t{kv_heads != 0 ? kv_heads : heads} * planner::head_width(*this);
}

std::uint64_t Transformer::ffn_width() const { return ffn != 0 ? ffn : std::uint64_t{4} * hidden; }

Status validate(const Transformer& model) {
  if (model.hidden == 0) return must_be_positive("hidden size");
  if (model.layers == 0) return must_be_positive("number of layers");
  if (model.heads == 0) return must_be_positive("number of heads");
  if (model.bytes_per_element == 0) return must_be_positive("bytes per element");
  if (model.head_width == 0 && model.hidden % model.heads != 0) {
    return Error{"the hidden size " + std::to_string(model.hidden) + " is not a multiple of the " +
                 std::to_string(model.heads) + " heads"};
  }
  if (model.kv_heads != 0 && model.heads % model.kv_heads != 0) {
    return Error{"the " + std::to_string(model.heads) + " heads are not a multiple of the " +
                 std::to_string(model.kv_heads) + " key-value heads"};
  }
  return ok_status();
}

Status validate(const Workload& workload) {
  if (workload.batch == 0) return Error{"the batch must have at least 1 sequence, found 0"};
  if (workload.sequence == 0) return Error{"a sequence must have at least 1 token, found 0"};
  return ok_status();
}

double layer_parameters(const Transformer& model) {
  const double h = model.hidden;
  const double q = static_cast<double>(model.q_width());
  const double kv = static_cast<double>(model.kv_width());
  const double ffn = static_cast<double>(model.ffn_width());
  return h * (q + 2 * kv) + q * h + (model.first_matrices() + 1) * h * ffn;
}

double layer_flops(const Transformer& model, const Workload& workload) {
  // Two operations per weight and token forward, twice that backward. The attention's two products
  // take b s^2 q multiplications each.
  const double tokens = static_cast<double>(workload.tokens());
  const double attention = 2.0 * tokens * workload.sequence * static_cast<double>(model.q_width());
  return 6 * (tokens * layer_parameters(model) + attention);
}

}  // namespace atp::planner
