// Writes a protocol buffer message field by field in the wire format. This suffices for a few fixed messages without
// their .proto files. Source: https://protobuf.dev/programming-guides/encoding/.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace composer {

// Fields may be added in any order; a repeated field is added once for each element.
class ProtoWriter {
 public:
  ProtoWriter& Int(int field, int64_t value) {
    Tag(field, 0);
    Varint(static_cast<uint64_t>(value));
    return *this;
  }
  ProtoWriter& Double(int field, double value) {
    Tag(field, 1);
    Fixed(std::bit_cast<uint64_t>(value), 8);
    return *this;
  }
  ProtoWriter& Float(int field, float value) {
    Tag(field, 5);
    Fixed(std::bit_cast<uint32_t>(value), 4);
    return *this;
  }
  ProtoWriter& Bytes(int field, absl::string_view value) {
    Tag(field, 2);
    Varint(value.size());
    bytes_.append(value.data(), value.size());
    return *this;
  }
  ProtoWriter& Message(int field, const ProtoWriter& message) { return Bytes(field, message.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void Tag(int field, unsigned wire_type) { Varint((static_cast<uint64_t>(field) << 3) | wire_type); }
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>((value & 0x7f) | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  void Fixed(uint64_t value, int size) {
    for (int i = 0; i < size; ++i) bytes_.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  }

  std::string bytes_;
};

}  // namespace composer
