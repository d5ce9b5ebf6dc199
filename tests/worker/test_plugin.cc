// The plugin that plugin_test.cc loads. kMode, which the test overwrites in copies of the file, selects what it does
// wrong.
// SPDX-License-Identifier: Apache-2.0
#include <composer/composer.h>
#include <torch/torch.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "storage/memory_store.h"

namespace {

using namespace composer;  // NOLINT: a program of its own

const volatile char kMode[] = "TEST_PLUGIN_MODE=good         ";

bool ModeIs(absl::string_view mode) {
  std::string text;
  for (size_t i = 17; i + 1 < sizeof(kMode); ++i) text += kMode[i];
  return text.substr(0, text.find(' ')) == mode;
}

// Leaves a file behind when the library is loaded at all.
struct Witness {
  Witness() {
    if (const char* path = std::getenv("TEST_PLUGIN_WITNESS")) std::ofstream(path) << "loaded\n";
  }
} witness;

// outputs = inputs * slope, with the mean square as loss.
class Slope final : public Model {
 public:
  explicit Slope(double start) : slope_(register_parameter("slope", torch::full({1}, start))) {}
  Outputs forward(const Batch& batch) override { return batch.inputs * slope_; }
  Loss loss(const Outputs& outputs, const Batch& batch) override { return torch::mse_loss(outputs, batch.targets); }
  MetricList metrics(bool is_train) const override { return {}; }

 private:
  at::Tensor slope_;
};

// Layers of the plugin's own, which the built-in algorithms do not know.
class Gain final : public torch::nn::Module, public Layer {
 public:
  at::Tensor forward(const at::Tensor& x) override { return x * factor_; }

 private:
  at::Tensor factor_ = register_parameter("factor", torch::zeros({1}));
};

class SteadyGain final : public torch::nn::Module, public Layer {
 public:
  explicit SteadyGain(std::shared_ptr<torch::nn::Module> gain) : gain_(*this, "gain", std::move(gain)) {}
  at::Tensor forward(const at::Tensor& x) override { return gain_->forward(x) + x; }

 private:
  Slot<Layer> gain_;
};

// outputs = gain(inputs).
class Gains final : public Model {
 public:
  Outputs forward(const Batch& batch) override { return gain_->forward(batch.inputs); }
  Loss loss(const Outputs& outputs, const Batch& batch) override { return torch::mse_loss(outputs, batch.targets); }
  MetricList metrics(bool is_train) const override { return {}; }

 private:
  Slot<Layer> gain_{*this, "gain", std::make_shared<Gain>()};
};

LayerPolicy SteadyGains(std::string algorithm, std::string name = "steady_gain") {
  return MakeLayerPolicy<Gain, SteadyGain>(
      std::move(algorithm), std::move(name),
      [](const std::string&, const std::shared_ptr<Gain>& gain) { return std::make_shared<SteadyGain>(gain); });
}

// Trains like Slope, and generates the alphabet in capitals.
class Alphabet final : public Model, public CausalDecoder {
 public:
  Alphabet() : slope_(register_parameter("slope", torch::zeros({1}))) {}
  Outputs forward(const Batch& batch) override { return batch.inputs * slope_; }
  Loss loss(const Outputs& outputs, const Batch& batch) override { return torch::mse_loss(outputs, batch.targets); }
  MetricList metrics(bool is_train) const override { return {}; }
  int64_t context() const override { return 30; }
  int64_t vocab() const override { return 256; }
  at::Tensor NextLogits(const at::Tensor& tokens, absl::Span<const int64_t> lengths, DecoderCache* cache) override {
    return torch::one_hot(LastOfEachRow(tokens.unsqueeze(2), lengths).squeeze(1) + 1, 256).to(torch::kFloat);
  }
  std::string Decode(absl::Span<const int64_t> tokens) const override {
    std::string text = CausalDecoder::Decode(tokens);
    for (char& letter : text) letter = static_cast<char>(std::toupper(letter));
    return text;
  }

 private:
  at::Tensor slope_;
};

// Points of y = slope x.
class Points final : public Dataset {
 public:
  Points(int64_t size, double slope) : size_(size), slope_(slope) {}
  int64_t size() const override { return size_; }
  Batch Load(absl::Span<const int64_t> indices) const override {
    Batch batch;
    batch.num_samples = static_cast<int64_t>(indices.size());
    batch.inputs = torch::empty({batch.num_samples, 1});
    for (int64_t i = 0; i < batch.num_samples; ++i) batch.inputs[i][0] = 1.0 + static_cast<double>(indices[i] % 3);
    batch.targets = batch.inputs * slope_;
    return batch;
  }

 private:
  int64_t size_;
  double slope_;
};

class PlainSgd final : public Optimizer {
 public:
  using Optimizer::Optimizer;
  std::string name() const override { return "PlainSgd"; }
  void Step() override {
    const torch::NoGradGuard no_grad;
    for (ParamGroup& group : groups()) {
      for (at::Tensor& param : group.params)
        if (param.grad().defined()) param.add_(param.grad(), -group.lr);
    }
  }
  NamedTensors state() override { return {}; }
};

class Half final : public Scheduler {
 public:
  double Factor(const Timestamp&, const ScheduleContext&) const override { return 0.5; }
};

class EndsEarly final : public Callback {
 public:
  explicit EndsEarly(Time when) : when_(when) {}
  std::string name() const override { return "EndsEarly"; }
  EventSet events() const override { return {Event::kBatchEnd}; }
  absl::Status Run(Event, State& state, Logger& logger) override {
    logger.Log("test/batches", static_cast<double>(state.timestamp.batch));
    if (state.timestamp.batch >= when_.count()) state.StopTraining();
    return absl::OkStatus();
  }

 private:
  Time when_;
};

// Writes the names of the events that it sees into the run's folder, and keeps one file there.
class Watcher final : public LoggerDestination {
 public:
  explicit Watcher(std::string folder) : folder_(std::move(folder)) {}
  std::string name() const override { return "Watcher"; }
  absl::Status Write(const MetricRecord&) override { return absl::OkStatus(); }
  EventSet events() const override { return {Event::kFitStart, Event::kEpochEnd, Event::kFitEnd}; }
  absl::Status See(Event event, const State& state) override {
    std::ofstream(folder_ + "/seen", std::ios::app) << EventName(event) << " " << state.timestamp.batch << "\n";
    return absl::OkStatus();
  }
  absl::Status TakeFile(absl::string_view, const std::string& path) override {
    std::ofstream(folder_ + "/kept") << std::ifstream(path).rdbuf();
    return absl::OkStatus();
  }
  absl::Status FetchFile(absl::string_view, const std::string& path) override {
    std::ofstream(path) << std::ifstream(folder_ + "/kept").rdbuf();
    return absl::OkStatus();
  }

 private:
  std::string folder_;
};

class Doubles final : public Algorithm {
 public:
  std::string name() const override { return "Doubles"; }
  bool Match(Event event, const State&) const override { return event == Event::kBeforeForward; }
  absl::Status Apply(Event, State& state, Logger&) override {
    state.batch.inputs = state.batch.inputs * 2;
    return absl::OkStatus();
  }
};

// Places that begin with shelf://, in memory.
absl::StatusOr<std::shared_ptr<ObjectStore>> OpenShelf(const std::string& /*place*/) {
  static const auto shelf = std::make_shared<MemoryStore>();
  return shelf;
}

// Gives 1, 2 and 3 in turn as `x`, and 3 x as targets, as many as a store's object has bytes.
class Counted final : public SampleSource {
 public:
  explicit Counted(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  Sample Get(int64_t index) const override {
    Sample sample;
    sample.tensors["x"] = torch::full({1}, 1.0 + static_cast<double>(index % 3));
    sample.tensors["targets"] = sample.tensors["x"] * 3;
    return sample;
  }

 private:
  int64_t size_;
};

class Times final : public SampleTransform {
 public:
  explicit Times(double factor) : factor_(factor) {}
  void Apply(Sample& sample, SampleRandom&) const override { sample.tensors.at("x").mul_(factor_); }

 private:
  double factor_;
};

// Makes `x` the inputs.
class XFirst final : public Collator {
 public:
  Batch Collate(std::vector<Sample> samples) const override {
    for (Sample& sample : samples) sample.tensors["inputs"] = sample.tensors.extract("x").mapped();
    return StackCollator().Collate(std::move(samples));
  }
};

class Backwards final : public SampleOrder {
 public:
  explicit Backwards(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  void Read(int64_t, int64_t begin, absl::Span<int64_t> ids) const override {
    for (int64_t& id : ids) id = size_ - ++begin;
  }

 private:
  int64_t size_;
};

void RegisterData(PluginRegistry& registry) {
  registry.AddStore("shelf", OpenShelf);
  registry.AddSource("counted", [](PluginConfig& config) -> SourceFactory {
    return [place = config.String("place")](
               const DataContext& context) -> absl::StatusOr<std::shared_ptr<const SampleSource>> {
      const absl::StatusOr<std::shared_ptr<ObjectStore>> store = context.open_store(place);
      if (!store.ok()) return store.status();
      const absl::StatusOr<int64_t> size = (*store)->Size("size");
      if (!size.ok()) return size.status();
      return std::make_shared<Counted>(*size * context.world_size);
    };
  });
  registry.AddTransform("times", [](PluginConfig& config) -> TransformFactory {
    const double factor = config.RequiredDouble("factor");
    return [=](const DataContext&) { return std::make_shared<Times>(factor); };
  });
  registry.AddCollator("x_first", [](PluginConfig&) -> CollatorFactory {
    return [](const DataContext&) { return std::make_shared<XFirst>(); };
  });
  registry.AddOrder("backwards", [](PluginConfig&) -> OrderFactory {
    return [](const OrderRequest& request) { return std::make_shared<Backwards>(request.size); };
  });
}

void RegisterAll(PluginRegistry& registry) {
  RegisterData(registry);
  registry.AddModel("slope", [](PluginConfig& config) {
    const double start = config.Double("start", 0, {.min = -10, .max = 10});
    return [=] { return std::make_shared<Slope>(start); };
  });
  registry.AddModel("alphabet", [](PluginConfig&) { return [] { return std::make_shared<Alphabet>(); }; });
  registry.AddModel("gains", [](PluginConfig&) { return [] { return std::make_shared<Gains>(); }; });
  registry.AddLayerPolicy(SteadyGains("squeeze_excite"));
  registry.AddModel("no_model", [](PluginConfig&) { return [] { return std::shared_ptr<Model>(); }; });
  registry.AddModel("bad_model", [](PluginConfig&) {
    return []() -> std::shared_ptr<Model> { TORCH_CHECK_VALUE(false, "sizes do not fit"); };
  });
  registry.AddModel("bad_reader", [](PluginConfig&) -> ModelFactory { throw std::runtime_error("no luck"); });
  registry.AddModel("no_factory", [](PluginConfig&) { return ModelFactory(); });
  registry.AddDataset("points", [](PluginConfig& config) {
    const int64_t size = config.Int("size", 32, {.min = 1});
    const double slope = config.RequiredDouble("slope");
    return [=] { return std::make_shared<Points>(size, slope); };
  });
  registry.AddDataset("no_data", [](PluginConfig&) -> DatasetFactory {
    return []() -> absl::StatusOr<std::shared_ptr<const Dataset>> { return absl::NotFoundError("/data/x"); };
  });
  registry.AddOptimizer("plain_sgd", [](PluginConfig& config) {
    const double lr = config.Double("lr", 0.1, {.min = 0});
    return [=](Model& model) {
      NamedTensors parameters;
      for (const auto& item : model.named_parameters()) parameters.emplace_back(item.key(), item.value());
      return std::make_unique<PlainSgd>(MakeParamGroups(parameters, {.lr = lr}).value());
    };
  });
  registry.AddScheduler("half", [](PluginConfig&) { return [] { return std::make_unique<Half>(); }; });
  registry.AddCallback("ends_early", [](PluginConfig& config) {
    const Time when = config.Time("when", "3ba");
    return [=] { return std::make_unique<EndsEarly>(when); };
  });
  registry.AddLogger("watcher", [](PluginConfig&) -> PluginLoggerFactory {
    return [](const RunPlace& place) { return std::make_unique<Watcher>(place.run_folder); };
  });
  registry.AddAlgorithm("doubles", [](PluginConfig&) { return [] { return std::make_unique<Doubles>(); }; });
}

}  // namespace

COMPOSER_PLUGIN(test_plugin, registry) {
  if (ModeIs("throws")) throw std::runtime_error("no configuration");
  if (ModeIs("throws_int")) throw 7;
  if (ModeIs("nothing")) return;
  RegisterAll(registry);
  if (ModeIs("twice"))
    registry.AddScheduler("half", [](PluginConfig&) { return [] { return std::make_unique<Half>(); }; });
  if (ModeIs("clash")) registry.AddModel("mlp", [](PluginConfig&) { return ModelFactory(); });
  if (ModeIs("same_data")) registry.AddSource("points", [](PluginConfig&) { return SourceFactory(); });
  if (ModeIs("store_clash")) registry.AddStore("s3", OpenShelf);
  if (ModeIs("bad_name")) registry.AddModel("my model", [](PluginConfig&) { return ModelFactory(); });
  if (ModeIs("same_policy")) registry.AddLayerPolicy(SteadyGains("squeeze_excite"));
  if (ModeIs("empty_policy")) registry.AddLayerPolicy({"squeeze_excite", "empty", nullptr, nullptr});
  if (ModeIs("lost_policy")) registry.AddLayerPolicy(SteadyGains("squeeze_exite"));
  if (ModeIs("no_reader")) registry.AddModel("empty", nullptr);
}
