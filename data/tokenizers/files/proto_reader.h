// Reads the fields of a protocol buffer from its bytes, which may be damaged.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"

namespace composer {

struct ProtoField {
  uint32_t number = 0;
  uint64_t value = 0;       // of a varint; of a fixed number its bits
  absl::string_view bytes;  // of a text or a message
  bool is_bytes = false;

  float AsFloat() const {
    const auto bits = static_cast<uint32_t>(value);
    float number_value = 0;
    std::memcpy(&number_value, &bits, 4);
    return number_value;
  }
};

class ProtoReader {
 public:
  explicit ProtoReader(absl::string_view bytes) : rest_(bytes) {}
  // Returns false at the end, and when the bytes are not a protocol buffer: then ok() is false.
  bool Next(ProtoField& field) {
    uint64_t tag = 0;
    if (rest_.empty() || !ok_ || !Varint(tag)) return false;
    field = {};
    field.number = static_cast<uint32_t>(tag >> 3);
    switch (tag & 7) {
      case 0:
        return Varint(field.value);
      case 1:
        return Fixed(8, field.value);
      case 5:
        return Fixed(4, field.value);
      case 2: {
        uint64_t size = 0;
        if (!Varint(size)) return false;
        if (size > rest_.size()) return ok_ = false;
        field.bytes = rest_.substr(0, size);
        field.is_bytes = true;
        rest_.remove_prefix(size);
        return true;
      }
      default:
        return ok_ = false;
    }
  }
  bool ok() const { return ok_; }

 private:
  bool Varint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return true;
    }
    return ok_ = false;
  }
  bool Fixed(size_t size, uint64_t& value) {
    if (rest_.size() < size) return ok_ = false;
    value = 0;
    std::memcpy(&value, rest_.data(), size);
    rest_.remove_prefix(size);
    return true;
  }
  absl::string_view rest_;
  bool ok_ = true;
};

}  // namespace composer
