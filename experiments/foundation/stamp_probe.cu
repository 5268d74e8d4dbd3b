// SPDX-License-Identifier: Apache-2.0
// What sets the fixed cost of an event span: the process, the stream, or the event?
// Prints the median gated span of an empty kernel for every stream and pair of events, as CSV.
//   nvcc -O2 -arch=native stamp_probe.cu -o stamp_probe && for i in 1 2 3 4 5 6 7 8; do ./stamp_probe $i; done
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

__global__ void empty() {}
__global__ void delay(unsigned long long ns) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - begin < ns);
}

double span_us(cudaStream_t stream, cudaEvent_t begin, cudaEvent_t end) {
  std::vector<float> spans;
  for (int i = 0; i < 101; ++i) {
    delay<<<1, 1, 0, stream>>>(40000);
    CHECK(cudaEventRecord(begin, stream));
    empty<<<1, 1, 0, stream>>>();
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaStreamSynchronize(stream));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    spans.push_back(ms * 1000);
  }
  std::nth_element(spans.begin(), spans.begin() + 50, spans.end());
  return spans[50];
}

}  // namespace

int main(int argc, char** argv) {
  const char* process = argc > 1 ? argv[1] : "0";
  constexpr int streams = 8, pairs = 6;
  for (int round = 0; round < 2; ++round) {
    std::vector<cudaStream_t> stream(streams);
    std::vector<cudaEvent_t> events(2 * pairs);
    for (auto& s : stream) CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    for (auto& e : events) CHECK(cudaEventCreate(&e));
    delay<<<1, 1, 0, stream[0]>>>(200000000);
    CHECK(cudaDeviceSynchronize());
    for (int s = 0; s < streams; ++s) {
      std::printf("%s,%d,%d", process, round, s);
      for (int p = 0; p < pairs; ++p) std::printf(",%.3f", span_us(stream[s], events[2 * p], events[2 * p + 1]));
      std::printf("\n");
    }
    for (auto s : stream) CHECK(cudaStreamDestroy(s));
    for (auto e : events) CHECK(cudaEventDestroy(e));
  }
}
