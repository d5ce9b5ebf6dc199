// What the tests of exports export, and how they show it to Python.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/models/tiny_models.h"
#include "trainer/models/mlp.h"
#include "trainer/models/resnet_small.h"
#include "trainer/models/text/bert.h"
#include "trainer/models/text/gpt2.h"
#include "trainer/models/vision/resnet.h"

namespace composer {

struct Exported {
  const char* name;
  std::function<std::shared_ptr<Model>()> make;
  std::function<Batch(int64_t samples)> batch;
};

inline Batch Pictures(int64_t samples, int64_t channels, int64_t side) {
  Batch batch;
  batch.num_samples = samples;
  batch.inputs = torch::randn({samples, channels, side, side});
  return batch;
}

inline Batch Tokens(int64_t samples, int64_t length, int64_t vocab) {
  Batch batch;
  batch.num_samples = samples;
  batch.inputs = torch::randint(vocab, {samples, length}, at::kLong);
  return batch;
}

// Every second text ends one token earlier.
inline Batch MaskedTokens(int64_t samples) {
  Batch batch = Tokens(samples, 6, 30);
  batch.extra["attention_mask"] = torch::ones({samples, 6}, at::kLong);
  batch.extra["token_type_ids"] = torch::randint(2, {samples, 6}, at::kLong);
  batch.extra["attention_mask"].slice(0, 0, samples, 2).select(1, 5).zero_();
  return batch;
}

inline std::shared_ptr<Model> TinyBert() {
  BertOptions options;
  options.vocab_size = 30;
  options.hidden_size = 8;
  options.num_hidden_layers = 2;
  options.num_attention_heads = 2;
  options.intermediate_size = 16;
  options.max_position_embeddings = 8;
  return MakeBert(options);
}

// With means and variances that are not those of a new layer.
inline std::shared_ptr<Model> SmallResNet() {
  const auto model = MakeResNetSmall({});
  model->train();
  for (int i = 0; i < 2; ++i) model->forward(Pictures(4, 1, 8));
  return model;
}

inline const Exported kModels[] = {
    {"mlp", [] { return MakeMlp({12, 8, 3}); }, [](int64_t n) { return Pictures(n, 3, 2); }},
    {"resnet_small", SmallResNet, [](int64_t n) { return Pictures(n, 1, 8); }},
    {"resnet", [] { return MakeResNet({.depth = 18, .classes = 10, .width = 8}); },
     [](int64_t n) { return Pictures(n, 3, 16); }},
    {"gpt", [] { return TinyGpt(30, 8); }, [](int64_t n) { return Tokens(n, 8, 30); }},
    {"gpt2", [] { return MakeGpt2({.vocab_size = 30, .n_positions = 8, .n_embd = 8, .n_layer = 2, .n_head = 2}); },
     [](int64_t n) { return Tokens(n, 7, 30); }},
    {"bert", TinyBert, MaskedTokens},
    {"llama", [] { return TinyLlama(30, 8); }, [](int64_t n) { return Tokens(n, 8, 30); }},
};

class Folder {
 public:
  std::string Entry(const std::string& name, const at::Tensor& tensor) {
    const at::Tensor data = tensor.contiguous();
    const std::string file = absl::StrCat(name, ".bin");
    const absl::string_view bytes(static_cast<const char*>(data.const_data_ptr()), data.nbytes());
    EXPECT_TRUE(AtomicWriteFile(folder_.Path(file), bytes).ok());
    std::string shape;
    for (const int64_t size : data.sizes()) absl::StrAppend(&shape, shape.empty() ? "" : ",", size);
    return absl::StrCat(R"({"name": ")", name, R"(", "file": ")", file, R"(", "dtype": ")",
                        data.scalar_type() == at::kLong ? "int64" : "float32", R"(", "shape": [)", shape, "]}");
  }
  void Write(const std::string& name, const std::string& text) {
    EXPECT_TRUE(AtomicWriteFile(folder_.Path(name), text).ok());
  }
  // Writes spec.json with a batch and what the model makes of it.
  void WriteSpec(Model& model, const Batch& batch) {
    model.eval();
    const at::NoGradGuard no_grad;
    std::string inputs = Entry("inputs", batch.inputs);
    for (const auto& [name, tensor] : batch.extra) absl::StrAppend(&inputs, ", ", Entry(name, tensor));
    const std::string output = Entry("outputs", model.eval_forward(batch).tensor());
    Write("spec.json", absl::StrCat(R"({"inputs": [)", inputs, R"(], "output": )", output, "}"));
  }
  // Runs a script with the folder as its argument, and prints what it says; returns its exit status.
  int RunPython(const std::string& python, const std::string& script) {
    Write("check.py", script);
    const std::string said = path() + "/said";
    const int status =
        std::system(absl::StrCat(python, " ", path(), "/check.py ", path(), " >", said, " 2>&1").c_str());
    std::printf("%s", ReadFile(said)->c_str());
    return status;
  }
  const std::string& path() const { return folder_.path(); }

 private:
  TempDir folder_;
};

// A model whose forward is a function.
class Calls final : public Model {
 public:
  explicit Calls(std::function<at::Tensor(const at::Tensor&)> call) : call_(std::move(call)) {}
  Outputs forward(const Batch& batch) override { return call_(batch.inputs); }
  Loss loss(const Outputs& outputs, const Batch&) override { return outputs.tensor().sum(); }
  MetricList metrics(bool) const override { return {}; }

 private:
  std::function<at::Tensor(const at::Tensor&)> call_;
};

}  // namespace composer
