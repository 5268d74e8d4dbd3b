// SPDX-License-Identifier: Apache-2.0
#include "bench/sha256.hpp"

#include <openssl/evp.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

namespace mage {
namespace {

EVP_MD_CTX* typed(void* context) { return static_cast<EVP_MD_CTX*>(context); }

void require(int result, const char* call) {
  if (result != 1) throw std::runtime_error{std::string{call} + " failed: this OpenSSL offers no SHA-256"};
}

}  // namespace

void Sha256::Free::operator()(void* context) const { EVP_MD_CTX_free(typed(context)); }

Sha256::Sha256() : context_{EVP_MD_CTX_new()} {
  require(EVP_DigestInit_ex(typed(context_.get()), EVP_sha256(), nullptr), "EVP_DigestInit_ex");
}

void Sha256::update(std::span<const std::byte> bytes) {
  if (context_ == nullptr) throw std::logic_error{"Sha256::update was called after finish(): start another sum"};
  require(EVP_DigestUpdate(typed(context_.get()), bytes.data(), bytes.size()), "EVP_DigestUpdate");
}

std::string Sha256::finish() {
  if (context_ == nullptr) throw std::logic_error{"Sha256::finish was called twice: keep the first answer"};
  const auto context = std::move(context_);
  std::array<unsigned char, 32> digest{};
  require(EVP_DigestFinal_ex(typed(context.get()), digest.data(), nullptr), "EVP_DigestFinal_ex");
  std::string text;
  for (const unsigned value : digest) {
    text += "0123456789abcdef"[value >> 4U];
    text += "0123456789abcdef"[value & 15U];
  }
  return text;
}

std::string sha256(std::span<const std::byte> bytes) {
  Sha256 sum;
  sum.update(bytes);
  return sum.finish();
}

std::string sha256(std::string_view text) { return sha256(std::as_bytes(std::span{text})); }

std::string sha256_file(const std::filesystem::path& path) {
  const auto fail = [&] {
    throw std::runtime_error{"cannot read " + path.string() + " for its SHA-256: " + std::strerror(errno)};
  };
  const auto close = [](std::FILE* opened) { static_cast<void>(std::fclose(opened)); };
  const std::unique_ptr<std::FILE, decltype(close)> file{std::fopen(path.c_str(), "rb"), close};
  if (file == nullptr) fail();
  Sha256 sum;
  std::vector<std::byte> block(1U << 20U);
  while (true) {
    const auto count = std::fread(block.data(), 1, block.size(), file.get());
    sum.update(std::span{block}.first(count));
    if (count == block.size()) continue;
    if (std::ferror(file.get()) != 0) fail();  // a folder opens, and fails here
    return sum.finish();
  }
}

}  // namespace mage
