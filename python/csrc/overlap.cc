#include "python/csrc/overlap.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "python/csrc/argument_checks.h"

namespace atp::pytorch {
namespace {

// (stride, size) of each dimension that takes steps.
using Steps = std::vector<std::pair<std::int64_t, std::int64_t>>;

Steps steps_of(const at::Tensor& tensor) {
  Steps steps;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) > 1) steps.emplace_back(tensor.stride(d), tensor.size(d));
  }
  return steps;
}

// If each dimension's stride exceeds the extent of all smaller strides, no two elements overlap.
bool step_over(Steps steps) {
  std::sort(steps.begin(), steps.end());
  std::int64_t reach = 0;
  for (const auto& [stride, size] : steps) {
    if (stride <= reach) return false;
    reach += stride * (size - 1);
  }
  return true;
}

// Memory without gaps.
struct Run {
  const std::byte* begin;
  const std::byte* end;
  bool operator<(const Run& other) const { return begin < other.begin; }
};

const std::byte* first_byte_of(const at::Tensor& tensor) {
  return static_cast<const std::byte*>(tensor.const_data_ptr());
}

// A device written in Python keeps its values where torch knows no address.
bool has_address(const at::Tensor& tensor) {
  return is_dense(tensor) && tensor.numel() > 0 && tensor.has_storage() &&
         tensor.storage().data() != nullptr;
}

// From the first element's first byte to the last one's last.
Run extent_of(const at::Tensor& tensor) {
  std::int64_t reach = 1;
  for (const auto& [stride, size] : steps_of(tensor)) reach += stride * (size - 1);
  const std::byte* begin = first_byte_of(tensor);
  return {begin, begin + reach * tensor.element_size()};
}

// All of the tensor's memory, in order. Locations that several elements share are there as often.
std::vector<Run> runs_of(const at::Tensor& tensor) {
  Steps steps = steps_of(tensor);
  std::sort(steps.begin(), steps.end());
  std::int64_t length = 1;
  std::size_t inner = 0;
  for (; inner < steps.size() && steps[inner].first == length; ++inner) {
    length *= steps[inner].second;
  }
  std::vector<std::int64_t> places{0};
  for (std::size_t s = inner; s < steps.size(); ++s) {
    const std::size_t count = places.size();
    for (std::int64_t i = 1; i < steps[s].second; ++i) {
      for (std::size_t p = 0; p < count; ++p) places.push_back(places[p] + i * steps[s].first);
    }
  }
  std::sort(places.begin(), places.end());
  std::vector<Run> runs;
  runs.reserve(places.size());
  const std::int64_t element = tensor.element_size();
  for (const std::int64_t place : places) {
    const std::byte* begin = first_byte_of(tensor) + place * element;
    runs.push_back({begin, begin + length * element});
  }
  return runs;
}

bool fills_its_extent(const at::Tensor& tensor) {
  const Run extent = extent_of(tensor);
  return extent.end - extent.begin == static_cast<std::ptrdiff_t>(tensor.nbytes());
}

// For tensors whose extents overlap.
bool share_memory(const at::Tensor& one, const at::Tensor& other) {
  if (fills_its_extent(one) && fills_its_extent(other)) return true;
  const std::int64_t distance = std::abs(first_byte_of(one) - first_byte_of(other));
  // Columns of one tensor, for example.
  if (one.sizes() == other.sizes() && one.strides() == other.strides() &&
      one.element_size() == other.element_size() && distance % one.element_size() == 0) {
    Steps both = steps_of(one);
    both.emplace_back(distance / one.element_size(), 2);
    if (step_over(std::move(both))) return false;
  }
  const std::vector<Run> ours = runs_of(one);
  const std::vector<Run> theirs = runs_of(other);
  for (auto a = ours.begin(), b = theirs.begin(); a != ours.end() && b != theirs.end();) {
    if (a->begin < b->end && b->begin < a->end) return true;
    a->end <= b->begin ? ++a : ++b;
  }
  return false;
}

}  // namespace

bool elements_overlap(const at::Tensor& tensor) {
  if (tensor.numel() < 2 || tensor.is_contiguous() || step_over(steps_of(tensor))) return false;
  const std::vector<Run> runs = runs_of(tensor);
  return std::adjacent_find(runs.begin(), runs.end(), [](const Run& run, const Run& next) {
           return next.begin < run.end;
         }) != runs.end();
}

void check_results_apart(const char* operation, at::TensorList results) {
  if (results.size() < 2) return;
  std::vector<std::pair<Run, const at::Tensor*>> extents;
  for (const at::Tensor& result : results) {
    if (has_address(result)) extents.emplace_back(extent_of(result), &result);
  }
  std::sort(extents.begin(), extents.end(),
            [](const auto& one, const auto& other) { return one.first < other.first; });
  for (auto one = extents.begin(); one != extents.end(); ++one) {
    for (auto other = one + 1; other != extents.end() && other->first.begin < one->first.end;
         ++other) {
      TORCH_CHECK_VALUE(!share_memory(*one->second, *other->second), operation,
                        " writes a result into each of these tensors, but two of them share "
                        "memory; pass tensors of their own, such as tensor.clone()");
    }
  }
}

void KeptApart::read(std::size_t part, ConstBytes& input, ConstBytes own_place) {
  if (!input.empty()) read_.push_back({part, &input, own_place});
}

void KeptApart::write(std::size_t part, Bytes result, bool is_own) {
  if (!result.empty()) written_.push_back({part, result, is_own});
}

// As results share no memory, they are in order by their ends, too.
bool KeptApart::is_overwritten(const Read& read) const {
  const std::byte* const end = read.input->data() + read.input->size();
  auto written = std::upper_bound(written_.begin(), written_.end(), read.input->data(),
                                  [](const std::byte* begin, const Written& each) {
                                    return begin < each.result.data() + each.result.size();
                                  });
  for (; written != written_.end() && written->result.data() < end; ++written) {
    const bool is_in_place = written->is_own && written->part == read.part &&
                             written->result.data() == read.own_place.data() &&
                             written->result.size() == read.own_place.size();
    if (!is_in_place) return true;
  }
  return false;
}

void KeptApart::keep(Buffers& buffers) {
  std::sort(written_.begin(), written_.end(), [](const Written& one, const Written& other) {
    return one.result.data() < other.result.data();
  });
  for (const Read& read : read_) {
    if (!is_overwritten(read)) continue;
    ConstBytes& input = *read.input;
    const at::Tensor copy = at::empty({static_cast<std::int64_t>(input.size())}, at::kByte);
    std::memcpy(copy.mutable_data_ptr(), input.data(), input.size());
    buffers.keep(copy);
    input = {static_cast<const std::byte*>(copy.const_data_ptr()), input.size()};
  }
}

}  // namespace atp::pytorch
