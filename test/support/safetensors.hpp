// SPDX-License-Identifier: Apache-2.0
// The safetensors format: 8 bytes of header length, a JSON header, the tensors' bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace mage::test {

struct Tensor {
  std::string dtype;  ///< F32, F64, U8, I32 or I64
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  /// The elements; throws std::invalid_argument where T is not the dtype.
  template <class T>
  [[nodiscard]] std::vector<T> as() const;
};

struct Safetensors {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

template <class T>
constexpr const char* dtype_name() {
  if constexpr (std::is_same_v<T, float>) return "F32";
  if constexpr (std::is_same_v<T, double>) return "F64";
  if constexpr (std::is_same_v<T, std::uint8_t>) return "U8";
  if constexpr (std::is_same_v<T, std::int32_t>) return "I32";
  if constexpr (std::is_same_v<T, std::int64_t>) return "I64";
}

template <class T>
std::vector<T> Tensor::as() const {
  if (dtype != dtype_name<T>())
    throw std::invalid_argument{"tensor holds " + dtype + ", not " + std::string{dtype_name<T>()}};
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

template <class T>
[[nodiscard]] Tensor make_tensor(std::vector<std::int64_t> shape, const std::vector<T>& values) {
  Tensor tensor{dtype_name<T>(), std::move(shape), std::vector<std::byte>(values.size() * sizeof(T))};
  if (!values.empty()) std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

/// Throws std::runtime_error that names the file and its fault: nothing that the header leaves open is guessed.
/// Stricter than the format in one point: tensors that overlap or leave gaps are refused.
[[nodiscard]] Safetensors read_safetensors(const std::filesystem::path& path);
/// Throws std::invalid_argument where a tensor's bytes are not what its dtype and shape say.
void write_safetensors(const std::filesystem::path& path, const Safetensors& content);

}  // namespace mage::test
