// Every algorithm on models and batches that lack what it needs: pictures, a GPT, and a perceptron on 8 features. It is
// refused before the first step, or warns that it has no effect, by its name and with what it found; or it works.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/job/algorithms/algorithm_cases.h"
#include "tests/trainer/loop/small_run.h"

namespace composer {
namespace {

using testing::HasSubstr;

// What is said of the three, "" where it works.
struct Lacks {
  const char* features = "";
  const char* pictures = "";
  const char* gpt = "";
};

constexpr char kImages[] = "it takes images [B, C, H, W]", kBytes[] = "it changes images of bytes, one by one";

// Algorithms that are not here need nothing of a model and its data.
const std::map<std::string, Lacks>& Table() {
  static const auto& table = *new std::map<std::string, Lacks>{
      {"alibi",
       {"alibi: it needs attention (DotProductAttention) and an embedding of positions, `wpe` or "
        "`position_embeddings`; TestModel has 0 and 0",
        "PictureNet has 0 and 0"}},
      {"alternating_flip", {"it takes images [B, C, H, W], 8 of them; the inputs have shape [8, 8]", "", "[8, 8]"}},
      {"augmix", {kBytes, "", kBytes}},
      {"blurpool",
       {"TestModel has no strided convolution of at least 16 channels and no max pool", "", "Gpt has no strided"}},
      {"colout", {"it takes images [B, C, H, W]; the inputs have shape [8, 8]", "", kImages}},
      {"cutmix", {"it mixes images [B, C, H, W], with targets; the inputs have shape [8, 8]", "", "shape [8, 8]"}},
      {"cutout", {"it takes images [B, C, H, W]; the inputs have shape [8, 8]", "", kImages}},
      {"factorize", {"TestModel has no convolution of at least 16 channels and no linear layer of at least 12"}},
      {"gated_linear_units", {"TestModel has no feed-forward network with `fc`", "PictureNet has no feed-forward"}},
      {"ghost_batchnorm", {"TestModel has no batch norm", "", "Gpt has no batch norm"}},
      {"gyro_dropout", {"TestModel has no dropout layer", "", "it masks features [B, F], they have shape [8, 8, 16]"}},
      {"label_smoothing", {"", "", "label_smoothing: expected targets of the logits' shape [8, 8, 13]"}},
      {"logit_soft_cap",
       {"layer: lm_head is to be the one linear layer that makes the logits; TestModel has 0 of that name (its last "
        "one is `second`)",
        "PictureNet has 0 of that name (its last one is `last`)"}},
      {"lora", {"target_modules: the model has no layer `fc`", "the model has no layer `fc`"}},
      {"low_precision_groupnorm", {"TestModel has no group norm", "", "Gpt has no group norm"}},
      {"low_precision_layernorm", {"TestModel has no layer norm", "PictureNet has no layer norm"}},
      {"mixup", {"", "", "mixup: it mixes inputs that are floating point, with targets; these are Long"}},
      {"progressive_layer_dropping", {"it needs blocks (Block), and TestModel has none"}},
      {"progressive_resizing", {"it takes images [B, C, H, W]; the inputs have shape [8, 8]", "", kImages}},
      {"qk_norm",
       {"it needs attention (AttentionCore), and TestModel has none",
        "it needs attention (AttentionCore), and PictureNet has none"}},
      {"randaugment", {kBytes, "", kBytes}},
      {"relu_squared", {"replace: [gelu], but TestModel has no activations", "PictureNet has no activations"}},
      {"seq_length_warmup", {"it needs sequences [B, T], `targets` has shape [8]", "`targets` has shape [8]"}},
      {"squeeze_excite", {"TestModel has no convolution of at least 16", "", "Gpt has no convolution"}},
      {"stochastic_depth",
       {"TestModel has no residual block of kind ResNetBasicBlock", "", "Gpt has no residual block"}},
      {"value_embeddings",
       {"it needs a decoder with attention (AttentionCore) and one embedding of tokens, `wte` or `embed_tokens`; "
        "TestModel has 0 and 0",
        "PictureNet has 0 and 0"}},
      {"weight_standardization", {"TestModel has no convolution", "", "Gpt has no convolution"}},
      {"whitening_conv",
       {"layer: the first is to be one convolution (Conv2d); TestModel has no convolution", "",
        "Gpt has no convolution"}},
      {"zero_init", {"match no layer of TestModel with parameters", "match no layer of PictureNet with parameters"}},
  };
  return table;
}

TrainerOptions RunOn(const char* model, const AlgorithmCase& one) {
  if (absl::string_view(model) != "features")
    return CaseRun(absl::string_view(model) == "gpt" ? Workload::kGpt : Workload::kPictures, {one});
  TrainerOptions options = SmallRun();
  options.algorithms.push_back(MakeCase(one));
  return options;
}

void Expect(const AlgorithmCase& one, const char* model, const std::string& expected) {
  SCOPED_TRACE(absl::StrCat(one.name, " on ", model));
  TrainerOptions options = RunOn(model, one);
  options.max_duration = Time::Batches(2);
  const Warnings warnings;
  const RunResult result = Train(std::move(options));
  const std::string said = result.status.ok() ? warnings.text : std::string(result.status.message());
  if (expected.empty()) {
    EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(said, "");
    return;
  }
  EXPECT_THAT(said, HasSubstr(expected));
  EXPECT_TRUE(absl::StrContains(said, one.key) || absl::StrContains(said, MakeCase(one)->name())) << said;
  if (result.status.ok()) {
    EXPECT_THAT(said, HasSubstr("has no effect"));
  } else {
    EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(result.losses.empty()) << "refused after it had begun";
  }
}

TEST(AlgorithmAssumptions, EachNamesWhatItLacks) {
  size_t found = 0;
  for (const AlgorithmCase& one : AlgorithmCases()) {
    const auto row = Table().find(one.key);
    const Lacks lacks = row == Table().end() ? Lacks{} : row->second;
    if (row != Table().end() && one.name == one.key) ++found;
    Expect(one, "features", lacks.features);
    Expect(one, "pictures", lacks.pictures);
    Expect(one, "gpt", lacks.gpt);
  }
  EXPECT_EQ(found, Table().size()) << "a row without an algorithm";
}

}  // namespace
}  // namespace composer
