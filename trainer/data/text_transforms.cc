// SPDX-License-Identifier: Apache-2.0
#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "trainer/data/transforms.h"

namespace composer {
namespace {

constexpr int64_t kIgnored = -100;

std::string TakeText(Sample& sample, const std::string& key) {
  const auto found = sample.texts.find(key);
  TORCH_CHECK_VALUE(found != sample.texts.end(), "there is no text `", key, "`");
  std::string text = std::move(found->second);
  sample.texts.erase(found);
  return text;
}

// Returns the row of tokens under this key.
const at::Tensor& RowAt(const Sample& sample, const std::string& key) {
  const auto found = sample.tensors.find(key);
  TORCH_CHECK_VALUE(found != sample.tensors.end(), "there is no `", key, "`: tokenise the text first");
  const at::Tensor& row = found->second;
  TORCH_CHECK_VALUE(row.dim() == 1 && row.scalar_type() == at::kLong, "`", key, "` is not a row of tokens, but ",
                    row.sizes(), " of ", row.dtype());
  return row;
}

bool IsTokenRow(const at::Tensor& tensor) { return tensor.dim() == 1 && tensor.scalar_type() == at::kLong; }

template <typename Function>
class Transform final : public SampleTransform {
 public:
  explicit Transform(Function function) : function_(std::move(function)) {}
  void Apply(Sample& sample, SampleRandom& random) const override { function_(sample, random); }

 private:
  const Function function_;
};

template <typename Function>
SampleTransformPtr FromFunction(Function function) {
  return std::make_shared<const Transform<Function>>(std::move(function));
}

void CheckTokenizer(const std::shared_ptr<const Tokenizer>& tokenizer, const char* transform) {
  TORCH_CHECK_VALUE(tokenizer != nullptr, transform, ": needs a tokenizer: give the job `tokenizer`");
}

}  // namespace

SampleTransformPtr MakeRename(std::string from, std::string to) {
  return FromFunction([from = std::move(from), to = std::move(to)](Sample& sample, SampleRandom&) {
    if (auto tensor = sample.tensors.extract(from)) {
      sample.tensors[to] = std::move(tensor.mapped());
    } else {
      sample.texts[to] = TakeText(sample, from);
    }
  });
}

SampleTransformPtr MakeKeep(std::vector<std::string> keys) {
  return FromFunction([keys = std::move(keys)](Sample& sample, SampleRandom&) {
    for (const std::string& key : keys)
      TORCH_CHECK_VALUE(sample.tensors.count(key) + sample.texts.count(key) > 0, "there is no `", key, "`");
    const auto is_other = [&](const auto& item) {
      return std::find(keys.begin(), keys.end(), item.first) == keys.end();
    };
    std::erase_if(sample.tensors, is_other);
    std::erase_if(sample.texts, is_other);
  });
}

SampleTransformPtr MakeLabel(std::string key, std::vector<std::string> classes) {
  TORCH_CHECK_VALUE(!classes.empty(), "label: classes: at least one is needed");
  return FromFunction([key = std::move(key), classes = std::move(classes)](Sample& sample, SampleRandom&) {
    const std::string text = TakeText(sample, key);
    const auto found = std::find(classes.begin(), classes.end(), text);
    TORCH_CHECK_VALUE(found != classes.end(), "`", key, "` is `", text.substr(0, 100), "`, which is not among classes");
    sample.tensors["targets"] = torch::tensor(static_cast<int64_t>(found - classes.begin()));
  });
}

SampleTransformPtr MakeTokenize(std::shared_ptr<const Tokenizer> tokenizer, const TokenizeOptions& options) {
  CheckTokenizer(tokenizer, "tokenize");
  TORCH_CHECK_VALUE(!options.append_eos || tokenizer->special_tokens().eos, "tokenize: append_eos: the tokenizer ",
                    tokenizer->name(), " has no end-of-sequence token");
  TORCH_CHECK_VALUE(options.to_length == 0 || !options.append_eos, "tokenize: append_eos and to_length exclude each ",
                    "other: a text that is cut would lose its end");
  return FromFunction([tokenizer = std::move(tokenizer), options](Sample& sample, SampleRandom&) {
    if (options.to_length > 0) {
      const PaddingOptions padding = {
          .max_length = options.to_length, .to_max_length = true, .add_special_tokens = options.add_special_tokens};
      sample.tensors[options.to] = tokenizer->EncodeBatch({TakeText(sample, options.key)}, padding).inputs[0];
      return;
    }
    std::vector<int64_t> ids = tokenizer->Encode(TakeText(sample, options.key), options.add_special_tokens).ids;
    if (options.append_eos) ids.push_back(*tokenizer->special_tokens().eos);
    sample.tensors[options.to] = torch::tensor(ids, at::kLong);
  });
}

SampleTransformPtr MakeTruncate(int64_t max_length, bool keep_end) {
  TORCH_CHECK_VALUE(max_length > 0, "truncate: max_length: must be at least 1, got ", max_length);
  return FromFunction([max_length, keep_end](Sample& sample, SampleRandom&) {
    for (auto& [key, tensor] : sample.tensors) {
      if (!IsTokenRow(tensor) || tensor.size(0) <= max_length) continue;
      tensor = keep_end ? tensor.slice(0, tensor.size(0) - max_length) : tensor.slice(0, 0, max_length);
    }
  });
}

SampleTransformPtr MakeShift() {
  return FromFunction([](Sample& sample, SampleRandom&) {
    const at::Tensor ids = RowAt(sample, "inputs");
    const at::Tensor targets = sample.tensors.count("targets") > 0 ? RowAt(sample, "targets") : ids;
    const int64_t length = ids.size(0);
    TORCH_CHECK_VALUE(length >= 2, "shift: a row needs at least 2 tokens, this one has ", length);
    TORCH_CHECK_VALUE(targets.size(0) == length, "shift: `inputs` has ", length, " tokens, `targets` ",
                      targets.size(0));
    sample.tensors["inputs"] = ids.slice(0, 0, length - 1);
    sample.tensors["targets"] = targets.slice(0, 1);
  });
}

SampleTransformPtr MakePromptResponse(std::shared_ptr<const Tokenizer> tokenizer, std::string prompt_key,
                                      std::string response_key) {
  CheckTokenizer(tokenizer, "prompt_response");
  return FromFunction([tokenizer = std::move(tokenizer), prompt_key = std::move(prompt_key),
                       response_key = std::move(response_key)](Sample& sample, SampleRandom&) {
    std::vector<int64_t> ids = tokenizer->Encode(TakeText(sample, prompt_key)).ids;
    const auto eos = tokenizer->special_tokens().eos;
    if (eos && !ids.empty() && ids.back() == *eos) ids.pop_back();  // the text goes on
    std::vector<int64_t> targets(ids.size(), kIgnored);
    std::vector<int64_t> response = tokenizer->Encode(TakeText(sample, response_key), false).ids;
    if (eos) response.push_back(*eos);
    ids.insert(ids.end(), response.begin(), response.end());
    targets.insert(targets.end(), response.begin(), response.end());
    sample.tensors["inputs"] = torch::tensor(ids, at::kLong);
    sample.tensors["targets"] = torch::tensor(targets, at::kLong);
  });
}

SampleTransformPtr MakeMask(std::shared_ptr<const Tokenizer> tokenizer, double probability) {
  CheckTokenizer(tokenizer, "mask");
  TORCH_CHECK_VALUE(probability > 0 && probability < 1, "mask: probability: must be between 0 and 1, got ",
                    probability);
  const SpecialTokens& special = tokenizer->special_tokens();
  TORCH_CHECK_VALUE(special.mask, "mask: the tokenizer ", tokenizer->name(), " has no mask token");
  std::vector<int64_t> kept;  // tokens that are never chosen
  for (const auto& token : {special.bos, special.eos, special.pad, special.mask, special.cls, special.sep}) {
    if (token) kept.push_back(*token);
  }
  return FromFunction([mask = *special.mask, vocabulary = tokenizer->vocab_size(), kept = std::move(kept), probability](
                          Sample& sample, SampleRandom& random) {
    at::Tensor ids = RowAt(sample, "inputs").clone();
    at::Tensor targets = torch::full_like(ids, kIgnored);
    int64_t* id = ids.mutable_data_ptr<int64_t>();
    int64_t* target = targets.mutable_data_ptr<int64_t>();
    for (int64_t i = 0; i < ids.size(0); ++i) {
      const bool is_special = std::find(kept.begin(), kept.end(), id[i]) != kept.end();
      if (is_special || !random.Chance(probability)) continue;
      target[i] = id[i];
      const double how = random.Uniform();
      if (how < 0.9) id[i] = how < 0.8 ? mask : random.Below(vocabulary);
    }
    sample.tensors["inputs"] = ids;
    sample.tensors["targets"] = targets;
  });
}

}  // namespace composer
