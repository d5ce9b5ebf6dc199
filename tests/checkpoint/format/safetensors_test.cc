// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

using testing::HasSubstr;

std::string WithLength(absl::string_view json) {
  std::string bytes(8, '\0');
  for (size_t i = 0, n = json.size(); i < 8; ++i, n >>= 8) bytes[i] = static_cast<char>(n & 0xff);
  return absl::StrCat(bytes, json);
}

// Parses a header that is followed by `data` bytes.
absl::StatusOr<std::vector<SafetensorsEntry>> Parse(absl::string_view json, int64_t data) {
  const std::string header = WithLength(json);
  return ParseSafetensors(header, static_cast<int64_t>(header.size()) + data);
}

TEST(Safetensors, WhatIsLaidOutIsParsed) {
  std::vector<SafetensorsEntry> entries = {
      {"mask", "BOOL", {3}}, {"a \"b\"\n\xc3\xa4", "F32", {2, 3}}, {"scalar", "I64", {}}, {"none", "F32", {0, 9}}};
  const auto header = LayOutSafetensors(&entries);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->size() % 8, 0u);
  EXPECT_THAT(
      *header,
      HasSubstr(
          "{\"__metadata__\":{\"format\":\"pt\"},\"scalar\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"));
  const int64_t start = static_cast<int64_t>(header->size());
  EXPECT_EQ(entries[0].name, "scalar");  // widest elements first
  EXPECT_EQ(entries[1].begin, start + 8);
  EXPECT_EQ(entries[3].end, start + 8 + 24 + 3);
  const auto parsed = ParseSafetensors(*header, start + 35);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(*parsed, testing::UnorderedElementsAreArray(entries));
}

TEST(Safetensors, NoTensorsAtAll) {
  std::vector<SafetensorsEntry> none;
  const auto header = LayOutSafetensors(&none);
  EXPECT_TRUE(ParseSafetensors(*header, static_cast<int64_t>(header->size()))->empty());
}

TEST(Safetensors, WhatCannotBeStored) {
  for (const SafetensorsEntry& bad :
       {SafetensorsEntry{"", "F32", {1}}, SafetensorsEntry{"__metadata__", "F32", {1}},
        SafetensorsEntry{"\xff", "F32", {1}}, SafetensorsEntry{"a", "F31", {1}}, SafetensorsEntry{"a", "F32", {-1}},
        SafetensorsEntry{"a", "F4", {3}}, SafetensorsEntry{"a", "F32", {int64_t{1} << 40, int64_t{1} << 40}}}) {
    std::vector<SafetensorsEntry> entries = {bad};
    EXPECT_EQ(LayOutSafetensors(&entries).status().code(), absl::StatusCode::kInvalidArgument) << bad.name;
  }
}

TEST(Safetensors, StrictReader) {
  const struct {
    const char* json;
    int64_t data;
    const char* problem;  // "" means accepted
  } kCases[] = {
      {R"({})", 0, ""},
      {R"({}   )", 0, ""},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8, ""},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"extra":1}})", 8, ""},
      {R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})", 1, ""},
      {R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       2, ""},
      {R"({"z":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       1, ""},
      {R"({"__metadata__":{"k":"v"}})", 0, ""},
      {R"({"__metadata__":{"k":1}})", 0, "not a string"},
      {R"({"__metadata__":[]})", 0, "not an object"},
      {R"([])", 0, "no JSON object"},
      {R"( {})", 0, "no JSON object"},
      {"{}\n", 0, "no JSON object"},
      {R"({"a":1})", 0, "not an object"},
      {R"({"a":{"dtype":"F32","shape":[2]}})", 8, "missing"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       8, "twice"},
      {R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8, "unknown dtype"},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8, "bad size"},
      {R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8, "bad size"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0, "too large"},
      {R"({"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,0]}})", 0, "bad size"},
      {R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1, "whole number"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,9]}})", 9, "do not fit"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "do not fit"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[9223372036854775799,9223372036854775807]}})", 8, "too large"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8, "two numbers"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2, "hole"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
       3, "hole"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "overlaps"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 2, "the file at"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 1, "the file at"},
      {R"({"a":{"dtype":"U8","shape":[[[[[[[[[1]]]]]]]]],"data_offsets":[0,1]}})", 1, "deeper"},
  };
  for (const auto& test : kCases) {
    const auto parsed = Parse(test.json, test.data);
    EXPECT_EQ(parsed.ok(), std::string(test.problem).empty()) << test.json << ": " << parsed.status();
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(test.problem)) << test.json;
  }
}

TEST(Safetensors, HeaderLengthIsBounded) {
  EXPECT_FALSE(SafetensorsHeaderBytes("1234567", 7).ok());
  EXPECT_EQ(*SafetensorsHeaderBytes(WithLength("{}").substr(0, 8), 10), 10);
  EXPECT_FALSE(SafetensorsHeaderBytes(WithLength("{}").substr(0, 8), 9).ok());
  EXPECT_FALSE(SafetensorsHeaderBytes(std::string(8, '\xff'), INT64_MAX).ok());
  EXPECT_FALSE(
      SafetensorsHeaderBytes(absl::string_view("\x01\xe1\xf5\x05\0\0\0\0", 8), INT64_MAX).ok());  // 100,000,001
}

}  // namespace
}  // namespace composer
