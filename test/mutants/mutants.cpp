// SPDX-License-Identifier: Apache-2.0
#include "test/mutants/mutants.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "test/support/variants.hpp"

namespace mage::test {
namespace {

constexpr std::size_t tile_words = 256;
constexpr std::uint32_t one_word = 0x3F800000U;
constexpr std::uint32_t nan_word = 0x7FC00000U;

struct Entry {
  Mutation mutation;
  const char* name;
  const char* must_say;
};
constexpr Entry entries[]{
    {Mutation::none, "correct", ""},
    {Mutation::copies_input, "copies_input", "outside its bound"},
    {Mutation::all_zeros, "all_zeros", "outside its bound"},
    {Mutation::last_tile_unwritten, "last_tile_unwritten", "never written"},
    {Mutation::one_past_the_end, "one_past_the_end", "fence"},
    {Mutation::one_nan, "one_nan", "outside its bound"},
    {Mutation::operand_of_zeros, "operand_of_zeros", "outside its bound"},
    {Mutation::operand_of_ones, "operand_of_ones", "outside its bound"},
    {Mutation::last_row_skipped, "last_row_skipped", "outside its bound"},
    {Mutation::last_column_skipped, "last_column_skipped", "outside its bound"},
    {Mutation::tf32_inputs, "tf32_inputs", "outside its bound"},
    {Mutation::input_zeroed, "input_zeroed", "input changed"},
    {Mutation::first_call_only, "first_call_only", "outside its bound"},
    {Mutation::nothing_written, "nothing_written", "never written"},
};

const Entry& entry(Mutation mutation) {
  return *std::find_if(std::begin(entries), std::end(entries), [&](const Entry& e) { return e.mutation == mutation; });
}

std::size_t words(const Operand& operand) { return operand.bytes() / sizeof(std::uint32_t); }

using Words = std::vector<std::uint32_t>;

void zero_last_column(Words& matrix, int64 cols) {
  const auto step = static_cast<std::size_t>(cols);
  for (std::size_t last = step - 1; last < matrix.size(); last += step) matrix[last] = 0;
}

/// To the nearest, ties to even; infinity and NaN stay.
void round_to_tf32(Words& floats) {
  constexpr std::uint32_t exponent = 0x7F800000U, dropped = 0x1FFFU;
  for (auto& word : floats)
    if ((word & exponent) != exponent) word = (word + dropped / 2 + ((word >> 13U) & 1U)) & ~dropped;
}

/// Whether what the family makes of other columns depends on the last column of a matrix that it reads.
bool has_row_sums(const Family& family, std::size_t operand) {
  const Oracle right{family, *family.parse("3x8")};
  const auto& operands = right.operands();
  if (operands[operand].role != Role::in || operands[operand].rows < 2 || operands[operand].cols < 2) return false;
  std::vector<Words> inputs;
  std::vector<void*> pointers;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    auto& input = inputs.emplace_back(right.input(i).size() / sizeof(std::uint32_t));
    if (!input.empty()) std::memcpy(input.data(), right.input(i).data(), right.input(i).size());
    if (i == operand) zero_last_column(input, operands[i].cols);
    pointers.push_back(input.data());
  }
  Expected expected;
  family.reference(right.problem(), Pointers{std::move(pointers)}, expected);
  std::size_t output = 0;
  for (const auto& o : operands) {
    if (o.role != Role::out) continue;
    const auto &is = expected.at(output).value, &was = right.expected().at(output).value;
    ++output;
    for (std::size_t i = 0; i < is.size(); ++i) {
      const bool own = o.cols > 1 && static_cast<int64>(i) % o.cols == o.cols - 1;
      if (!own && is[i] != was[i]) return true;
    }
  }
  return false;
}

/// The operands that a mutation has a mutant for.
std::vector<std::size_t> targets(Mutation mutation, const Family& family, const Operands& operands) {
  std::vector<std::size_t> found;
  const bool sums = std::any_of(operands.begin(), operands.end(),
                                [](const Operand& o) { return o.role == Role::out && o.rows == 1; });
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool out = operands[i].role == Role::out;
    switch (mutation) {
      case Mutation::none:
      case Mutation::tf32_inputs:
      case Mutation::input_zeroed:
      case Mutation::nothing_written:
        if (i == 0) found.push_back(i);
        break;
      case Mutation::last_row_skipped:
        if (i == 0 && sums) found.push_back(i);
        break;
      case Mutation::last_column_skipped:
        if (has_row_sums(family, i)) found.push_back(i);
        break;
      case Mutation::operand_of_zeros:
      case Mutation::operand_of_ones:
        if (!out && i > 0) found.push_back(i);
        break;
      case Mutation::copies_input:
      case Mutation::all_zeros:
      case Mutation::last_tile_unwritten:
      case Mutation::one_past_the_end:
      case Mutation::one_nan:
      case Mutation::first_call_only:
        if (out) found.push_back(i);
        break;
    }
  }
  return found;
}

const VariantInfo& first_version(const Family& family, const Device& device) {
  for (const auto& variant : family.variants())
    if (variant.name.starts_with(device.info().is_host ? "cpu_v00_" : "v00_") && !variant.skipped) return variant;
  throw std::logic_error{std::string{family.name()} + " has no first version here"};
}

struct Memory {
  Memory(Device& owner, std::size_t bytes) : device{&owner}, pointer{owner.allocate(bytes)} {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { device->deallocate(pointer); }
  Device* device;
  void* pointer;
};

class Spoilt {
 public:
  Spoilt(const Mutant& mutant, Device& device, const Tools& tools, const AnyProblem& problem, const Pointers& pointers)
      : mutation_{mutant.mutation},
        tools_{tools},
        operand_{mutant.family->operands(problem).at(mutant.operand)},
        input_{pointers.at<void>(0)},
        input_words_{words(mutant.family->operands(problem).at(0))},
        target_{pointers.at<void>(mutant.operand)},
        memory_{device, std::max(operand_.bytes(), sizeof(std::uint32_t))} {
    const auto& family = *mutant.family;
    const auto& variant = first_version(family, device);
    const auto operands = family.operands(problem);
    std::vector<void*> bound;
    for (std::size_t i = 0; i < pointers.size(); ++i) bound.push_back(pointers.at<void>(i));
    const bool replaced = mutation_ == Mutation::operand_of_zeros || mutation_ == Mutation::operand_of_ones ||
                          mutation_ == Mutation::last_tile_unwritten;
    if (replaced) bound[mutant.operand] = memory_.pointer;
    device.fill(memory_.pointer, mutation_ == Mutation::operand_of_ones ? one_word : 0U,
                std::max(operand_.bytes(), sizeof(std::uint32_t)));
    device.synchronize();
    const auto launch = [&](const AnyProblem& of) {
      return prepare(variant, of, family.bind(of, Pointers{std::vector<void*>{bound}}));
    };
    if (mutation_ == Mutation::last_column_skipped) {
      const auto given = bound;
      for (std::size_t i = 0; i < operands.size(); ++i)
        if (operands[i].role == Role::out) bound[i] = own(device, operands[i].bytes());
      auto right = launch(problem);
      device.submit(right);
      device.synchronize();
      for (std::size_t i = 0; i < operands.size(); ++i) {
        if (operands[i].role != Role::out || operands[i].cols != operand_.cols) continue;
        for (int64 last = operand_.cols - 1; last < operands[i].elements(); last += operand_.cols)
          last_column_.push_back({static_cast<float*>(given[i]) + last, static_cast<float*>(bound[i]) + last});
      }
      bound = given;
    }
    // Inputs as they are now: made other ones once, for all calls.
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const bool column = mutation_ == Mutation::last_column_skipped && i == mutant.operand;
      const bool rounded =
          mutation_ == Mutation::tf32_inputs && operands[i].role == Role::in && operands[i].dtype == DType::f32;
      if (!column && !rounded) continue;
      Words input(words(operands[i]));
      device.download(input.data(), bound[i], operands[i].bytes());
      if (column) zero_last_column(input, operands[i].cols);
      if (rounded) round_to_tf32(input);
      bound[i] = own(device, operands[i].bytes());
      device.upload(bound[i], input.data(), operands[i].bytes());
    }
    right_ = launch(problem);
    if (mutation_ == Mutation::last_row_skipped) {
      const auto x = problem.name.find('x');
      const auto rows = std::stoll(problem.name.substr(0, x));
      const auto fewer = family.parse(std::to_string(rows - 1) + problem.name.substr(x));
      if (!fewer) throw std::logic_error{problem.name + " has no problem of one row less"};
      fewer_rows_ = launch(*fewer);
    }
  }

  void operator()(StreamHandle stream) {
    if (mutation_ == Mutation::nothing_written) return;
    right_(stream);
    const auto count = words(operand_);
    auto* target = static_cast<std::uint32_t*>(target_);
    switch (mutation_) {
      case Mutation::copies_input: tools_.copy(target, input_, 4 * std::min(count, input_words_), stream); break;
      case Mutation::all_zeros: tools_.fill(target, 0, count, stream); break;
      case Mutation::last_tile_unwritten:
        if (count > tile_words) tools_.copy(target, memory_.pointer, 4 * (count - tile_words), stream);
        break;
      case Mutation::one_past_the_end: tools_.fill(target + count, 0, 1, stream); break;
      case Mutation::one_nan: tools_.fill(target + count / 2, nan_word, 1, stream); break;
      case Mutation::last_row_skipped: fewer_rows_(stream); break;
      case Mutation::last_column_skipped:
        for (const auto& [to, from] : last_column_) tools_.copy(to, from, sizeof(float), stream);
        break;
      case Mutation::input_zeroed: tools_.fill(input_, 0, input_words_, stream); break;
      case Mutation::first_call_only:
        tools_.copy_after_first(static_cast<std::uint32_t*>(memory_.pointer), target, input_,
                                4 * std::min(count, input_words_), stream);
        break;
      case Mutation::none:
      case Mutation::operand_of_zeros:
      case Mutation::operand_of_ones:
      case Mutation::tf32_inputs:
      case Mutation::nothing_written: break;
    }
  }

 private:
  struct Element {
    float* to;
    const float* from;
  };

  void* own(Device& device, std::size_t bytes) {
    return owned_.emplace_back(std::make_unique<Memory>(device, bytes))->pointer;
  }

  Mutation mutation_;
  const Tools& tools_;
  Operand operand_;
  void* input_;
  std::size_t input_words_;
  void* target_;
  Memory memory_;
  std::vector<std::unique_ptr<Memory>> owned_;
  std::vector<Element> last_column_;
  Launch right_, fewer_rows_;
};

}  // namespace

std::string Mutant::name() const {
  return std::string{family->name()} + "_" + entry(mutation).name + "_" +
         family->operands(*family->parse("2x2")).at(operand).name;
}

std::vector<AnyProblem> Mutant::problems() const {
  std::vector<AnyProblem> found;
  for (const auto* name : {"64x1024", "37x515-tail", "3x33-o1"}) found.push_back(*family->parse(name));
  const bool rows = mutation == Mutation::last_row_skipped;
  if (!rows && mutation != Mutation::last_column_skipped) return found;
  std::optional<AnyProblem> longest;
  int64 most = 0;
  for (const auto& problem : family->test_problems()) {
    const auto matrix = family->operands(problem).front();
    const int64 terms = rows ? matrix.rows : matrix.cols;
    if (is_large(*family, problem) || matrix.distribution != Distribution::normal || terms <= most) continue;
    most = terms;
    longest = problem;
  }
  if (!longest) throw std::logic_error{std::string{family->name()} + " has no test problem of normal values"};
  found.push_back(*longest);
  return found;
}

const char* Mutant::must_say() const { return entry(mutation).must_say; }

std::vector<Mutant> mutants() {
  std::vector<Mutant> all;
  for (const auto* family : families()) {
    if (!computes(*family)) continue;  // a copy of the input is what it should be
    const auto operands = family->operands(*family->parse("2x2"));
    for (const auto& one : entries)
      for (const auto operand : targets(one.mutation, *family, operands))
        all.push_back({family, one.mutation, operand});
  }
  return all;
}

Launch make_mutant(const Mutant& mutant, Device& device, const Tools& tools, const AnyProblem& problem,
                   const Pointers& pointers) {
  auto spoilt = std::make_shared<Spoilt>(mutant, device, tools, problem, pointers);
  return [spoilt = std::move(spoilt)](StreamHandle stream) { (*spoilt)(stream); };
}

const Tools& host_tools() {
  static const Tools tools{
      [](void* to, const void* from, std::size_t bytes, StreamHandle) { std::memmove(to, from, bytes); },
      [](void* to, std::uint32_t word, std::size_t count, StreamHandle) {
        std::fill_n(static_cast<std::uint32_t*>(to), count, word);
      },
      [](std::uint32_t* calls, void* to, const void* from, std::size_t bytes, StreamHandle) {
        if ((*calls)++ > 0) std::memmove(to, from, bytes);
      }};
  return tools;
}

}  // namespace mage::test
