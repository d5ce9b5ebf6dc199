// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <functional>

#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "trainer/data/finetuning_source.h"
#include "trainer/data/first_fit_source.h"
#include "trainer/data/length_buckets.h"
#include "trainer/data/mix_source.h"
#include "trainer/tokenizers/byte_tokenizer.h"

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorText(const std::function<void()>& function) {
  try {
    function();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

std::vector<int64_t> ValuesOf(const at::Tensor& tensor) {
  const at::Tensor row = tensor.contiguous();
  return {row.data_ptr<int64_t>(), row.data_ptr<int64_t>() + row.numel()};
}

// Sample i has i % 7 + 1 tokens that are all `first` + i.
class NumberRows final : public SampleSource {
 public:
  NumberRows(int64_t size, int64_t first) : size_(size), first_(first) {}
  int64_t size() const override { return size_; }
  Sample Get(int64_t index) const override {
    Sample sample;
    sample.tensors["inputs"] = torch::full({index % 7 + 1}, first_ + index, at::kLong);
    return sample;
  }

 private:
  const int64_t size_, first_;
};

OrderRequest RequestFor(const SampleSource& source) { return {source.size(), 5, 8, 1, true}; }

TEST(MixSources, SharesAreExactAndPassesWhole) {
  const auto mix = *MixSources({{.source = std::make_shared<NumberRows>(30, 0), .weight = 3},
                                {.source = std::make_shared<NumberRows>(50, 1000), .weight = 1}},
                               {});
  ASSERT_EQ(mix->size(), 80);
  const auto order = mix->OwnOrder(RequestFor(*mix));
  EXPECT_EQ(order->size(), 80);
  std::vector<int64_t> first, second;
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    std::vector<int64_t> ids(80);
    order->Read(epoch, 0, absl::MakeSpan(ids));
    for (const int64_t id : ids) (id < 30 ? first : second).push_back(id);
    EXPECT_EQ(first.size(), static_cast<size_t>(60 * (epoch + 1)));
  }
  for (size_t pass = 0; pass < 10; ++pass) {
    std::vector<int64_t> ids(first.begin() + static_cast<ptrdiff_t>(pass) * 30,
                             first.begin() + static_cast<ptrdiff_t>(pass + 1) * 30);
    std::sort(ids.begin(), ids.end());
    for (int64_t i = 0; i < 30; ++i) ASSERT_EQ(ids[static_cast<size_t>(i)], i) << pass;
  }
  std::vector<int64_t> whole(second.begin(), second.begin() + 50);
  std::sort(whole.begin(), whole.end());
  for (int64_t i = 0; i < 50; ++i) EXPECT_EQ(whole[static_cast<size_t>(i)], 30 + i);
  EXPECT_EQ(mix->Get(79).tensors.at("inputs")[0].item<int64_t>(), 1049);
}

TEST(MixSources, MistakesAreNamed) {
  const auto none = MixSources({{.source = std::make_shared<NumberRows>(0, 0)}}, {});
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("source 0 has no samples"));
  const auto rows = std::make_shared<NumberRows>(3, 0);
  const auto stream = MixSources({{.source = rows}, {.source = PackDocuments(rows, {}, {})}}, {});
  EXPECT_THAT(std::string(stream.status().message()), HasSubstr("source 1 can only be read in its own order"));
  const auto weight = MixSources({{.source = rows, .weight = -1}}, {});
  EXPECT_THAT(std::string(weight.status().message()), HasSubstr("mix: a weight is -1"));
}

TEST(FirstFit, FillsRowsWithWholeDocuments) {
  EXPECT_THAT(FirstFit({3, 7, 5, 2, 8, 1}, 10), ElementsAre(ElementsAre(4, 3), ElementsAre(1, 0), ElementsAre(2, 5)));
  EXPECT_TRUE(FirstFit({}, 4).empty());
}

TEST(FirstFit, EveryTokenComesOnceAndNothingIsPredictedAcrossDocuments) {
  const auto packed =
      PackFirstFit(std::make_shared<NumberRows>(2500, 1), {}, {.pack = {.max_seq_len = 16}, .pad_id = -7});
  const auto stream = packed->Open(3);
  std::vector<int64_t> counts(2501, 0);
  std::vector<std::string> places = {stream->Place()};
  std::vector<std::vector<int64_t>> rows;
  int64_t padding = 0;
  for (Sample sample; stream->Next(sample); sample = Sample()) {
    EXPECT_EQ(sample.id, static_cast<int64_t>(rows.size()));
    const std::vector<int64_t> inputs = ValuesOf(sample.tensors.at("inputs")),
                               targets = ValuesOf(sample.tensors.at("targets"));
    for (size_t i = 0; i < 16; ++i) {
      if (inputs[i] == -7) {
        ++padding;
        ASSERT_EQ(targets[i], -100);
        continue;
      }
      ++counts[static_cast<size_t>(inputs[i])];
      const bool last = i == 15 || inputs[i + 1] != inputs[i];
      ASSERT_EQ(targets[i], last ? -100 : inputs[i]);
    }
    rows.push_back(inputs);
    places.push_back(stream->Place());
  }
  for (int64_t i = 0; i < 2500; ++i) ASSERT_EQ(counts[static_cast<size_t>(i + 1)], i % 7 + 1);
  EXPECT_LT(static_cast<double>(padding) / static_cast<double>(16 * rows.size()), 0.02);
  for (const size_t from : {size_t{0}, rows.size() / 3, rows.size() - 1, rows.size()}) {
    const auto resumed = packed->Open(3);
    resumed->Seek(places[from]);
    Sample sample;
    for (size_t row = from; row < std::min(rows.size(), from + 30); ++row, sample = Sample()) {
      ASSERT_TRUE(resumed->Next(sample));
      ASSERT_EQ(ValuesOf(sample.tensors.at("inputs")), rows[row]);
      ASSERT_EQ(sample.id, static_cast<int64_t>(row));
    }
    if (from == rows.size()) EXPECT_FALSE(resumed->Next(sample));
  }
  EXPECT_THAT(ErrorText([&] { packed->Open(0)->Seek("1:99:0"); }), HasSubstr("is not a place in 2500 documents"));
}

using Packing = std::function<std::shared_ptr<const SampleSource>(std::shared_ptr<const SampleSource>, uint64_t seed)>;

void ExpectToGoOnAtEveryPlace(const Packing& pack) {
  const auto mix = [](MixOptions options) {
    return *MixSources({{.source = std::make_shared<NumberRows>(1500, 1), .weight = 3},
                        {.source = std::make_shared<NumberRows>(1200, 10'000), .weight = 1}},
                       options);
  };
  const std::vector<double> other = {1, 2};
  const auto packed = pack(mix({}), 5);
  const auto stream = packed->Open(1);
  std::vector<std::string> places = {stream->Place()};
  std::vector<std::vector<int64_t>> rows;
  for (Sample sample; stream->Next(sample); sample = Sample()) {
    rows.push_back(ValuesOf(sample.tensors.at("inputs")));
    places.push_back(stream->Place());
  }
  for (size_t from = 0; from < rows.size(); from += 97) {
    const auto resumed = packed->Open(1);
    resumed->Seek(places[from]);
    for (size_t row = from; row < std::min(rows.size(), from + 40); ++row) {
      Sample sample;
      ASSERT_TRUE(resumed->Next(sample));
      ASSERT_EQ(ValuesOf(sample.tensors.at("inputs")), rows[row]) << from;
    }
  }
  // A change of the weights behind a place leaves the place; one before it, and another seed, do not.
  const std::string& place = places[rows.size() / 2];
  const int64_t epoch = 2700;
  pack(mix({.changes = {{epoch + 2600, other}}}), 5)->Open(1)->Seek(place);
  for (const auto& changed : {pack(mix({.changes = {{epoch + 40, other}}}), 5), pack(mix({}), 6)}) {
    EXPECT_THAT(ErrorText([&] { changed->Open(1)->Seek(place); }),
                AllOf(HasSubstr("is now: the seed, or weights of a mixture"), HasSubstr("documents of the run")));
  }
}

TEST(MixSources, APackedMixtureGoesOnAtEveryPlaceAndInItsOrderOnly) {
  ExpectToGoOnAtEveryPlace([](std::shared_ptr<const SampleSource> mix, uint64_t seed) {
    return PackDocuments(std::move(mix), {}, {.max_seq_len = 16, .separator = 7, .seed = seed});
  });
  ExpectToGoOnAtEveryPlace([](std::shared_ptr<const SampleSource> mix, uint64_t seed) {
    return PackFirstFit(std::move(mix), {}, {.pack = {.max_seq_len = 16, .seed = seed}, .pad_id = -7});
  });
}

TEST(FirstFit, SequenceIdsCountTheDocumentsOfARow) {
  const auto stream = PackFirstFit(std::make_shared<NumberRows>(3, 1), {},
                                   {.pack = {.max_seq_len = 7, .shuffle = false, .sequence_ids = true}})
                          ->Open(0);
  Sample sample;
  ASSERT_TRUE(stream->Next(sample));  // documents of 3, 2 and 1 tokens
  EXPECT_THAT(ValuesOf(sample.tensors.at("sequence_id")), ElementsAre(0, 0, 0, 1, 1, 2, -1));
}

TEST(FirstFit, CutsLongDocumentsAndKeepsTheirTargets) {
  const TempDir folder;
  ASSERT_TRUE(AtomicWriteFile(folder.Path("a.jsonl"), "{\"prompt\": \"ab\", \"response\": \"cdefgh\"}\n").ok());
  const auto tokenizer = std::make_shared<const ByteTokenizer>(/*eos=*/false);
  const auto source = *OpenFinetuning({.paths = {folder.Path("a.jsonl")}}, tokenizer);
  const auto stream = PackFirstFit(source, {}, {.pack = {.max_seq_len = 4}})->Open(0);
  Sample sample;
  ASSERT_TRUE(stream->Next(sample));
  EXPECT_THAT(ValuesOf(sample.tensors.at("inputs")), ElementsAre('a', 'b', 'c', 'd'));
  EXPECT_THAT(ValuesOf(sample.tensors.at("targets")), ElementsAre(-100, 'c', 'd', 'e'));
  ASSERT_TRUE(stream->Next(sample));
  EXPECT_THAT(ValuesOf(sample.tensors.at("inputs")), ElementsAre('e', 'f', 'g', 0));
  EXPECT_THAT(ValuesOf(sample.tensors.at("targets")), ElementsAre('f', 'g', 'h', -100));
  EXPECT_FALSE(stream->Next(sample));
  EXPECT_FALSE(stream->Next(sample)) << "nor does it begin again when it is asked again";
}

class FinetuningTest : public ::testing::Test {
 protected:
  std::shared_ptr<const SampleSource> Open(const std::string& lines, bool eos, int64_t max_seq_len = 2048) {
    EXPECT_TRUE(AtomicWriteFile(folder_.Path("a.jsonl"), lines).ok());
    FinetuningOptions options{.paths = {folder_.Path("a.jsonl")}, .max_seq_len = max_seq_len};
    options.turn_begin = "<{role}>";
    options.turn_end = ";";
    return *OpenFinetuning(options, std::make_shared<const ByteTokenizer>(eos));
  }
  // What is learned, as text; `_` for what is not.
  static std::string Learned(const Sample& sample) {
    std::string text;
    for (const int64_t id : ValuesOf(sample.tensors.at("targets")))
      text += id == -100 ? '_' : id > 255 ? '$' : static_cast<char>(id);
    return text;
  }
  TempDir folder_;
};

TEST_F(FinetuningTest, LearnsResponsesOnly) {
  const auto source = Open("{\"prompt\": \"ab\", \"response\": \"cde\"}\n", true);
  EXPECT_EQ(Learned(source->Get(0)), "_cde$");
  EXPECT_EQ(source->Get(0).tensors.at("inputs").size(0), 5);
}

TEST_F(FinetuningTest, LearnsWhatTheAssistantSays) {
  const auto source = Open(
      "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \"yo\"},"
      " {\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"a\"}]}\n",
      true);
  // <user>hi;<assistant>yo;<user>q;<assistant>a;$
  EXPECT_EQ(Learned(source->Get(0)), "___________________yo;___________________a;$");
}

class ChatFinetuningTest : public FinetuningTest {
 protected:
  absl::StatusOr<std::shared_ptr<const SampleSource>> OpenChat(const std::string& text, const std::string& lines) {
    EXPECT_TRUE(AtomicWriteFile(folder_.Path("a.jsonl"), lines).ok());
    EXPECT_TRUE(AtomicWriteFile(folder_.Path("chat.jinja"), text).ok());
    FinetuningOptions options{.paths = {folder_.Path("a.jsonl")}, .chat_template = folder_.Path("chat.jinja")};
    return OpenFinetuning(options, std::make_shared<const ByteTokenizer>(/*eos=*/true));
  }
  const std::string chat_ =
      "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \"yo\"},"
      " {\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"a\"}]}\n";
};

TEST_F(ChatFinetuningTest, LearnsWhatTheAssistantAddsToTheTemplatesText) {
  const auto source = OpenChat(
      "^{% for m in messages %}<{{ m.role }}>{{ m.content }};{% endfor %}{% if add_generation_prompt %}<assistant>{% "
      "endif %}",
      chat_ + "{\"prompt\": \"ab\", \"response\": \"c\"}\n");
  ASSERT_TRUE(source.ok()) << source.status();
  // ^<user>hi;<assistant>yo;<user>q;<assistant>a;
  EXPECT_EQ(Learned((*source)->Get(0)), "____________________yo;___________________a;") << "and no token more";
  EXPECT_EQ(Learned((*source)->Get(1)), "____________________c;");
}

TEST_F(ChatFinetuningTest, WhatDoesNotFitIsNamed) {
  EXPECT_THAT(OpenChat("{% macro x() %}{% endmacro %}", chat_).status().message(),
              HasSubstr("chat_template: line 1: `macro` is not supported"));
  const auto refusing = OpenChat("{{ raise_exception('no ' ~ messages[0].role) }}", chat_);
  EXPECT_THAT(ErrorText([&] { (*refusing)->Get(0); }), HasSubstr("the template refuses this: no user"));
  const auto changing = OpenChat("{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}", chat_);
  EXPECT_THAT(ErrorText([&] { (*changing)->Get(0); }), HasSubstr("what is learned cannot be determined"));
  FinetuningOptions options{.paths = {folder_.Path("a.jsonl")}, .chat_template = folder_.path()};
  EXPECT_THAT(OpenFinetuning(options, std::make_shared<const ByteTokenizer>(true)).status().message(),
              HasSubstr("neither chat_template.jinja nor"));
}

TEST_F(FinetuningTest, LongPromptsAreCutAtTheirBeginning) {
  const std::string line = "{\"prompt\": \"abcdefgh\", \"response\": \"wxyz\"}\n";
  EXPECT_EQ(Learned(Open(line, false, 6)->Get(0)), "__wxyz");
  EXPECT_EQ(ValuesOf(Open(line, false, 6)->Get(0).tensors.at("inputs"))[0], 'f');
  EXPECT_EQ(Learned(Open(line, false, 2)->Get(0)), "wx") << "then the response at its end";
}

TEST_F(FinetuningTest, BadLinesAreNamed) {
  const auto source =
      Open("[]\n{\"prompt\": \"a\"}\n{\"prompt\": \"a\", \"response\": \"\"}\n{\"messages\": 3}\n", false);
  EXPECT_THAT(ErrorText([&] { source->Get(0); }), HasSubstr("a.jsonl, at byte 0: this line is not a JSON object"));
  EXPECT_THAT(ErrorText([&] { source->Get(1); }), HasSubstr("at byte 3: there is no text `response`"));
  EXPECT_THAT(ErrorText([&] { source->Get(2); }), HasSubstr("nothing to learn"));
  EXPECT_THAT(ErrorText([&] { source->Get(3); }), HasSubstr("`messages` is not a list"));
  EXPECT_THAT(std::string(OpenFinetuning({.paths = {folder_.Path("a.jsonl")}}, nullptr).status().message()),
              HasSubstr("needs a tokenizer"));
}

TEST(LengthBuckets, LikeLengthsComeTogetherAndEachSampleOnce) {
  const auto source = WithLengthBuckets(std::make_shared<NumberRows>(1000, 0), {.window = 280, .size = 8});
  const auto order = source->OwnOrder(RequestFor(*source));
  std::vector<int64_t> ids(1000), again(1000);
  order->Read(2, 0, absl::MakeSpan(ids));
  int64_t padding = 0, tokens = 0;
  for (size_t begin = 0; begin < 1000; begin += 8) {
    int64_t longest = 0;
    for (size_t i = begin; i < begin + 8; ++i) longest = std::max(longest, ids[i] % 7 + 1);
    for (size_t i = begin; i < begin + 8; ++i) {
      padding += longest - (ids[i] % 7 + 1);
      tokens += ids[i] % 7 + 1;
    }
  }
  EXPECT_LT(padding * 20, tokens) << "without buckets more than half as many";
  for (int64_t at = 990; at >= 0; at -= 10)
    source->OwnOrder(RequestFor(*source))->Read(2, at, absl::MakeSpan(again).subspan(static_cast<size_t>(at), 10));
  EXPECT_EQ(again, ids) << "from any place on";
  std::sort(ids.begin(), ids.end());
  for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(ids[static_cast<size_t>(i)], i);
}

}  // namespace
}  // namespace composer
