// Tests outputs with names, and batches with more than tensors of one shape.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/outputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "trainer/core/batch.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename Fn>
std::string MessageOf(const Fn& fn) {
  try {
    fn();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

TEST(Outputs, OneTensorIsOutputsAndBack) {
  const Outputs outputs = torch::ones({2, 3});
  EXPECT_EQ(outputs->size(1), 3);
  const at::Tensor& tensor = outputs;
  EXPECT_TRUE(tensor.is_same(outputs.tensor()));
  EXPECT_THAT(MessageOf([&] { outputs["logits"]; }), HasSubstr("no `logits`; they are one tensor without a name"));
  EXPECT_FALSE(Outputs().defined());
}

TEST(Outputs, OfSeveralTheLogitsAreWhatMetricsSee) {
  const at::Tensor logits = torch::rand({2, 3}), hidden = torch::rand({2, 5});
  const Outputs outputs(Outputs::Named{{"hidden", hidden}, {"logits", logits}});
  EXPECT_TRUE(outputs.tensor().is_same(logits));
  EXPECT_TRUE(outputs["hidden"].is_same(hidden));
  EXPECT_TRUE(outputs.Has("hidden"));
  const Outputs others(Outputs::Named{{"hidden", hidden}, {"pooled", logits}});
  EXPECT_THAT(MessageOf([&] { others.tensor(); }), HasSubstr("no `logits`; they are hidden, pooled"));
  EXPECT_TRUE(Outputs(Outputs::Named{{"pooled", logits}}).tensor().is_same(logits));
  EXPECT_EQ(Outputs::Cat({outputs, outputs})["hidden"].size(0), 4);
}

TEST(Batch, HasTensorsListsAndTextsByName) {
  Batch batch;
  batch.inputs = torch::arange(6).view({3, 2});
  batch.targets = torch::arange(3);
  batch.num_samples = 3;
  batch.Set("mask", torch::ones({3, 2}));
  batch.Set("targets", torch::arange(3) + 1);
  batch.ragged["boxes"] = {torch::ones({1, 4}), torch::ones({0, 4}), torch::ones({2, 4})};
  batch.texts["caption"] = {"a", "b", "c"};
  EXPECT_EQ(batch.Get("targets")[2].item<int64_t>(), 3);
  EXPECT_EQ(batch.Get("mask").size(0), 3);
  EXPECT_THAT(MessageOf([&] { batch.Get("masks"); }), HasSubstr("no `masks`; it has inputs, targets, mask"));
  const Batch part = batch.Slice(1, 3), chosen = batch.Select({2, 0});
  EXPECT_THAT(part.texts.at("caption"), ElementsAre("b", "c"));
  EXPECT_EQ(part.ragged.at("boxes")[1].size(0), 2);
  EXPECT_THAT(chosen.texts.at("caption"), ElementsAre("c", "a"));
  EXPECT_EQ(chosen.ragged.at("boxes")[0].size(0), 2);
  EXPECT_EQ(chosen.inputs[0][0].item<int64_t>(), 4);
  Batch grown = batch;
  grown.num_samples = 6;
  grown.inputs = grown.inputs.repeat({2, 1});
  grown.sample_ids = {7, 8, 9};
  EXPECT_THAT(MessageOf([&] { grown.Slice(3, 6); }), HasSubstr("the list `boxes` has 3 elements for 6 samples"));
  grown.ragged.clear();
  grown.texts.clear();
  EXPECT_TRUE(grown.Slice(3, 6).sample_ids.empty()) << "ids that do not fit are left out";
  EXPECT_THAT(MessageOf([&] { batch.Select({3}); }), HasSubstr("row 3 of a batch with 3 samples"));
}

// A nested batch: of each sample a list of named boxes.
class Boxes final : public BatchData {
 public:
  using OfSample = std::map<std::string, std::vector<at::Tensor>>;
  explicit Boxes(std::vector<OfSample> samples) : samples(std::move(samples)) {}
  std::shared_ptr<const BatchData> Select(const std::vector<int64_t>& rows) const override {
    std::vector<OfSample> some;
    for (const int64_t row : rows) some.push_back(samples.at(static_cast<size_t>(row)));
    return std::make_shared<Boxes>(std::move(some));
  }
  std::shared_ptr<const BatchData> To(at::Device device) const override {
    std::vector<OfSample> there = samples;
    for (OfSample& sample : there) {
      for (auto& [name, boxes] : sample) {
        for (at::Tensor& box : boxes) box = box.to(device);
      }
    }
    return std::make_shared<Boxes>(std::move(there));
  }
  const std::vector<OfSample> samples;
};

TEST(Batch, HoldsDataOfAnyType) {
  Batch batch;
  batch.num_samples = 3;
  batch.data = std::make_shared<Boxes>(std::vector<Boxes::OfSample>{
      {{"cat", {torch::ones({4}), torch::zeros({4})}}}, {}, {{"dog", {torch::ones({4})}}}});
  const auto of = [](const Batch& some) -> const auto& { return static_cast<const Boxes&>(*some.data).samples; };
  ASSERT_EQ(of(batch.Slice(1, 3)).size(), 2u);
  EXPECT_EQ(of(batch.Slice(1, 3))[1].at("dog").size(), 1u);
  EXPECT_EQ(of(batch.Select({2, 0}))[1].at("cat").size(), 2u);
  EXPECT_TRUE(of(batch.To(at::kMeta))[0].at("cat")[0].is_meta());
  EXPECT_TRUE(of(batch)[0].at("cat")[0].is_cpu());
}

}  // namespace
}  // namespace composer
