// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "storage/checksum.h"

namespace composer {
namespace {

using testing::HasSubstr;

Manifest Example() {
  Manifest manifest{.run_name = "fashion",
                    .saved_at = "2026-01-02T03:04:05Z",
                    .step = {1, 20},
                    .samples = 2560,
                    .world_size = 2,
                    .attempt = "attempt-0123456789abcdef"};
  manifest.files = {{"rank-00000.safetensors", 1000, 1}, {"rank-00001.safetensors", 500, 2}};
  manifest.tensors = {{"whole", "F32", {2, 3}, {{{0, 0}, {2, 3}, 0, 100, 124, {3}}}},
                      {"halves", "I64", {4}, {{{0}, {2}, 0, 124, 140, {4}}, {{2}, {2}, 1, 100, 116, {~uint64_t{0}}}}},
                      {"scalar", "BF16", {}, {{{}, {}, 1, 116, 118, {5}}}},
                      {"none", "F32", {0, 7}, {{{0, 0}, {0, 7}, 1, 118, 118, {6}}}}};
  manifest.small = {{"timestamp", R"({"batch":20})"}, {"rng", "[1,2]"}};
  return manifest;
}

// Returns the text with a valid checksum for its current content.
std::string Sealed(absl::string_view text) {
  const absl::string_view body = text.substr(0, text.rfind(",\n\"checksum\""));
  return absl::StrCat(body, ManifestTrailer(body));
}

TEST(Manifest, TextIsAsDocumentedAndComesBack) {
  const std::string text = *SerializeManifest(Example());
  EXPECT_EQ(text.substr(0, text.rfind("\"xxh3:")), R"({"format":"composer-checkpoint",
"version":1,
"run_name":"fashion",
"saved_at":"2026-01-02T03:04:05Z",
"epoch":1,
"batch":20,
"samples":2560,
"world_size":2,
"attempt":"attempt-0123456789abcdef",
"files":[
["rank-00000.safetensors",1000,"0000000000000001"],
["rank-00001.safetensors",500,"0000000000000002"]],
"tensors":[
["whole","F32",[2,3],[0,100,"0000000000000003"]],
["halves","I64",[4],[0,124,"0000000000000004",[0],[2]],[1,100,"ffffffffffffffff",[2],[2]]],
["scalar","BF16",[],[1,116,"0000000000000005"]],
["none","F32",[0,7],[1,118,"0000000000000006"]]],
"small":{
"rng":[1,2],
"timestamp":{"batch":20}},
"checksum":)");
  const auto parsed = ParseManifest(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, Example());
  EXPECT_TRUE(CheckComplete(*parsed).ok());
  EXPECT_EQ(parsed->TensorBytesTotal(), 24 + 32 + 2);
}

TEST(Manifest, EmptyOne) {
  Manifest empty;
  empty.attempt = "attempt-0123456789abcdef";
  EXPECT_EQ(*ParseManifest(*SerializeManifest(empty)), empty);
}

TEST(Manifest, EveryFlippedBitAndEveryLengthIsFound) {
  const std::string text = *SerializeManifest(Example());
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(ParseManifest(flipped).status().code(), absl::StatusCode::kDataLoss) << bit;
  }
  for (size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(ParseManifest(text.substr(0, size)).ok()) << size;
  EXPECT_FALSE(ParseManifest(text + "\n").ok());
}

TEST(Manifest, RefusesWhatIsWrongInsideThoughTheChecksumHolds) {
  const std::string text = *SerializeManifest(Example());
  const struct {
    const char* from;
    const char* to;
    const char* problem;
  } kCases[] = {
      {"composer-checkpoint", "other", "not a composer checkpoint"},
      {"\"version\":1", "\"version\":2", "format version 2, this program reads version 1"},
      {"\"samples\":2560,\n", "", "\"samples\" is missing"},
      {"\"samples\":2560", "\"samples\":-1", "\"samples\" is missing or of the wrong type"},
      {"\"samples\":2560", "\"samples\":9223372036854775808", "bad number in samples"},
      {"\"samples\":2560", "\"samples\":1,\"samples\":2", "twice"},
      {"\"samples\":2560", "\"samples\":1,\"more\":2", "does not know"},
      {"\"world_size\":2", "\"world_size\":0", "bad world_size"},
      {"attempt-0123456789abcdef", "attempt-../../x", "bad attempt name"},
      {"[\"rank-00000.safetensors\"", "[\"../../etc/passwd\"", "bad file name"},
      {",1000,", ",-1000,", "bad number"},
      {"[0,100,", "[2,100,", "outside the files"},
      {"[0,100,", "[0,980,", "outside the files"},
      {"[0,100,", "[0,9223372036854775807,", "outside the files"},
      {"[\"whole\",\"F32\"", "[\"whole\",\"F99\"", "unknown dtype"},
      {"\"whole\"", "\"\"", "bad tensor name"},
      {"[0],[2]]", "[0],[2]", "not valid JSON"},
      {"\"0000000000000004\",[0],[2]", "\"0000000000000004\",[0]", "bad box"},
      {"\"0000000000000004\",[0],[2]", "\"0000000000000004\",[3],[2]", "outside it"},
      {"\"0000000000000004\",[0],[2]", "\"0000000000000004\",[9223372036854775807],[2]", "outside it"},
      {"\"0000000000000004\",[0],[2]", "\"0000000000000004\",[0],[2,1]", "other dimensions"},
      {"\"0000000000000004\",[0],[2]", "\"0000000000000004\",[0],[4]", "is the whole of it"},
      {"0000000000000003", "000000000000000A", "bad checksum"},
      {"\"0000000000000003\"", "[\"0000000000000003\",\"0000000000000003\"]", "has 2 checksums, not 1"},
      {"\"0000000000000003\"", "[\"0000000000000003\"]", "bad checksums"},
      {"\"0000000000000003\"", "[]", "bad checksums"},
      {"\"0000000000000003\"", "[[\"0000000000000003\"],0]", "bad checksum"},
      {"\"small\":{", "\"small\":[", "not valid JSON"},
  };
  for (const auto& test : kCases) {
    const std::string changed = absl::StrReplaceAll(text, {{test.from, test.to}});
    ASSERT_NE(changed, text) << test.from;
    const auto parsed = ParseManifest(Sealed(changed));
    EXPECT_FALSE(parsed.ok()) << test.to;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(test.problem)) << test.to;
  }
}

TEST(CheckComplete, PartsMustFillTheTensorOnce) {
  using Boxes = std::vector<Box>;
  const struct {
    const char* what;
    std::vector<int64_t> shape;
    Boxes boxes;
    const char* problem;  // "" means complete
  } kCases[] = {
      {"one", {2, 2}, {{{0, 0}, {2, 2}}}, ""},
      {"four quarters", {2, 2}, {{{0, 0}, {1, 1}}, {{1, 1}, {1, 1}}, {{0, 1}, {1, 1}}, {{1, 0}, {1, 1}}}, ""},
      {"no box", {2, 2}, {}, "missing"},
      {"half of it", {2, 2}, {{{0, 0}, {1, 2}}}, "missing"},
      {"one twice and one not at all", {2, 2}, {{{0, 0}, {1, 2}}, {{0, 0}, {1, 2}}}, "overlap"},
      {"crossing", {2, 2}, {{{0, 0}, {1, 2}}, {{0, 1}, {2, 1}}}, "overlap"},
      {"too much", {2, 2}, {{{0, 0}, {2, 2}}, {{0, 0}, {1, 1}}}, "overlap"},
      {"scalar", {}, {{{}, {}}}, ""},
      {"scalar twice", {}, {{{}, {}}, {{}, {}}}, "overlap"},
      {"empty", {0, 3}, {{{0, 0}, {0, 3}}}, ""},
      {"empty without a box", {0, 3}, {}, "missing"},
      {"an empty part", {2, 2}, {{{0, 0}, {1, 2}}, {{1, 0}, {1, 2}}, {{2, 0}, {0, 2}}}, "empty"},
      {"columns", {1, 3}, {{{0, 2}, {1, 1}}, {{0, 0}, {1, 1}}, {{0, 1}, {1, 1}}}, ""},
      {"columns that cross", {2, 3}, {{{0, 0}, {2, 2}}, {{0, 1}, {2, 1}}}, "overlap"},
  };
  for (const auto& test : kCases) {
    Manifest manifest;
    manifest.tensors = {{"t", "F32", test.shape, test.boxes}};
    const absl::Status status = CheckComplete(manifest);
    EXPECT_EQ(status.ok(), std::string(test.problem).empty()) << test.what;
    EXPECT_THAT(std::string(status.message()), HasSubstr(test.problem)) << test.what;
  }
  Manifest twice = Example();
  twice.tensors.push_back(twice.tensors[0]);
  EXPECT_THAT(std::string(CheckComplete(twice).message()), HasSubstr("tensor \"whole\": is there twice"));
  twice = Example();
  twice.files.push_back(twice.files[0]);
  EXPECT_THAT(std::string(CheckComplete(twice).message()), HasSubstr("rank-00000.safetensors is there twice"));
}

// 512 columns, and a grid of 64 x 64 in each of 200 tensors, as in a large job. Boxes must not be compared pair by
// pair.
TEST(CheckComplete, ManyBoxesInAnyOrder) {
  Manifest manifest;
  TensorEntry columns{"c", "F32", {8, 512}, {}}, grid{"g", "F32", {64, 64}, {}};
  for (int64_t i = 0; i < 512; ++i) columns.boxes.push_back({{0, (i * 37) % 512}, {8, 1}});
  for (int64_t i = 0; i < 4096; ++i) grid.boxes.push_back({{(i * 53) % 64, i / 64}, {1, 1}});
  for (int i = 0; i < 200; ++i) {
    columns.name = absl::StrCat("c", i);
    manifest.tensors.push_back(columns);
  }
  manifest.tensors.push_back(grid);
  EXPECT_TRUE(CheckComplete(manifest).ok()) << CheckComplete(manifest);
  manifest.tensors.back().boxes[100] = manifest.tensors.back().boxes[3000];
  EXPECT_THAT(std::string(CheckComplete(manifest).message()), HasSubstr("overlap"));
}

TEST(BoxName, APartHasItsOffset) {
  const TensorEntry tensor{"a.w", "F32", {4, 2}, {}};
  EXPECT_EQ(BoxName(tensor, {{0, 0}, {4, 2}}), "a.w");
  EXPECT_EQ(BoxName(tensor, {{0, 0}, {2, 2}}), "a.w@0,0");
  EXPECT_EQ(BoxName(tensor, {{2, 1}, {2, 1}}), "a.w@2,1");
  EXPECT_EQ(BoxName({"s", "F32", {}, {}}, {{}, {}}), "s");
}

TEST(ChunkChecksums, OneForEachMebibyteBegun) {
  EXPECT_EQ(ChunkChecksums("").size(), 1u);
  const std::string bytes(static_cast<size_t>(kChunkBytes) * 2 + 1, 'x');
  const absl::string_view text = bytes;
  EXPECT_EQ(ChunkChecksums(text.substr(0, kChunkBytes)).size(), 1u);
  EXPECT_EQ(ChunkChecksums(text.substr(0, kChunkBytes + 1)).size(), 2u);
  const std::vector<uint64_t> three = ChunkChecksums(text);
  EXPECT_EQ(three,
            (std::vector<uint64_t>{Xxh3(text.substr(0, kChunkBytes)), Xxh3(text.substr(0, kChunkBytes)), Xxh3("x")}));
  Manifest manifest = Example();
  manifest.files[0].bytes = 3 * kChunkBytes;
  manifest.tensors[0] = {
      "whole", "U8", {2 * kChunkBytes + 1}, {{{0}, {2 * kChunkBytes + 1}, 0, 100, 101 + 2 * kChunkBytes, three}}};
  EXPECT_EQ(*ParseManifest(*SerializeManifest(manifest)), manifest);
}

TEST(Manifest, SmallStateMustBeJson) {
  Manifest manifest = Example();
  manifest.small["broken"] = "{";
  const auto text = SerializeManifest(manifest);
  EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(text.status().message()), HasSubstr("\"broken\""));
}

}  // namespace
}  // namespace composer
