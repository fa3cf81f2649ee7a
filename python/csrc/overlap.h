#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <span>
#include <vector>

#include "atp/collective/base/collective_request.h"
#include "python/csrc/buffers.h"

// Tensors of one call that share memory. All transports write results while they still read
// inputs, so every one of them relies on the two rules here: results share no memory, and an input
// that a result would overwrite is read from a copy.

namespace atp::pytorch {

// Whether two elements share one memory location.
bool elements_overlap(const at::Tensor& tensor);

// Refuses results that would overwrite one another.
void check_results_apart(const char* operation, at::TensorList results);

// Finds the inputs of a call that its results would overwrite. A call has one or more parts, which
// run at the same time. The own result of a part may lie exactly in its place in the part's input,
// because no transport writes there what it has not read.
class KeptApart {
 public:
  // `own_place`: empty if no result may lie in this input.
  void read(std::size_t part, ConstBytes& input, ConstBytes own_place);
  void write(std::size_t part, Bytes result, bool is_own);
  // Makes these inputs copies, which the buffers keep.
  void keep(Buffers& buffers);

 private:
  struct Read {
    std::size_t part;
    ConstBytes* input;
    ConstBytes own_place;
  };
  struct Written {
    std::size_t part;
    Bytes result;
    bool is_own;
  };
  bool is_overwritten(const Read& read) const;

  std::vector<Read> read_;
  std::vector<Written> written_;
};

// The same for requests, whose blocks are one per rank or a single one of this rank.
template <class Request>
void keep_apart(std::span<Request> requests, Buffers& buffers, std::size_t rank,
                std::size_t ranks) {
  KeptApart apart;
  for (std::size_t part = 0; part < requests.size(); ++part) {
    Request& request = requests[part];
    for (std::size_t i = 0; i < request.inputs.size(); ++i) {
      ConstBytes& input = request.inputs[i];
      const bool is_own = request.inputs.size() < ranks || i == rank;
      apart.read(part, input, is_own ? input : ConstBytes());
    }
    for (std::size_t i = 0; i < request.outputs.size(); ++i) {
      apart.write(part, request.outputs[i], request.outputs.size() < ranks || i == rank);
    }
  }
  apart.keep(buffers);
}

}  // namespace atp::pytorch
