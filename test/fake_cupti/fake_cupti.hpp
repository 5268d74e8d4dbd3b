// SPDX-License-Identifier: Apache-2.0
// What a test tells the made-up CUPTI, beside what CuptiTrace calls. The test looks these up with dlsym.
#pragma once

#include <cstdint>

extern "C" {

/// Forgets everything, buffers in its hands included.
void fake_cupti_reset();
/// busy, privileges (cuptiActivityEnable fails), dropped (one record is), incomplete (a record ends too early),
/// untimed (a kernel has no times), flush (cuptiActivityFlushAll fails), old (another major version); "" for none.
void fake_cupti_fault(const char* fault);
/// One API call that enqueues `kernels` kernels of 10 us each: more than one stands for a graph's launch.
void fake_cupti_launch(const char* mangled_name, std::uint64_t begin_ns, int kernels);
/// One API call that enqueues a copy from device to device, and one that enqueues a fill; 10 us each.
void fake_cupti_copy(std::uint64_t begin_ns);
void fake_cupti_fill(std::uint64_t begin_ns);
/// The calls so far that attach, detach or deliver, one word each, as in "register enable flush disable".
const char* fake_cupti_calls();
/// Buffers that CUPTI was given and has not given back.
int fake_cupti_buffers_held();

}  // extern "C"
