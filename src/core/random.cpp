// SPDX-License-Identifier: Apache-2.0
// Compiled with -ffp-contract=off: a fused multiply-add would change the last bit of some values on some machines.
#include "mage_bench/random.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "mage_bench/parallel.hpp"

namespace mage {
namespace {

// What a Philox counter counts: its last word, so that a row's own draws never meet an element's.
enum class Draw : std::uint32_t { element, row };

struct Source {
  std::array<std::uint32_t, 2> key;
  std::uint32_t stream;
  [[nodiscard]] std::array<std::uint32_t, 4> draw(Draw what, uint64 index) const {
    return philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), stream,
                   static_cast<std::uint32_t>(what)},
                  key);
  }
};

template <std::size_t N>
double polynomial(const std::array<double, N>& coefficients, double x) {
  double sum = coefficients.back();
  for (std::size_t i = N - 1; i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

// Wichura, Algorithm AS 241 (1988), PPND16: constant term first.
constexpr std::array central_above{3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                                   1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                                   3.3430575583588128105e4, 2.5090809287301226727e3};
constexpr std::array central_below{1.0,
                                   4.2313330701600911252e1,
                                   6.8718700749205790830e2,
                                   5.3941960214247511077e3,
                                   2.1213794301586595867e4,
                                   3.9307895800092710610e4,
                                   2.8729085735721942674e4,
                                   5.2264952788528545610e3};
constexpr std::array middle_above{1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                                  3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                                  2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr std::array middle_below{1.0,
                                  2.05319162663775882187e0,
                                  1.67638483018380384940e0,
                                  6.89767334985100004550e-1,
                                  1.48103976427480074590e-1,
                                  1.51986665636164571966e-2,
                                  5.47593808499534494600e-4,
                                  1.05075007164441684324e-9};
constexpr std::array far_above{6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                               2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                               2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr std::array far_below{1.0,
                               5.99832206555887937690e-1,
                               1.36929880922735805310e-1,
                               1.48753612908506148525e-2,
                               7.86869131145613259100e-4,
                               1.84631831751005468180e-5,
                               1.42151175831644588870e-7,
                               2.04426310338993978564e-15};

/// Natural logarithm of x > 0 by log m = 2 artanh((m - 1) / (m + 1)), m in [sqrt 1/2, sqrt 2).
double logarithm(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // exact
  if (m < 0.70710678118654752440) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;  // <= 0.0295: the first term left out is below 2^-60 of the sum
  constexpr std::array odd{1.0,      1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11,
                           1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};
  // ln 2 in two parts, so that exponent * high is exact.
  constexpr double ln2_high = 0x1.62e42fee00000p-1, ln2_low = 0x1.a39ef35793c76p-33;
  return exponent * ln2_high + (2 * s * polynomial(odd, s2) + exponent * ln2_low);
}

// 2^32 points, symmetric about 1/2 and never 0 or 1: |normal| <= 6.34.
double uniform(std::uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

/// One element that depends on its own draw only; distributions of rows start from `normal`.
double element(Distribution distribution, std::uint32_t word) {
  switch (distribution) {
    case Distribution::normal:
    case Distribution::constant:
    case Distribution::spike:
    case Distribution::special: return normal_quantile(uniform(word));
    case Distribution::shifted: return 1e4 + normal_quantile(uniform(word));
    case Distribution::large: return 1e4 * normal_quantile(uniform(word));
    case Distribution::subnormal: {
      // 31 bits onto the 2^23 - 1 positive FP32 subnormals; the last bit is the sign.
      const auto quanta = 1 + ((static_cast<uint64>(word >> 1) * 0x7FFFFF) >> 31);
      const double magnitude = static_cast<double>(quanta) * 0x1p-149;
      return (word & 1U) != 0 ? -magnitude : magnitude;
    }
    case Distribution::zeros: return (word & 1U) != 0 ? -0.0 : 0.0;
    case Distribution::tail: return static_cast<double>(word >> 8) * 0x1p-20 - 8;  // exact in FP32
  }
  throw std::invalid_argument{"generate: unknown distribution"};
}

template <class T>
void generate_elements(const Operand& operand, const Source& source, int64 begin, int64 end, T* data) {
  for (int64 i = begin; i < end;) {
    const auto words = source.draw(Draw::element, static_cast<uint64>(i) / 4);
    for (auto lane = static_cast<std::size_t>(i % 4); lane < 4 && i < end; ++lane, ++i)
      data[i] = static_cast<T>(element(operand.distribution, words[lane]));
  }
}

/// Calls body(row, begin of its part, end of its part) for each row that [begin, end) touches.
template <class Body>
void for_rows(int64 cols, int64 begin, int64 end, const Body& body) {
  for (int64 row = begin / cols; row * cols < end; ++row)
    body(row, std::max(begin, row * cols), std::min(end, (row + 1) * cols));
}

template <class T>
void generate_block(const Operand& operand, const Source& source, int64 begin, int64 end, T* data) {
  const int64 cols = operand.cols;
  switch (operand.distribution) {
    case Distribution::constant:
      for_rows(cols, begin, end, [&](int64 row, int64 from, int64 to) {
        const auto words = source.draw(Draw::row, static_cast<uint64>(row));
        std::fill(data + from, data + to, static_cast<T>(normal_quantile(uniform(words[0]))));
      });
      return;
    case Distribution::spike:
      generate_elements(operand, source, begin, end, data);
      for_rows(cols, begin, end, [&](int64 row, int64 from, int64 to) {
        const auto words = source.draw(Draw::row, static_cast<uint64>(row));
        const auto fraction = (static_cast<uint64>(words[0]) << 32) | words[1];
        const int64 at = row * cols + static_cast<int64>(fraction % static_cast<uint64>(cols));
        if (at >= from && at < to) data[at] = static_cast<T>(1e6);
      });
      return;
    case Distribution::special:
      generate_elements(operand, source, begin, end, data);
      // Row 0 is ordinary, so that one row is no degenerate problem; four rows hold all kinds.
      for_rows(cols, begin, end, [&](int64 row, int64 from, int64 to) {
        constexpr T infinity = std::numeric_limits<T>::infinity();
        if (row % 7 == 1) std::fill(data + from, data + to, infinity);
        if (row % 7 == 2) std::fill(data + from, data + to, -infinity);
        if (row % 7 == 3) std::fill(data + from, data + to, std::numeric_limits<T>::quiet_NaN());
      });
      return;
    case Distribution::normal:
    case Distribution::shifted:
    case Distribution::large:
    case Distribution::subnormal:
    case Distribution::zeros:
    case Distribution::tail: generate_elements(operand, source, begin, end, data); return;
  }
}

template <class T>
void generate_as(const Operand& operand, std::uint32_t stream, T* data) {
  const Source source{{static_cast<std::uint32_t>(operand.seed), static_cast<std::uint32_t>(operand.seed >> 32)},
                      stream};
  constexpr int64 grain = 1 << 14;  // a multiple of the four elements of one draw
  parallel_blocks(operand.elements(), grain,
                  [&](int64 begin, int64 end) { generate_block(operand, source, begin, end, data); });
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64 product0 = uint64{0xD2511F53U} * counter[0];
    const uint64 product1 = uint64{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

std::uint64_t random_bits(const std::array<std::uint32_t, 4>& counter, std::uint64_t key) {
  const auto bits = philox(counter, {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32U)});
  return std::uint64_t{bits[0]} << 32U | bits[1];
}

double normal_quantile(double p) {
  if (!(p > 0 && p < 1))
    throw std::invalid_argument{"normal_quantile: p is " + std::to_string(p) + ", but must be inside (0, 1)"};
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(central_above, r) / polynomial(central_below, r);
  }
  const double r = std::sqrt(-logarithm(q < 0 ? p : 1 - p));
  const double x = r <= 5 ? polynomial(middle_above, r - 1.6) / polynomial(middle_below, r - 1.6)
                          : polynomial(far_above, r - 5) / polynomial(far_below, r - 5);
  return q < 0 ? -x : x;
}

void generate(const Operand& operand, std::uint32_t stream, void* data) {
  switch (operand.dtype) {
    case DType::f32: generate_as(operand, stream, static_cast<float*>(data)); return;
    case DType::f64: generate_as(operand, stream, static_cast<double*>(data)); return;
    case DType::i32:
    case DType::i64: break;
  }
  throw std::invalid_argument{"generate: operand " + operand.name + " is " + std::string{to_string(operand.dtype)} +
                              ", but distribution " + std::string{to_string(operand.distribution)} +
                              " is one of floating-point values; fill integer operands in the family's own code"};
}

}  // namespace mage
