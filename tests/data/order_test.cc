// SPDX-License-Identifier: Apache-2.0
#include "data/order/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "absl/strings/str_cat.h"
#include "data/order/draw_skipper.h"
#include "data/order/numpy_generator.h"
#include "data/order/spread.h"
#include "tests/data/order_json.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(NumpyGenerator, DrawsWhatNumpyDraws) {  // numpy 2.1.3, default_rng(9176)
  NumpyGenerator random(9176);
  EXPECT_EQ(random.Next64(), 0xce488e5ff4c10304);
  EXPECT_EQ(random.Next64(), 0x233a25e3fe3960b0);
  EXPECT_THAT(NumpyGenerator(9176).Permutation(10), ElementsAre(8, 1, 2, 7, 5, 6, 9, 3, 0, 4));
  NumpyGenerator small(9176), large(9176), real(9176);
  for (const int64_t drawn : {956, 805, 993, 137, 205}) EXPECT_EQ(small.Integers(0, 1000), drawn);
  for (const int64_t drawn : {321922, 302225, 326770, 214644}) EXPECT_EQ(large.Integers(196608, 327680), drawn);
  for (const double drawn : {3.446356952108573, -1.8991518542299737, 2.8755847443005003})
    EXPECT_EQ(real.Uniform(-3, 8), drawn);
  EXPECT_THAT(NumpyGenerator(9176).Choice(100, 5), ElementsAre(20, 78, 97, 91, 13));
  EXPECT_THAT(NumpyGenerator(9176).Choice(100000, 5), ElementsAre(20589, 80577, 99304, 95603, 13760));
}

TEST(Spreader, EqualsASortByPlace) {
  std::mt19937_64 random(3);
  for (const size_t size : {1, 5, 5000, 60000}) {
    const int64_t reach = 9000, until = 2 << Spreader::kBits;
    std::vector<uint32_t> ids, first_ids;
    std::vector<std::pair<double, uint32_t>> expected;
    Spreader spreader(static_cast<int64_t>(size), reach), first(static_cast<int64_t>(size), reach, 0, until);
    for (size_t i = 0; i < size; ++i) {
      const double shift = std::uniform_real_distribution<double>(-9000, 9000)(random);
      const double place = std::clamp(static_cast<double>(i) + shift, 0.0, static_cast<double>(size) - 0.5);
      expected.emplace_back(place, static_cast<uint32_t>(i * 7));
      spreader.Place(place, static_cast<uint32_t>(i * 7));
      first.Place(place, static_cast<uint32_t>(i * 7));
      if (i % 4096 == 4095) spreader.Advance(static_cast<int64_t>(i) + 1, ids);
      if (i % 4096 == 4095) first.Advance(static_cast<int64_t>(i) + 1, first_ids);
    }
    spreader.Finish(ids);
    ASSERT_EQ(ids.size(), size);
    EXPECT_EQ(first.IsDone(), size > until + reach + 4096);
    first.Finish(first_ids);
    EXPECT_LE(first_ids.size(), std::min<size_t>(size, until + 2000)) << "about as many as places";
    EXPECT_TRUE(std::equal(first_ids.begin(), first_ids.end(), ids.begin()));
    std::sort(expected.begin(), expected.end());  // of equal places, the earlier sample comes first
    for (size_t i = 0; i < size; ++i) ASSERT_EQ(ids[i], expected[i].second) << size << " at " << i;
  }
}

nlohmann::json GoldenRows() {
  std::ifstream file("tests/golden/streaming_orders.json");
  return nlohmann::json::parse(file).at("rows");
}

std::vector<int64_t> Signed(const std::vector<uint32_t>& ids) {
  std::vector<int64_t> all;
  for (const uint32_t id : ids) all.push_back(id == kNoSample ? -1 : static_cast<int64_t>(id));
  return all;
}

TEST(Order, WithCompatIsThePackagesOrder) {
  int rows = 0;
  for (const nlohmann::json& row : GoldenRows()) {
    OrderConfig config = OrderConfigOf(row.at("config"));
    config.compat = true;
    const auto order = Order::Create(config);
    ASSERT_TRUE(order.ok()) << order.status() << row.at("config");
    const auto ids = order->Epoch(row["config"]["epoch"].get<int64_t>());
    ASSERT_TRUE(ids.ok()) << ids.status() << row.at("config");
    EXPECT_EQ(Signed(*ids), row.at("ids").get<std::vector<int64_t>>()) << row.at("config");
    ++rows;
  }
  EXPECT_GE(rows, 40);
}

// Until the package's first repeat, which comes with the last place of canonical nodes' parts, global batches have the
// same samples.
TEST(Order, WithoutCompatHasThePackagesFullBatches) {
  int64_t batches = 0;
  for (const nlohmann::json& row : GoldenRows()) {
    const OrderConfig config = OrderConfigOf(row.at("config"));
    if (config.batching != BatchingMethod::kRandom) continue;
    const Order order = Order::Create(config).value();
    std::vector<int64_t> ours = Signed(order.Epoch(row["config"]["epoch"].get<int64_t>()).value());
    auto theirs = row.at("ids").get<std::vector<int64_t>>();
    const int64_t unrepeated = order.epoch_size() / config.canonical_nodes * config.canonical_nodes;
    for (int64_t end = config.global_batch_size; end <= unrepeated; end += config.global_batch_size, ++batches) {
      std::sort(ours.begin() + end - config.global_batch_size, ours.begin() + end);
      std::sort(theirs.begin() + end - config.global_batch_size, theirs.begin() + end);
      ASSERT_TRUE(std::equal(ours.begin() + end - config.global_batch_size, ours.begin() + end,
                             theirs.begin() + end - config.global_batch_size))
          << "batch before " << end << row.at("config");
    }
  }
  EXPECT_GT(batches, 50);
}

TEST(DrawSkipper, StandsWhereTheShufflesEnd) {
  std::mt19937_64 draws(4);
  for (int round = 0; round < 200; ++round) {
    NumpyGenerator shuffled(static_cast<uint64_t>(round));
    for (uint64_t i = draws() % 4; i > 0; --i) shuffled.Next32();
    DrawSkipper skipper(shuffled, HasAvx512() && round % 2 == 0);
    for (uint64_t shuffles = draws() % 5; shuffles > 0; --shuffles) {
      std::vector<uint32_t> values(draws() % (round % 10 == 0 ? 100'000 : 700));
      shuffled.Shuffle(absl::MakeSpan(values));
      skipper.Shuffle(static_cast<int64_t>(values.size()));
      NumpyGenerator skipped = skipper.generator(), expected = shuffled;
      for (int i = 0; i < 3; ++i) ASSERT_EQ(skipped.Next32(), expected.Next32());
    }
    NumpyGenerator far = shuffled;
    for (int i = 0; i < round; ++i) shuffled.Next64();
    far.Skip64(static_cast<uint64_t>(round));
    ASSERT_EQ(far.Next64(), shuffled.Next64());
  }
}

OrderConfig RandomConfig(std::mt19937_64& random) {
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  OrderConfig config;
  config.world = {1 + below(3), 1 + below(4), 0};
  config.canonical_nodes = config.world.physical_nodes * (1 + below(4));
  config.global_batch_size = config.world.physical_nodes * config.world.ranks_per_node * (1 + below(5));
  config.shuffle = static_cast<ShuffleAlgorithm>(below(6));
  config.batching = static_cast<BatchingMethod>(below(4));
  config.seed = random();
  config.block_size = 40 + below(1000);
  const int64_t streams = 1 + below(3);
  for (int64_t i = 0; i < streams; ++i) {
    OrderStream& stream = config.streams.emplace_back();
    for (int64_t shard = below(5); shard >= 0; --shard) stream.shard_samples.push_back(1 + below(60));
    if (random() % 3 == 0) stream.repeat = 0.5 + static_cast<double>(below(300)) / 100;
  }
  return config;
}

TEST(Order, ServesEachDrawnCopyOnce) {
  std::mt19937_64 random(11);
  int made = 0;
  for (int round = 0; round < 400; ++round) {
    const OrderConfig config = RandomConfig(random);
    const auto order = Order::Create(config);
    if (!order.ok()) continue;  // stratified: a stream without a place in a batch
    const auto ids = order->Epoch(round % 3);
    if (!ids.ok()) continue;  // a block that is too small
    ++made;
    ASSERT_EQ(static_cast<int64_t>(ids->size()), order->epoch_size());
    // As many copies of each sample as are drawn: floor or ceiling of the stream's repeat.
    std::vector<int64_t> copies;
    for (const uint32_t id : *ids) {
      if (id >= copies.size()) copies.resize(id + 1, 0);
      ++copies[id];
    }
    size_t id = 0;
    for (const OrderStream& stream : config.streams) {
      const double repeat = stream.repeat.value_or(1);
      int64_t total = 0, size = 0;
      for (const int64_t n : stream.shard_samples) size += n;
      for (int64_t i = 0; i < size; ++i, ++id) total += id < copies.size() ? copies[id] : 0;
      ASSERT_EQ(total, static_cast<int64_t>(repeat * static_cast<double>(size)));
      if (!stream.repeat.has_value()) {
        for (size_t i = id - static_cast<size_t>(size); i < id; ++i) ASSERT_EQ(copies.at(i), 1);
      }
    }
  }
  EXPECT_GT(made, 200);
}

// With blocks of up to 30,000 samples, so that a node's part is written in several pieces.
TEST(Order, IsTheSameFromAnyPlaceOn) {
  std::mt19937_64 random(13);
  for (int round = 0; round < 60; ++round) {
    OrderConfig config;
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
    config.canonical_nodes = 1 + below(4);
    config.shuffle = static_cast<ShuffleAlgorithm>(round % 6);
    config.block_size = 1000 + below(29'000);
    OrderStream& stream = config.streams.emplace_back();
    for (int64_t shard = 3 + below(40); shard > 0; --shard) stream.shard_samples.push_back(below(9000));
    if (round % 5 == 0) stream.repeat = 1.3;
    const Order order = Order::Create(config).value();
    const std::vector<uint32_t> whole = order.Epoch(round).value();
    const auto size = static_cast<int64_t>(whole.size());
    const auto opened = order.Open(round).value();
    ASSERT_EQ(opened->size(), size);
    for (int read = 0; read < 12; ++read) {
      const int64_t begin = below(size), count = std::min(size - begin, 1 + below(3000));
      std::vector<uint32_t> ids(static_cast<size_t>(count));
      // Every other time in an epoch that is opened there, as after a restart.
      const auto where = read % 2 == 0 ? opened : order.Open(round).value();
      where->Read(begin, absl::MakeSpan(ids));
      ASSERT_TRUE(std::equal(ids.begin(), ids.end(), whole.begin() + begin)) << round << " at " << begin;
    }
  }
}

TEST(Order, WithOneNodeAndRankThePackagesSequenceComesFirst) {
  std::mt19937_64 random(12);
  for (int round = 0; round < 300; ++round) {
    OrderConfig config = RandomConfig(random);
    config.canonical_nodes = 1;
    config.world = {};
    const auto ours = Order::Create(config);
    config.compat = true;
    const auto theirs = Order::Create(config);
    ASSERT_EQ(ours.ok(), theirs.ok());
    if (!ours.ok()) continue;
    const auto sequence = ours->Epoch(1), with_compat = theirs->Epoch(1);
    if (!with_compat.ok()) continue;
    size_t served = with_compat->size();
    while (served > 0 && (*with_compat)[served - 1] == kNoSample) --served;
    ASSERT_LE(served, sequence->size());
    EXPECT_TRUE(
        std::equal(with_compat->begin(), with_compat->begin() + static_cast<ptrdiff_t>(served), sequence->begin()));
  }
}

TEST(Order, ErrorsNameTheFieldAndWhatIsAllowed) {
  const auto error = [](const auto& change) {
    OrderConfig config;
    config.streams = {{.shard_samples = {10, 20}}, {.shard_samples = {30}}};
    config.global_batch_size = 12;
    change(config);
    const auto order = Order::Create(config);
    if (!order.ok()) return std::string(order.status().message());
    return std::string(order->Epoch(0).status().message());
  };
  EXPECT_EQ(error([](OrderConfig&) {}), "");
  EXPECT_THAT(error([](OrderConfig& c) { c.streams.clear(); }), HasSubstr("at least one stream"));
  EXPECT_THAT(error([](OrderConfig& c) { c.canonical_nodes = 0; }),
              HasSubstr("canonical_nodes is 0; it must be from 1"));
  EXPECT_THAT(error([](OrderConfig& c) { c.streams[1].proportion = 2; }),
              HasSubstr("stream 1 has a proportion and an"));
  EXPECT_THAT(error([](OrderConfig& c) { c.streams[0].repeat = -1; }),
              HasSubstr("stream 0 has a repeat that is not a"));
  EXPECT_THAT(error([](OrderConfig& c) { c.streams[0].shard_samples = {0}; }), HasSubstr("stream 0 has no samples"));
  EXPECT_THAT(error([](OrderConfig& c) {
                c.streams[0].choose = 5;
                c.epoch_size = 10;
              }),
              HasSubstr("epoch_size is only for"));
  EXPECT_THAT(error([](OrderConfig& c) { c.streams[0].repeat = 1e12; }), HasSubstr("2^32 - 1 samples or more"));
  EXPECT_THAT(error([](OrderConfig& c) { c.world.ranks_per_node = 5; }),
              HasSubstr("12 samples cannot be divided by 5"));
  EXPECT_THAT(error([](OrderConfig& c) {
                c.world.physical_nodes = 2;
                c.canonical_nodes = 3;
              }),
              HasSubstr("canonical_nodes (3) and the physical nodes (2) must divide one another"));
  EXPECT_THAT(error([](OrderConfig& c) {
                c.block_size = 1;
                c.shuffle = ShuffleAlgorithm::kPy1br;
              }),
              HasSubstr("raise shuffle_block_size"));
}

}  // namespace
}  // namespace composer
