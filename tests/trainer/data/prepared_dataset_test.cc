// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/prepared_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "trainer/data/collators.h"
#include "trainer/data/packed_source.h"
#include "trainer/data/transforms.h"
#include "trainer/tokenizers/byte_tokenizer.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> NumbersOf(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kLong).contiguous().view(-1);
  return {flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel()};
}

std::string ErrorOf(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

// Sample i is the text of i's letters: "a", "bb", "ccc", …
class Letters final : public SampleSource {
 public:
  explicit Letters(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  Sample Get(int64_t index) const override {
    Sample sample;
    sample.texts["text"] = std::string(static_cast<size_t>(index + 1), static_cast<char>('a' + index));
    return sample;
  }

 private:
  int64_t size_;
};

// Adds a random number to the sample.
class Draw final : public SampleTransform {
 public:
  void Apply(Sample& sample, SampleRandom& random) const override {
    sample.tensors["drawn"] = torch::tensor(random.Below(int64_t{1} << 40));
  }
};

const auto kBytes = std::make_shared<const ByteTokenizer>(/*eos=*/true);

std::shared_ptr<const Dataset> Tokenized(uint64_t seed = 1, std::shared_ptr<const Collator> collator = nullptr) {
  Preparation preparation{.collator = std::move(collator), .seed = seed};
  preparation.transforms = {MakeTokenize(kBytes, {.add_special_tokens = false}), std::make_shared<const Draw>(),
                            std::make_shared<const Draw>()};
  return PrepareSamples(std::make_shared<const Letters>(6), std::move(preparation));
}

// Letters 0 to 5 have 1 to 6 tokens, besides the end.
TEST(PrepareSamples, TextsAreCutAndPaddedToOneLength) {
  Preparation preparation;
  preparation.transforms = {MakeTokenize(kBytes, {.add_special_tokens = false, .to_length = 3})};
  const auto data = PrepareSamples(std::make_shared<const Letters>(6), std::move(preparation));
  EXPECT_TRUE(
      data->Load({0, 2, 5}).inputs.equal(torch::tensor({{97, 0, 0}, {99, 99, 99}, {102, 102, 102}}, torch::kLong)));
}

TEST(PrepareSamples, DrawsDependOnSeedEpochSampleAndPlaceOnly) {
  const auto padded = std::make_shared<const PadCollator>();
  const auto data = Tokenized(1, padded);
  const auto drawn = [&](const Dataset& from, int64_t epoch, std::vector<int64_t> ids) {
    return NumbersOf(from.LoadIn(epoch, ids).Get("drawn"));
  };
  const std::vector<int64_t> all = drawn(*data, 0, {0, 1, 2});
  EXPECT_EQ(drawn(*data, 0, {2})[0], all[2]) << "whatever else is in the batch";
  EXPECT_NE(all[0], all[1]);
  EXPECT_NE(drawn(*data, 1, {0})[0], all[0]);
  EXPECT_NE(drawn(*Tokenized(2, padded), 0, {0})[0], all[0]);
}

TEST(PrepareSamples, ARankWithoutSamplesHasTheShapes) {
  const Batch none = Tokenized(1, std::make_shared<const PadCollator>())->Load({});
  EXPECT_EQ(none.num_samples, 0);
  EXPECT_EQ(none.inputs.sizes(), (at::IntArrayRef{0, 1}));
  EXPECT_EQ(none.inputs.scalar_type(), at::kLong);
}

TEST(PrepareSamples, AnErrorNamesTheSampleAndTheKey) {
  Preparation preparation;
  preparation.transforms = {MakeTokenize(kBytes, {.key = "story"})};
  const auto data = PrepareSamples(std::make_shared<const Letters>(6), std::move(preparation));
  const std::string error = ErrorOf([&] { data->Load({4}); });
  EXPECT_THAT(error, HasSubstr("there is no text `story`"));
  EXPECT_THAT(error, HasSubstr("sample 4"));
}

TEST(StackCollator, StacksAndSaysWhatDiffers) {
  const auto data = Tokenized();
  const Batch batch = data->Load({3, 3});
  EXPECT_EQ(batch.inputs.sizes(), (at::IntArrayRef{2, 4}));
  EXPECT_EQ(batch.num_tokens, 8);
  EXPECT_THAT(ErrorOf([&] { data->Load({3, 1}); }),
              HasSubstr("`inputs` of sample 1 is [2] of long int, that of sample 3 [4] of long int; give the data "
                        "`collate: pad`"));
  Sample plain, labelled;
  plain.tensors["inputs"] = labelled.tensors["inputs"] = torch::ones({2});
  labelled.tensors["targets"] = torch::tensor(1);
  plain.id = 7;
  EXPECT_THAT(ErrorOf([&] { StackCollator().Collate({labelled, plain}); }), HasSubstr("sample 7 has no `targets`"));
  EXPECT_THAT(ErrorOf([&] { StackCollator().Collate({plain, labelled}); }), HasSubstr("has other keys"));
}

TEST(PadCollator, PadsRowsAndMasksPadding) {
  Sample a, b;
  a.tensors = {{"inputs", torch::tensor({1, 2, 3}, at::kLong)}, {"targets", torch::tensor({2, 3, 4}, at::kLong)}};
  b.tensors = {{"inputs", torch::tensor({5}, at::kLong)}, {"targets", torch::tensor({6}, at::kLong)}};
  const Batch batch = PadCollator({.pad_id = 9, .to_multiple_of = 4}).Collate({a, b});
  EXPECT_THAT(NumbersOf(batch.inputs), ElementsAre(1, 2, 3, 9, 5, 9, 9, 9));
  EXPECT_THAT(NumbersOf(batch.targets), ElementsAre(2, 3, 4, -100, 6, -100, -100, -100));
  EXPECT_THAT(NumbersOf(batch.Get("attention_mask")), ElementsAre(1, 1, 1, 0, 1, 0, 0, 0));
  EXPECT_EQ(batch.num_tokens, 4);
  const Batch left = PadCollator({.pad_left = true}).Collate({a, b});
  EXPECT_THAT(NumbersOf(left.inputs), ElementsAre(1, 2, 3, 0, 0, 5));
  EXPECT_THAT(NumbersOf(left.Get("attention_mask")), ElementsAre(1, 1, 1, 0, 0, 1));
  EXPECT_THAT(ErrorOf([&] { PadCollator({.to_length = 2}).Collate({a, b}); }), HasSubstr("truncate them first"));
}

TEST(Transforms, PromptsAreNotLearnedAndRowsAreShifted) {
  Sample sample;
  sample.texts = {{"prompt", "ab"}, {"response", "c"}};
  SampleRandom random(1);
  MakePromptResponse(kBytes, "prompt", "response")->Apply(sample, random);
  EXPECT_THAT(NumbersOf(sample.tensors["inputs"]), ElementsAre('a', 'b', 'c', 256));
  EXPECT_THAT(NumbersOf(sample.tensors["targets"]), ElementsAre(-100, -100, 'c', 256));
  MakeShift()->Apply(sample, random);
  EXPECT_THAT(NumbersOf(sample.tensors["inputs"]), ElementsAre('a', 'b', 'c'));
  EXPECT_THAT(NumbersOf(sample.tensors["targets"]), ElementsAre(-100, 'c', 256));
  MakeTruncate(2, /*keep_end=*/true)->Apply(sample, random);
  EXPECT_THAT(NumbersOf(sample.tensors["inputs"]), ElementsAre('b', 'c'));
  EXPECT_TRUE(sample.texts.empty());
}

TEST(Transforms, KeysAreRenamedKeptAndLabelled) {
  Sample sample;
  sample.texts = {{"label", "dog"}, {"note", "x"}};
  sample.tensors = {{"pixels", torch::ones({1})}};
  SampleRandom random(1);
  MakeRename("pixels", "inputs")->Apply(sample, random);
  MakeLabel("label", {"cat", "dog"})->Apply(sample, random);
  MakeKeep({"inputs", "targets"})->Apply(sample, random);
  EXPECT_TRUE(sample.texts.empty());
  EXPECT_EQ(sample.tensors.at("targets").item<int64_t>(), 1);
  EXPECT_EQ(sample.tensors.count("inputs"), 1);
  sample.texts["label"] = "horse";
  EXPECT_THAT(ErrorOf([&] { MakeLabel("label", {"cat"})->Apply(sample, random); }),
              HasSubstr("`label` is `horse`, which is not among classes"));
}

// A tokenizer with a mask token, over 100 tokens.
class Masking final : public Tokenizer {
 public:
  Masking() { special_ = {.pad = 0, .mask = 99}; }
  std::string name() const override { return "masking"; }
  int64_t vocab_size() const override { return 100; }
  const SpecialTokens& special_tokens() const override { return special_; }
  Encoding Encode(absl::string_view, bool) const override { return {}; }
  std::string Decode(absl::Span<const int64_t>, bool) const override { return ""; }

 private:
  SpecialTokens special_;
};

TEST(Transforms, MaskChoosesAsBertDoes) {
  const auto mask = MakeMask(std::make_shared<const Masking>(), 0.15);
  Sample sample;
  sample.tensors["inputs"] = torch::full({100'000}, 5, at::kLong);
  sample.tensors["inputs"][0] = 0;
  SampleRandom random(3);
  mask->Apply(sample, random);
  const at::Tensor inputs = sample.tensors["inputs"], targets = sample.tensors["targets"];
  const at::Tensor chosen = targets.ne(-100);
  EXPECT_FALSE(chosen[0].item<bool>()) << "padding is never chosen";
  const double count = chosen.sum().item<double>();
  EXPECT_NEAR(count / 100'000, 0.15, 0.005);
  EXPECT_NEAR(inputs.eq(99).logical_and(chosen).sum().item<double>() / count, 0.8 + 0.001, 0.01);
  EXPECT_NEAR(inputs.eq(5).logical_and(chosen).sum().item<double>() / count, 0.1 + 0.001, 0.01);
  EXPECT_TRUE(inputs.masked_select(chosen.logical_not()).slice(0, 1).eq(5).all().item<bool>());
  EXPECT_THAT(ErrorOf([&] { MakeMask(kBytes); }), HasSubstr("the tokenizer bytes has no mask token"));
}

TEST(Transforms, CropsFlipsAndNormalizes) {
  Sample sample;
  sample.tensors["inputs"] = torch::arange(9, at::kFloat).view({1, 3, 3});
  SampleRandom random(1);
  MakeRandomFlip(1)->Apply(sample, random);
  EXPECT_THAT(NumbersOf(sample.tensors["inputs"]), ElementsAre(2, 1, 0, 5, 4, 3, 8, 7, 6));
  MakeNormalize({1}, {0.5})->Apply(sample, random);
  EXPECT_THAT(NumbersOf(sample.tensors["inputs"]), ElementsAre(2, 0, -2, 8, 6, 4, 14, 12, 10));
  MakeRandomCrop(3, 2)->Apply(sample, random);
  EXPECT_EQ(sample.tensors["inputs"].sizes(), (at::IntArrayRef{1, 3, 3}));
  EXPECT_THAT(ErrorOf([&] { MakeRandomCrop(4)->Apply(sample, random); }), HasSubstr("larger than the image, 3 x 3"));
}

std::shared_ptr<const Dataset> Packed(bool shuffle = false) {
  const auto source = PackDocuments(std::make_shared<const Letters>(5), {MakeTokenize(kBytes, {})},
                                    {.max_seq_len = 4, .separator = 256, .shuffle = shuffle, .seed = 3});
  return PrepareSamples(source, {});
}

std::vector<std::vector<int64_t>> RowsOf(SampleStream& stream) {
  std::vector<std::vector<int64_t>> rows;
  for (Sample sample; stream.Next(sample);) {
    rows.push_back(NumbersOf(sample.tensors.at("inputs")));
    EXPECT_EQ(NumbersOf(sample.tensors.at("targets")).size(), 4u);
  }
  return rows;
}

TEST(PackDocuments, DocumentsFollowEachOther) {
  // a| bb| ccc| dddd| eeeee|
  const auto stream = Packed()->iterable()->Open(0);
  EXPECT_THAT(RowsOf(*stream), ElementsAre(ElementsAre('a', 256, 'b', 'b'), ElementsAre(256, 'c', 'c', 'c'),
                                           ElementsAre(256, 'd', 'd', 'd'), ElementsAre('d', 256, 'e', 'e')));
  Sample first;
  Packed()->iterable()->Open(0)->Next(first);
  EXPECT_THAT(NumbersOf(first.tensors["targets"]), ElementsAre(256, 'b', 'b', 256));
}

TEST(PackDocuments, SequenceIdsCountTheDocumentsOfARow) {
  const auto source = PackDocuments(std::make_shared<const Letters>(5), {MakeTokenize(kBytes, {})},
                                    {.max_seq_len = 4, .separator = 256, .shuffle = false, .sequence_ids = true});
  // a| bb| ccc| dddd| eeeee|
  const auto stream = source->Open(0);
  std::vector<std::vector<int64_t>> ids;
  std::string place;
  for (Sample sample; stream->Next(sample);) {
    ids.push_back(NumbersOf(sample.tensors.at("sequence_id")));
    if (ids.size() == 1) place = stream->Place();
  }
  EXPECT_THAT(ids, ElementsAre(ElementsAre(0, 0, 1, 1), ElementsAre(0, 1, 1, 1), ElementsAre(0, 1, 1, 1),
                               ElementsAre(0, 0, 1, 1)));
  const auto resumed = source->Open(0);
  resumed->Seek(place);
  Sample second;
  ASSERT_TRUE(resumed->Next(second));
  EXPECT_EQ(NumbersOf(second.tensors.at("sequence_id")), ids[1]);
}

// The documents of a source with an order of its own come in that order, each as often as it says.
class LettersTwice final : public SampleSource {
 public:
  int64_t size() const override { return letters_.size(); }
  Sample Get(int64_t index) const override { return letters_.Get(index); }
  std::shared_ptr<const SampleOrder> OwnOrder(const OrderRequest& /*request*/) const override {
    struct LastTwice final : SampleOrder {
      int64_t size() const override { return 2; }
      void Read(int64_t /*epoch*/, int64_t /*begin*/, absl::Span<int64_t> ids) const override {
        std::fill(ids.begin(), ids.end(), 2);
      }
    };
    return std::make_shared<const LastTwice>();
  }

 private:
  const Letters letters_{3};
};

TEST(PackDocuments, FollowsTheOrderOfItsSource) {
  const auto source = PackDocuments(std::make_shared<const LettersTwice>(), {MakeTokenize(kBytes, {})},
                                    {.max_seq_len = 4, .separator = 256, .seed = 3});
  EXPECT_THAT(RowsOf(*source->Open(0)), ElementsAre(ElementsAre('c', 'c', 'c', 256)));
}

TEST(PackDocuments, ResumesAtEveryPlace) {
  const auto data = Packed(/*shuffle=*/true);
  EXPECT_NE(RowsOf(*data->iterable()->Open(0)), RowsOf(*data->iterable()->Open(1)));
  for (int64_t epoch : {0, 1}) {
    const auto whole = data->iterable()->Open(epoch);
    std::string place = whole->Place();
    for (Sample sample;;) {
      const auto resumed = data->iterable()->Open(epoch);
      resumed->Seek(place);
      const auto rest = data->iterable()->Open(epoch);
      rest->Seek(place);
      const bool has_next = whole->Next(sample);
      Sample again;
      ASSERT_EQ(resumed->Next(again), has_next);
      if (!has_next) break;
      EXPECT_TRUE(at::equal(again.tensors.at("inputs"), sample.tensors.at("inputs")));
      EXPECT_EQ(again.id, sample.id);
      place = whole->Place();
      EXPECT_EQ(resumed->Place(), place);
    }
  }
  for (const char* place : {"x", "1:2", "0:9:0", "0:5:1", "0:0:99", "-1:0:0", "0:-1:0"})
    EXPECT_THROW(data->iterable()->Open(0)->Seek(place), c10::ValueError) << place;
}

}  // namespace
}  // namespace composer
