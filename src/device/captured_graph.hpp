// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mage_bench/cuda.hpp"
#include "mage_bench/device.hpp"

namespace mage {

/// What operations put on a stream that is being captured, instantiated and uploaded.
class CapturedGraph final : public Graph {
 public:
  CapturedGraph(CudaGraph graph, cudaStream_t stream);

  [[nodiscard]] int kernel_nodes() const override { return kernel_nodes_; }
  [[nodiscard]] int other_nodes() const override { return static_cast<int>(nodes_.size()) - kernel_nodes_; }
  [[nodiscard]] double instantiate_us() const override { return instantiate_us_; }
  [[nodiscard]] std::vector<std::string> nodes() const override { return nodes_; }
  [[nodiscard]] cudaGraphExec_t exec() const { return exec_.get(); }

 private:
  CudaGraph graph_;
  CudaGraphExec exec_;
  std::vector<std::string> nodes_;
  int kernel_nodes_ = 0;
  double instantiate_us_ = 0;
};

/// Captures `operations` calls on `stream`. Throws WrongError where the operation left work on another stream that
/// nothing waits for, UnavailableError where it cannot be captured.
[[nodiscard]] std::unique_ptr<CapturedGraph> capture_graph(Launch& launch, int operations, cudaStream_t stream);

}  // namespace mage
