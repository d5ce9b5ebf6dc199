// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save/writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstring>

#include "checkpoint/format/safetensors.h"
#include "storage/checksum.h"
#include "storage/memory_store.h"

namespace composer {
namespace {

using testing::HasSubstr;

TEST(WritePart, TheFileHoldsExactlyTheBytesThatTheEntriesName) {
  MemoryStore store;
  const at::Tensor floats = torch::tensor({1.5F, -2.0F});
  const at::Tensor ints = torch::tensor({{1, 2}, {3, 4}}, at::kLong).t();  // not contiguous
  const auto part = WritePart(store, "f", 3, {ToHost("floats", floats), ToHost("ints", ints)});
  ASSERT_TRUE(part.ok()) << part.status();
  const std::string file = *GetObject(store, "f/rank-00003.safetensors", 1 << 20);
  EXPECT_EQ(part->files[0].bytes, static_cast<int64_t>(file.size()));
  ASSERT_EQ(part->tensors.size(), 2u);
  const Box& ints_box = part->tensors[0].boxes[0];  // 8-byte elements come before 4-byte ones
  EXPECT_EQ(part->tensors[0].name, "ints");
  EXPECT_EQ(ints_box.begin % 8, 0);
  int64_t values[4];
  std::memcpy(values, file.data() + ints_box.begin, sizeof(values));
  EXPECT_THAT(values, testing::ElementsAre(1, 3, 2, 4));
  EXPECT_EQ(part->files[0].header_xxh3, Xxh3(file.substr(0, static_cast<size_t>(ints_box.begin))));
  EXPECT_EQ(ints_box.xxh3, ChunkChecksums(file.substr(static_cast<size_t>(ints_box.begin), 32)));
  const auto entries = ParseSafetensors(file.substr(0, static_cast<size_t>(ints_box.begin)), part->files[0].bytes);
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_EQ((*entries)[1], (SafetensorsEntry{"floats", "F32", {2}, ints_box.end, ints_box.end + 8}));
}

TEST(WritePart, NoTensorsNoFile) {
  MemoryStore store;
  EXPECT_TRUE(WritePart(store, "f", 0, {})->files.empty());
  EXPECT_TRUE(store.List("")->empty());
}

TEST(WritePart, TwoOfOneNameAreRefused) {
  MemoryStore store;
  const HostTensor tensor = ToHost("a", torch::zeros({1}));
  EXPECT_EQ(WritePart(store, "f", 0, {tensor, tensor}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(StoredBytes, RefusesWhatTheFormatCannotHold) {
  EXPECT_EQ(*StoredBytes("a", torch::zeros({2, 3}, at::kHalf)), 12);
  for (const at::Tensor& bad : {at::Tensor(), torch::zeros({2}, at::kComplexDouble), torch::eye(2).to_sparse()}) {
    const auto bytes = StoredBytes("the.name", bad);
    EXPECT_EQ(bytes.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(bytes.status().message()), HasSubstr("the.name"));
  }
}

StateDict OneShardedTensor() {
  StateDict state;
  state.sharded = {{"w", {4, 3}, at::kFloat, {{{1, 0}, torch::ones({3, 2}).t().contiguous().t()}}}};
  return state;
}

TEST(WritePart, ABoxHasItsOffsetInItsNameAndItsOwnShape) {
  MemoryStore store;
  const auto parts = OwnParts(OneShardedTensor(), 0, 1);
  ASSERT_TRUE(parts.ok()) << parts.status();
  const auto part = WritePart(store, "f", 0, {ToHost(parts->at(0))});
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(part->tensors[0].shape, (std::vector<int64_t>{4, 3}));
  const Box& box = part->tensors[0].boxes[0];
  EXPECT_EQ(box.offset, (std::vector<int64_t>{1, 0}));
  const std::string file = *GetObject(store, "f/rank-00000.safetensors", 1 << 20);
  const auto entries = ParseSafetensors(file.substr(0, static_cast<size_t>(box.begin)), part->files[0].bytes);
  EXPECT_EQ((*entries)[0], (SafetensorsEntry{"w@1,0", "F32", {3, 2}, box.begin, box.begin + 24}));
}

TEST(OwnParts, WholeTensorsGoWhereTheShardsLeaveRoom) {
  StateDict state = OneShardedTensor();
  for (int i = 0; i < 4; ++i) state.tensors.emplace_back("t" + std::to_string(i), torch::zeros({100}));
  EXPECT_EQ(ShardedBytes(state), 24);
  const auto names = [&](int rank, std::vector<int64_t> sharded) {
    std::string text;
    const auto parts = OwnParts(state, rank, 2, sharded);
    for (const TensorPart& part : *parts) text += part.name + " ";
    return text;
  };
  EXPECT_EQ(names(0, {}), "t0 t2 w ");
  EXPECT_EQ(names(1, {2000, 0}), "t0 t1 t2 t3 w ");
  EXPECT_EQ(names(0, {2000, 0}), "w ");
  EXPECT_EQ(names(1, {800, 0}), "t0 t1 t3 w ") << "800 and 1,200 bytes: of equals the lowest rank";
  state.sharded[0].writes = false;  // another replica writes it
  EXPECT_EQ(names(0, {}), "t0 t2 ");
  EXPECT_EQ(ShardedBytes(state), 0);
}

TEST(OwnParts, EmptyShardsAreNotWrittenEmptyTensorsOnce) {
  StateDict state;
  state.sharded = {{"none", {0, 3}, at::kFloat, {{{0, 0}, torch::zeros({0, 3})}}},
                   {"w", {4}, at::kFloat, {{{4}, torch::zeros({0})}}}};
  EXPECT_EQ(OwnParts(state, 0, 2)->size(), 1u);
  EXPECT_EQ(OwnParts(state, 1, 2)->size(), 0u);
}

TEST(OwnParts, NamesTheShardThatDoesNotFit) {
  const auto problem = [](const Shard& shard) {
    StateDict state;
    state.sharded = {{"w", {4, 3}, at::kFloat, {shard}}};
    return std::string(OwnParts(state, 0, 1).status().message());
  };
  EXPECT_EQ(problem({{0, 0}, torch::zeros({4, 3})}), "");
  EXPECT_THAT(problem({{2, 0}, torch::zeros({3, 3})}), HasSubstr("tensor w lies outside it in dimension 0"));
  EXPECT_THAT(problem({{0, -1}, torch::zeros({3, 3})}), HasSubstr("outside it in dimension 1"));
  EXPECT_THAT(problem({{0}, torch::zeros({3})}), HasSubstr("number of dimensions"));
  EXPECT_THAT(problem({{0, 0}, torch::zeros({4, 3}, at::kHalf)}), HasSubstr("another dtype"));
  EXPECT_THAT(problem({{0, 0}, at::Tensor()}), HasSubstr("undefined"));
}

TEST(MergeParts, ATensorHasTheBoxesOfAllRanks) {
  Manifest first, second;
  first.files = {{"rank-00000.safetensors", 10, 1}};
  first.tensors = {{"a", "U8", {2}, {{{0}, {1}, 0, 9, 10, {1}}}}};
  second.files = {{"rank-00001.safetensors", 10, 1}};
  second.tensors = {{"a", "U8", {2}, {{{1}, {1}, 0, 9, 10, {1}}}}};
  const auto merged = MergeParts({first, second}, {"a"});
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_TRUE(CheckComplete(*merged).ok());
  EXPECT_EQ(merged->tensors[0].boxes[1].file, 1);
  second.tensors[0].shape = {3};
  EXPECT_THAT(std::string(MergeParts({first, second}, {"a"}).status().message()), HasSubstr("other dtypes or shapes"));
}

TEST(MergeParts, OrdersTensorsAndUnitesSmallState) {
  Manifest first, second;
  first.files = {{"rank-00000.safetensors", 10, 1}};
  first.tensors = {{"b", "U8", {1}, {{{0}, {1}, 0, 9, 10, {1}}}}};
  first.small = {{"shared", "0"}};
  second.files = {{"rank-00001.safetensors", 10, 1}};
  second.tensors = {{"a", "U8", {1}, {{{0}, {1}, 0, 9, 10, {1}}}}};
  second.small = {{"shared", "1"}, {"own", "1"}};
  const auto merged = MergeParts({first, second}, {"a", "b"});
  ASSERT_TRUE(merged.ok());
  EXPECT_EQ(merged->tensors[0].name, "a");
  EXPECT_EQ(merged->tensors[0].boxes[0].file, 1);
  EXPECT_EQ(merged->tensors[1].boxes[0].file, 0);
  EXPECT_EQ(merged->small, (std::map<std::string, std::string>{{"own", "1"}, {"shared", "0"}}));
  EXPECT_THAT(std::string(MergeParts({first}, {"a", "b"}).status().message()), HasSubstr("no rank wrote tensor a"));
  EXPECT_THAT(std::string(MergeParts({first, second}, {"a"}).status().message()),
              HasSubstr("wrote tensor b, which rank 0 does not have"));
}

}  // namespace
}  // namespace composer
