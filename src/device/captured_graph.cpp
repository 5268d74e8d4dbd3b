// SPDX-License-Identifier: Apache-2.0
#include "device/captured_graph.hpp"

#include <algorithm>
#include <chrono>
#include <exception>

namespace mage {
namespace {

// A capture refusal is about the tool, an illegal address about the variant.
bool is_capture_error(cudaError_t error) {
  switch (error) {
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorStreamCaptureWrongThread: return true;
    default: return false;
  }
}

std::string text_of(const dim3& size) {
  return std::to_string(size.x) + "x" + std::to_string(size.y) + "x" + std::to_string(size.z);
}

std::string kernel_text(cudaGraphNode_t node) {
  cudaKernelNodeParams parameters{};
  if (cudaGraphKernelNodeGetParams(node, &parameters) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // a kernel that the runtime does not know, as Triton's
    return "kernel";
  }
  std::string name = "kernel";
#if CUDART_VERSION >= 12030
  const char* symbol = nullptr;
  if (cudaFuncGetName(&symbol, parameters.func) == cudaSuccess && symbol != nullptr) name = symbol;
  static_cast<void>(cudaGetLastError());
#endif
  return name + " grid " + text_of(parameters.gridDim) + " block " + text_of(parameters.blockDim) + " shared " +
         std::to_string(parameters.sharedMemBytes);
}

}  // namespace

CapturedGraph::CapturedGraph(CudaGraph graph, cudaStream_t stream) : graph_{std::move(graph)} {
  std::size_t count = 0;
  check(cudaGraphGetNodes(graph_.get(), nullptr, &count), "cudaGraphGetNodes");
  std::vector<cudaGraphNode_t> nodes(count);
  check(cudaGraphGetNodes(graph_.get(), nodes.data(), &count), "cudaGraphGetNodes");
  for (auto* node : nodes) {
    cudaGraphNodeType type{};
    check(cudaGraphNodeGetType(node, &type), "cudaGraphNodeGetType");
    const bool kernel = type == cudaGraphNodeTypeKernel;
    kernel_nodes_ += kernel ? 1 : 0;
    nodes_.push_back(kernel ? kernel_text(node) : "node of type " + std::to_string(static_cast<int>(type)));
  }
  std::sort(nodes_.begin(), nodes_.end());
  const auto begin = std::chrono::steady_clock::now();
  check(cudaGraphInstantiate(exec_.put(), graph_.get(), 0), "cudaGraphInstantiate");
  instantiate_us_ = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  check(cudaGraphUpload(exec_.get(), stream), "cudaGraphUpload");
}

std::unique_ptr<CapturedGraph> capture_graph(Launch& launch, int operations, cudaStream_t stream) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  std::string thrown;
  try {
    for (int i = 0; i < operations; ++i) launch(StreamHandle{stream});
  } catch (const std::exception& error) {
    thrown = error.what();  // the capture must end first, or the stream is of no more use
  }
  const auto inside = cudaGetLastError();
  CudaGraph graph;
  const auto ended = cudaStreamEndCapture(stream, graph.put());
  static_cast<void>(cudaGetLastError());
  if (ended == cudaErrorStreamCaptureUnjoined)
    throw WrongError{
        "the operation put work on another stream and did not wait for it: a capture of it cannot end "
        "(cudaErrorStreamCaptureUnjoined)"};
  for (const auto error : {inside, ended})
    if (is_capture_error(error))
      throw UnavailableError{
          error == cudaErrorStreamCaptureUnsupported ? Unavailable::needs_sync : Unavailable::capture_illegal,
          std::string{"stream capture: "} + cudaGetErrorString(error) + (thrown.empty() ? "" : "; ") + thrown};
  if (!thrown.empty()) throw UnavailableError{Unavailable::capture_illegal, "inside a capture: " + thrown};
  check(inside, "a launch inside a capture");
  check(ended, "cudaStreamEndCapture");
  return std::make_unique<CapturedGraph>(std::move(graph), stream);
}

}  // namespace mage
