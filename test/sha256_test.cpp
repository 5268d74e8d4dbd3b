// SPDX-License-Identifier: Apache-2.0
// Expected values: FIPS 180-4 example messages and the NIST CAVP short-message vectors.
#include "bench/sha256.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace mage {
namespace {

constexpr const char* of_nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr const char* of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr const char* of_million_a = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";

class Sha256File : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("mage_sha256_" + std::to_string(getpid()));
  }
  void TearDown() override { std::filesystem::remove(path_); }
  void write(const std::string& text) const { std::ofstream{path_, std::ios::binary} << text; }

  std::filesystem::path path_;
};

TEST(Sha256, NistVectors) {
  EXPECT_EQ(sha256(std::string_view{}), of_nothing);
  EXPECT_EQ(sha256("abc"), of_abc);
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')), of_million_a);
  const std::vector byte{std::byte{0xd3}};
  EXPECT_EQ(sha256(byte), "28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1");
}

TEST(Sha256, PiecesGiveTheSumOfTheWhole) {
  for (const std::size_t step : {1U, 63U, 64U, 65U, 100'000U}) {
    Sha256 sum;
    const std::string text(1'000'000, 'a');
    for (std::size_t at = 0; at < text.size(); at += step) sum.update(std::string_view{text}.substr(at, step));
    EXPECT_EQ(sum.finish(), of_million_a) << step;
  }
}

TEST(Sha256, AnEndedSumRefusesMore) {
  Sha256 sum;
  EXPECT_EQ(sum.finish(), of_nothing);
  EXPECT_THROW(sum.update("more"), std::logic_error);
  EXPECT_THROW(static_cast<void>(sum.finish()), std::logic_error);
}

TEST_F(Sha256File, ReadsToTheEnd) {
  write("abc");
  EXPECT_EQ(sha256_file(path_), of_abc);
  write("");
  EXPECT_EQ(sha256_file(path_), of_nothing);
  // One block of the reader and its neighbours; the expected value comes from the sum in memory, proved above.
  for (const std::size_t size : {(1U << 20U) - 1, 1U << 20U, (1U << 20U) + 1, 3U << 20U}) {
    const std::string text(size, 'q');
    write(text);
    EXPECT_EQ(sha256_file(path_), sha256(text)) << size;
  }
}

TEST_F(Sha256File, OneFlippedBitChangesTheSum) {
  std::string text(4096, 'x');
  write(text);
  const auto before = sha256_file(path_);
  text[2048] ^= 1;
  write(text);
  EXPECT_NE(sha256_file(path_), before);
}

TEST_F(Sha256File, SaysWhichFileAndWhy) {
  try {
    static_cast<void>(sha256_file(path_));
    FAIL() << "a missing file gave a hash";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string{error.what()}.find(path_.string()), std::string::npos) << error.what();
    EXPECT_NE(std::string{error.what()}.find("No such file"), std::string::npos) << error.what();
  }
  EXPECT_THROW(static_cast<void>(sha256_file(std::filesystem::temp_directory_path())), std::runtime_error);
}

}  // namespace
}  // namespace mage
