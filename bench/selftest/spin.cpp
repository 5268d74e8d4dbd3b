// SPDX-License-Identifier: Apache-2.0
#include "bench/selftest/spin.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

namespace mage::selftest {
namespace {

constexpr int words = 32;  // one a thread of the warp that spins

const double& duration_us(const AnyProblem& problem) { return *static_cast<const double*>(problem.value.get()); }

}  // namespace

struct SpinFamily::Args {
  const SpinFamily* family;
  const std::uint32_t* from;
  std::uint32_t* to;
};

template <std::size_t Index>
Launch SpinFamily::prepare_variant(detail::ErasedFunction, const void* problem, const void* args) {
  const auto& typed = *static_cast<const Args*>(args);
  return typed.family->launch(Index, *static_cast<const double*>(problem), typed);
}

SpinFamily::SpinFamily(Device& device, std::vector<SpinVariant> variants)
    : device_{device}, variants_{std::move(variants)} {
  if (variants_.empty() || variants_.size() > most_variants)
    throw std::invalid_argument{
        fmt::format("{} variants of the spin: there may be 1 to {}", variants_.size(), most_variants)};
  using Prepare = Launch (*)(detail::ErasedFunction, const void*, const void*);
  // A prepare function is told its problem and its memory only, so each variant has one of its own.
  constexpr auto prepares = []<std::size_t... Index>(std::index_sequence<Index...>) {
    return std::array<Prepare, most_variants>{&SpinFamily::prepare_variant<Index>...};
  }(std::make_index_sequence<most_variants>{});
  for (std::size_t i = 0; i < variants_.size(); ++i) {
    VariantInfo info;
    info.family = name();
    info.name = variants_[i].name;
    info.source = "bench/selftest/spin.cpp";
    info.provider = "mage_bench";
    info.min_cc = device_.info().is_host ? 0 : 1;
    info.erased.call_accepts = [](detail::ErasedFunction, const void*) { return true; };
    info.erased.call_prepare = prepares[i];
    infos_.push_back(std::move(info));
  }
  stamps_ = static_cast<std::uint64_t*>(device_.allocate(2 * most_variants * sizeof(std::uint64_t)));
  device_.fill(stamps_, 0, sizeof(std::uint32_t) * 4 * most_variants);
}

SpinFamily::~SpinFamily() { device_.deallocate(stamps_); }

AnyProblem SpinFamily::problem(double us) { return {fmt::format("{}us", us), std::make_shared<const double>(us)}; }

double SpinFamily::stamped_us(std::size_t variant) const {
  std::array<std::uint64_t, 2> seen{};
  device_.download(seen.data(), stamps_ + 2 * variant, sizeof seen);
  return static_cast<double>(seen[1] - seen[0]) * 1e-3;
}

Operands SpinFamily::operands(const AnyProblem& problem) const {
  // Other words for another duration: inputs are told apart by their hash.
  const auto seed = static_cast<uint64>(duration_us(problem) * 1e3);
  return {{"x", Role::in, DType::f32, 1, words, Distribution::normal, seed, 0},
          {"y", Role::out, DType::f32, 1, words, Distribution::normal, 0, 0}};
}

AnyArgs SpinFamily::bind(const AnyProblem&, const Pointers& pointers) const {
  return std::make_shared<const Args>(Args{this, pointers.at<std::uint32_t>(0), pointers.at<std::uint32_t>(1)});
}

void SpinFamily::reference(const AnyProblem&, const Pointers& host_pointers, Expected& expected) const {
  const auto* x = host_pointers.at<float>(0);
  expected.resize(1);
  expected[0].value.assign(x, x + words);
  expected[0].bound.assign(words, 0);
}

Work SpinFamily::work(const AnyProblem&) const { return {0, 4.0 * words, 4.0 * words}; }

Launch SpinFamily::launch(std::size_t variant, double us, const Args& args) const {
  return [this, variant, us, from = args.from, to = args.to](StreamHandle stream) {
    const auto& chosen = variants_[variant];
    if (chosen.host_sleep_us > 0)
      std::this_thread::sleep_for(std::chrono::duration<double, std::micro>{chosen.host_sleep_us});
    device_.spin(stream, {us * chosen.factor * drift_, from, to, words, stamps_ + 2 * variant});
  };
}

void raise_clock(Device& device) {
  constexpr double enough_us = 300e3;
  const double begin_us = device.now_us();
  while (device.probe_clock() && device.now_us() - begin_us < enough_us) {
  }
}

BoundSpin::BoundSpin(Device& device, double us)
    : device_{device},
      bound_us_{us},
      family_{device, {{"spin"}}},
      oracle_{family_, SpinFamily::problem(us)},
      case_{device, oracle_},
      launch_{case_.bind(family_.spins().front())} {}

void BoundSpin::verify() {
  case_.poison();
  device_.submit(launch_);
  if (const auto verdict = case_.check(); !verdict.ok)
    throw std::runtime_error{"the spin's own output is wrong: " + verdict.reason};
}

}  // namespace mage::selftest
