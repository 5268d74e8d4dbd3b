// SPDX-License-Identifier: Apache-2.0
#include "test/support/safetensors.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>
#include <string>

#include "test/support/data.hpp"

namespace mage::test {
namespace {

class SafetensorsTest : public testing::Test {
 protected:
  SafetensorsTest()
      : path_{std::filesystem::path{testing::TempDir()} /
              (std::string{testing::UnitTest::GetInstance()->current_test_info()->name()} + ".safetensors")} {}
  ~SafetensorsTest() override { std::filesystem::remove(path_); }

  void write_raw(const std::string& bytes) const { std::ofstream{path_, std::ios::binary} << bytes; }
  void write(const std::string& header, const std::string& data) const {
    std::string length(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>((header.size() >> (8 * i)) & 0xFF);
    write_raw(length + header + data);
  }
  /// The message with which the file is refused.
  [[nodiscard]] std::string refusal() const {
    try {
      static_cast<void>(read_safetensors(path_));
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "(it was accepted)";
  }
  void expect_refused(const std::string& header, const std::string& data, const std::string& because) const {
    write(header, data);
    const auto message = refusal();
    EXPECT_NE(message.find(because), std::string::npos) << header << "\n" << message;
    EXPECT_NE(message.find(path_.string()), std::string::npos) << "the message names the file";
  }

  std::filesystem::path path_;
};

TEST_F(SafetensorsTest, WhatIsWrittenIsReadBack) {
  Safetensors content;
  content.metadata = {{"problem", "2x3"}};
  content.tensors["x"] = make_tensor<float>({2, 3}, {1, -0.0F, 2.5F, 1e-45F, 3e38F, -7});
  content.tensors["d"] = make_tensor<double>({1}, {0.1});
  content.tensors["bytes"] = make_tensor<std::uint8_t>({3}, {1, 2, 255});
  content.tensors["col"] = make_tensor<std::int32_t>({2}, {-1, 7});
  content.tensors["row_ptr"] = make_tensor<std::int64_t>({2, 1}, {-1, std::int64_t{1} << 40});
  content.tensors["scalar"] = make_tensor<float>({}, {4});
  content.tensors["empty"] = make_tensor<float>({0, 5}, {});
  write_safetensors(path_, content);
  const auto read = read_safetensors(path_);
  EXPECT_EQ(read.metadata, content.metadata);
  ASSERT_EQ(read.tensors.size(), content.tensors.size());
  for (const auto& [name, tensor] : content.tensors) {
    EXPECT_EQ(read.tensors.at(name).dtype, tensor.dtype) << name;
    EXPECT_EQ(read.tensors.at(name).shape, tensor.shape) << name;
    EXPECT_EQ(read.tensors.at(name).bytes, tensor.bytes) << name;
  }
  EXPECT_EQ(read.tensors.at("row_ptr").as<std::int64_t>().at(1), std::int64_t{1} << 40);
  EXPECT_THROW(static_cast<void>(read.tensors.at("x").as<double>()), std::invalid_argument);
}

// By hand from the format's description, so that reader and writer cannot agree on a mistake.
TEST_F(SafetensorsTest, ReadsAFileWrittenByHand) {
  write(R"({"b":{"dtype":"I32","shape":[2],"data_offsets":[4,12]},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})"
        "  ",
        std::string{"\x00\x00\x80\x3f\x01\x00\x00\x00\xff\xff\xff\xff", 12});
  const auto read = read_safetensors(path_);
  EXPECT_EQ(read.tensors.at("a").as<float>(), std::vector<float>{1.0F});
  EXPECT_EQ(read.tensors.at("b").as<std::int32_t>(), (std::vector<std::int32_t>{1, -1}));
}

TEST_F(SafetensorsTest, TheDataOfAWrittenFileIsAligned) {
  Safetensors content;
  content.tensors["a"] = make_tensor<std::uint8_t>({1}, {9});
  content.tensors["z"] = make_tensor<double>({1}, {2});
  write_safetensors(path_, content);
  const auto bytes = read_file(path_);
  EXPECT_EQ(static_cast<unsigned char>(bytes[0]) % 8, 0);
  EXPECT_EQ(bytes.back(), 9) << "the widest type stands first";
}

TEST_F(SafetensorsTest, AnEmptyFileOfTensorsIsOne) {
  write_safetensors(path_, {});
  EXPECT_TRUE(read_safetensors(path_).tensors.empty());
}

TEST_F(SafetensorsTest, AMissingFileIsNamed) { EXPECT_NE(refusal().find(path_.string()), std::string::npos); }

TEST_F(SafetensorsTest, ABadLengthIsRefused) {
  write_raw("");
  EXPECT_NE(refusal().find("too few"), std::string::npos);
  write_raw("1234567");
  EXPECT_NE(refusal().find("too few"), std::string::npos);
  write_raw(std::string("\x03\0\0\0\0\0\0\0{}", 10));
  EXPECT_NE(refusal().find("says that its header has 3 bytes"), std::string::npos);
  write_raw(std::string(8, '\xff') + "{}");
  EXPECT_NE(refusal().find("says that its header has"), std::string::npos);
}

TEST_F(SafetensorsTest, ABadHeaderIsRefused) {
  expect_refused("", "", "does not begin with '{'");
  expect_refused(" {}", "", "does not begin with '{'");
  expect_refused("[]", "", "does not begin with '{'");
  expect_refused("{", "", "no JSON");
  expect_refused("{}x", "", "no JSON");
  expect_refused(R"({"__metadata__":{"a":1}})", "", "__metadata__");
  expect_refused(
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
      "x", "twice");
}

TEST_F(SafetensorsTest, ABadTensorIsRefused) {
  const auto with = [](const std::string& entry) { return "{\"a\":" + entry + "}"; };
  expect_refused(with("7"), "", "must have");
  expect_refused(with(R"({"dtype":"U8","shape":[1]})"), "x", "must have");
  expect_refused(with(R"({"dtype":"U8","shape":[1],"data_offsets":[0]})"), "x", "must have");
  expect_refused(with(R"({"dtype":"U8","shape":[-1],"data_offsets":[0,1]})"), "x", "must have");
  expect_refused(with(R"({"dtype":"U8","shape":[1.0],"data_offsets":[0,1]})"), "x", "must have");
  expect_refused(with(R"({"dtype":"U8","shape":1,"data_offsets":[0,1]})"), "x", "must have");
  expect_refused(with(R"({"dtype":"U8","shape":[1],"data_offsets":[0,1],"extra":0})"), "x", "must have");
  expect_refused(with(R"({"dtype":"F16","shape":[1],"data_offsets":[0,2]})"), "xx", "dtype F16");
  expect_refused(with(R"({"dtype":"U8","shape":[2],"data_offsets":[0,2]})"), "x", "lies at");
  expect_refused(with(R"({"dtype":"U8","shape":[1],"data_offsets":[1,0]})"), "x", "lies at");
  expect_refused(with(R"({"dtype":"F32","shape":[1],"data_offsets":[0,3]})"), "xxx", "not what its dtype and shape");
  // 2^32 x 2^32 bytes are 0 modulo 2^64.
  expect_refused(with(R"({"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]})"), "",
                 "not what its dtype and shape");
}

TEST_F(SafetensorsTest, OverlapsAndGapsAreRefused) {
  const auto two = [](const char* a, const char* b) {
    return R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + std::string{a} +
           R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + b + "}}";
  };
  expect_refused(two("[0,2]", "[1,3]"), "xxx", "'b' overlaps");
  expect_refused(two("[1,3]", "[0,2]"), "xxx", "'a' overlaps");
  expect_refused(two("[0,2]", "[0,2]"), "xx", "overlaps");
  expect_refused(two("[0,2]", "[3,5]"), "xxxxx", "no tensor before 'b'");
  expect_refused(two("[1,3]", "[3,5]"), "xxxxx", "no tensor before 'a'");
  expect_refused(two("[0,2]", "[2,4]"), "xxxxx", "no tensor at its end");
  expect_refused("{}", "x", "no tensor at its end");
}

TEST_F(SafetensorsTest, ATensorThatIsNotItsShapeIsNotWritten) {
  Safetensors content;
  content.tensors["a"] = {"F32", {3}, std::vector<std::byte>(8)};
  EXPECT_THROW(write_safetensors(path_, content), std::invalid_argument);
  content.tensors["a"] = {"F16", {4}, std::vector<std::byte>(8)};
  EXPECT_THROW(write_safetensors(path_, content), std::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace mage::test
