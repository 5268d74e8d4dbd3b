// SPDX-License-Identifier: Apache-2.0
#include "test/support/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "test/support/data.hpp"

namespace mage::test {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format is little-endian, and so is its reader");

constexpr std::size_t length_bytes = 8;
constexpr std::uint64_t most_header_bytes = 100'000'000;  // as in the format's own library

std::optional<std::uint64_t> element_bytes(const std::string& dtype) {
  if (dtype == "U8") return 1;
  if (dtype == "F32" || dtype == "I32") return 4;
  if (dtype == "F64" || dtype == "I64") return 8;
  return std::nullopt;
}

/// Bytes that dtype and shape ask for; nothing where the dtype is unknown or the product overflows.
std::optional<std::uint64_t> required_bytes(const Tensor& tensor) {
  auto total = element_bytes(tensor.dtype);
  if (!total) return std::nullopt;
  // A zero makes the product 0 whatever the others are.
  if (std::ranges::find(tensor.shape, 0) != tensor.shape.end()) return 0;
  for (const auto extent : tensor.shape) {
    const auto size = static_cast<std::uint64_t>(extent);
    if (*total > std::numeric_limits<std::uint64_t>::max() / size) return std::nullopt;
    *total *= size;
  }
  return total;
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_{path.string()}, file_{read_file(path)} {}

  [[nodiscard]] Safetensors read() {
    if (file_.size() < length_bytes) fail("has " + std::to_string(file_.size()) + " bytes, too few for a header");
    std::uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, file_.data(), length_bytes);
    if (header_bytes > most_header_bytes || header_bytes > file_.size() - length_bytes)
      fail("says that its header has " + std::to_string(header_bytes) + " bytes; the file has " +
           std::to_string(file_.size()));
    data_begin_ = length_bytes + static_cast<std::size_t>(header_bytes);
    const json header = parse_header(file_.substr(length_bytes, static_cast<std::size_t>(header_bytes)));
    Safetensors content;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__")
        content.metadata = metadata(entry);
      else
        content.tensors[name] = tensor(name, entry);
    }
    check_cover();
    return content;
  }

 private:
  struct Part {
    std::uint64_t begin, end;
    std::string name;
  };

  [[noreturn]] void fail(const std::string& fault) const { throw std::runtime_error{path_ + ": " + fault}; }

  [[nodiscard]] json parse_header(const std::string& text) const {
    if (!text.starts_with('{')) fail("has a header that does not begin with '{'");
    // The parser keeps the last of equal keys without a word.
    std::set<std::string> names;
    const auto refuse_twins = [&](int depth, json::parse_event_t event, json& parsed) {
      if (event == json::parse_event_t::key && depth == 1 && !names.insert(parsed.get<std::string>()).second)
        fail("names tensor '" + parsed.get<std::string>() + "' twice");
      return true;
    };
    try {
      return json::parse(text, refuse_twins);
    } catch (const json::exception& error) {
      fail("has a header that is no JSON: " + std::string{error.what()});
    }
  }

  [[nodiscard]] std::map<std::string, std::string> metadata(const json& entry) const {
    if (!entry.is_object() || !std::ranges::all_of(entry, [](const json& value) { return value.is_string(); }))
      fail("has a __metadata__ that is no object of strings");
    return entry.get<std::map<std::string, std::string>>();
  }

  [[nodiscard]] Tensor tensor(const std::string& name, const json& entry) {
    const auto whole = [](const json& value) {
      return value.is_number_unsigned() &&
             value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    };
    const auto whole_list = [&](const char* key) {
      return entry.contains(key) && entry[key].is_array() && std::ranges::all_of(entry[key], whole);
    };
    const bool complete = entry.is_object() && entry.size() == 3 && entry.contains("dtype") &&
                          entry["dtype"].is_string() && whole_list("shape") && whole_list("data_offsets") &&
                          entry["data_offsets"].size() == 2;
    if (!complete) fail("tensor '" + name + "' must have a dtype, a shape and two data_offsets, and nothing else");
    Tensor result{entry["dtype"], entry["shape"], {}};
    if (!element_bytes(result.dtype))
      fail("tensor '" + name + "' has dtype " + result.dtype + "; known are F32, F64, U8, I32, I64");
    const Part part{entry["data_offsets"][0], entry["data_offsets"][1], name};
    if (part.begin > part.end || part.end > file_.size() - data_begin_)
      fail("tensor '" + name + "' lies at [" + std::to_string(part.begin) + ", " + std::to_string(part.end) + ") of " +
           std::to_string(file_.size() - data_begin_) + " data bytes");
    if (required_bytes(result) != part.end - part.begin)
      fail("tensor '" + name + "' has " + std::to_string(part.end - part.begin) +
           " bytes, which is not what its dtype and shape need");
    result.bytes.resize(static_cast<std::size_t>(part.end - part.begin));
    if (!result.bytes.empty())
      std::memcpy(result.bytes.data(), file_.data() + data_begin_ + part.begin, result.bytes.size());
    parts_.push_back(part);
    return result;
  }

  void check_cover() {
    std::ranges::sort(
        parts_, [](const Part& a, const Part& b) { return std::pair{a.begin, a.end} < std::pair{b.begin, b.end}; });
    std::uint64_t end = 0;
    for (const auto& part : parts_) {
      if (part.begin < end) fail("tensor '" + part.name + "' overlaps the one before it");
      if (part.begin > end) fail("has bytes of no tensor before '" + part.name + "'");
      end = part.end;
    }
    if (end != file_.size() - data_begin_) fail("has bytes of no tensor at its end");
  }

  std::string path_, file_;
  std::size_t data_begin_ = 0;
  std::vector<Part> parts_;
};

}  // namespace

Safetensors read_safetensors(const std::filesystem::path& path) { return Reader{path}.read(); }

void write_safetensors(const std::filesystem::path& path, const Safetensors& content) {
  nlohmann::ordered_json header;
  if (!content.metadata.empty()) header["__metadata__"] = content.metadata;
  std::vector<const Tensor*> order;
  std::uint64_t offset = 0;
  // The widest elements first: then every tensor is aligned.
  for (const std::uint64_t width : {8U, 4U, 1U}) {
    for (const auto& [name, tensor] : content.tensors) {
      if (element_bytes(tensor.dtype) != width) continue;
      if (required_bytes(tensor) != tensor.bytes.size())
        throw std::invalid_argument{"write_safetensors: tensor '" + name + "' has " +
                                    std::to_string(tensor.bytes.size()) +
                                    " bytes, which is not what its dtype and shape need"};
      header[name] = {
          {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + tensor.bytes.size()}}};
      order.push_back(&tensor);
      offset += tensor.bytes.size();
    }
  }
  if (order.size() != content.tensors.size())
    throw std::invalid_argument{"write_safetensors: a tensor's dtype is none of F32, F64, U8, I32, I64"};
  std::string text = header.is_null() ? "{}" : header.dump();
  text.append((length_bytes - text.size() % length_bytes) % length_bytes, ' ');
  const std::uint64_t header_bytes = text.size();
  std::ofstream stream{path, std::ios::binary | std::ios::trunc};
  stream.write(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes);
  stream << text;
  for (const auto* tensor : order)
    stream.write(reinterpret_cast<const char*>(tensor->bytes.data()),
                 static_cast<std::streamsize>(tensor->bytes.size()));
  if (!stream.flush()) throw std::runtime_error{"cannot write " + path.string()};
}

}  // namespace mage::test
