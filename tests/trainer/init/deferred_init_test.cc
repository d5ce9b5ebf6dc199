// SPDX-License-Identifier: Apache-2.0
#include "trainer/init/deferred_init.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "trainer/init/deferred_ops.h"
#include "trainer/layers/undeferred_scope.h"

namespace composer {
namespace {

// A module whose constructor is given by the test.
class Built final : public torch::nn::Module {
 public:
  explicit Built(const std::function<void(Built&)>& fn) { fn(*this); }
  at::Tensor member;
  std::vector<at::Tensor> members;
};
using Constructor = std::function<void(Built&)>;

struct BuiltModel {
  std::shared_ptr<Built> module;
  std::unique_ptr<DeferredInit> init;
};

BuiltModel Build(const Constructor& fn, uint64_t seed = 1) {
  BuiltModel model{nullptr, std::make_unique<DeferredInit>(seed)};
  model.init->Build([&]() -> torch::nn::Module& { return *(model.module = std::make_shared<Built>(fn)); });
  return model;
}

std::map<std::string, at::Tensor> Filled(const Constructor& fn, uint64_t seed = 1) {
  const BuiltModel model = Build(fn, seed);
  model.init->FillAll();
  std::map<std::string, at::Tensor> result;
  for (const auto& item : model.module->named_parameters()) result[item.key()] = item.value();
  for (const auto& item : model.module->named_buffers()) result[item.key()] = item.value();
  return result;
}

std::string WhyNot(const Constructor& fn) {
  try {
    Build(fn);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

void TwoLayers(Built& m) {
  m.register_module("a", torch::nn::Linear(30, 20));
  m.register_module("b", torch::nn::Linear(20, 30));
  m.register_module("norm", torch::nn::BatchNorm1d(30));
}

TEST(DeferredInit, ParametersHaveNoMemoryUntilTheyAreFilled) {
  const BuiltModel model = Build(TwoLayers);
  for (const at::Tensor& param : model.module->parameters()) {
    EXPECT_TRUE(param.is_meta() && param.requires_grad() && param.is_leaf());
    EXPECT_TRUE(model.init->IsDeferred(param));
    EXPECT_EQ(model.init->BytesFor(param), param.nbytes());
  }
  const at::Tensor object = model.module->parameters()[0];
  model.init->FillAll();
  for (const at::Tensor& param : model.module->parameters()) {
    EXPECT_TRUE(param.is_cpu() && param.requires_grad() && param.is_leaf());
    EXPECT_FALSE(model.init->IsDeferred(param));
  }
  EXPECT_TRUE(object.is_same(model.module->parameters()[0])) << "whoever holds a parameter goes on holding it";
  EXPECT_TRUE(object.is_cpu());
  object.sum().backward();
  EXPECT_TRUE(object.grad().defined());
}

TEST(DeferredInit, ValuesAreOfTheConstructorsDistribution) {
  const auto filled = Filled([](Built& m) {
    m.register_module("linear", torch::nn::Linear(100, 2000));
    const torch::NoGradGuard no_grad;
    m.register_parameter("normal", torch::empty({100, 1000})).normal_(3, 0.5);
    m.register_parameter("scaled", torch::randn({100, 1000}) * 0.25);
    m.register_parameter("untouched", torch::empty({100}));
  });
  const double bound = 1 / std::sqrt(100.0);  // torch::nn::Linear
  EXPECT_NEAR(filled.at("linear.weight").abs().max().item<double>(), bound, bound * 0.01);
  EXPECT_NEAR(filled.at("linear.weight").std().item<double>(), bound / std::sqrt(3.0), bound * 0.01);
  EXPECT_NEAR(filled.at("normal").mean().item<double>(), 3, 0.01);
  EXPECT_NEAR(filled.at("normal").std().item<double>(), 0.5, 0.01);
  EXPECT_NEAR(filled.at("scaled").std().item<double>(), 0.25, 0.005);
  EXPECT_EQ(filled.at("untouched").abs().sum().item<double>(), 0) << "the same on all ranks";
}

TEST(DeferredInit, AValueDependsOnSeedAndNameAlone) {
  const auto first = Filled(TwoLayers);
  const BuiltModel model = Build(TwoLayers);
  torch::manual_seed(77);
  for (const char* name : {"b.weight", "a.bias", "a.weight", "b.bias"}) {
    EXPECT_TRUE(model.init->Values(model.module->named_parameters()[name]).equal(first.at(name))) << name;
  }
  const auto larger = Filled([](Built& m) {
    m.register_module("before", torch::nn::Linear(3, 3));
    TwoLayers(m);
  });
  EXPECT_TRUE(larger.at("b.weight").equal(first.at("b.weight")));
  EXPECT_FALSE(Filled(TwoLayers, 2).at("a.weight").equal(first.at("a.weight")));
  EXPECT_FALSE(first.at("a.weight").flatten().equal(first.at("b.weight").flatten()));
  EXPECT_FALSE(first.at("a.weight").narrow(0, 0, 1).flatten().equal(first.at("b.bias")));
}

TEST(DeferredInit, TorchsGeneratorIsLeftAlone) {
  torch::manual_seed(5);
  const at::Tensor expected = torch::rand({4});
  torch::manual_seed(5);
  const auto filled = Filled([](Built& m) {
    m.register_parameter("drawn", torch::randn({50}));  // an operation without a generator
    m.register_parameter("dropped", torch::dropout(torch::ones({50}), 0.5, true));
    m.register_module("linear", torch::nn::Linear(5, 5));
  });
  EXPECT_TRUE(torch::rand({4}).equal(expected));
  EXPECT_TRUE(Filled([](Built& m) { m.register_parameter("drawn", torch::randn({50})); })
                  .at("drawn")
                  .equal(filled.at("drawn")));
}

// Everything that draws no random numbers has the values that it has without deferral.
TEST(DeferredInit, ConstructorsMayDoWhatTheyDo) {
  const Constructor fn = [](Built& m) {
    const torch::NoGradGuard no_grad;
    const at::Tensor w = m.register_parameter("w", torch::empty({4, 6}));
    w.fill_(1);
    w.slice(0, 1, 3).mul_(3);                                // through a view
    w.select(1, 2).copy_(torch::arange(4, torch::kFloat));   // from another tensor
    w.t()[5].add_(torch::tensor({1.0F, 2.0F, 3.0F, 4.0F}));  // of literals
    w.view(-1).narrow(0, 0, 2).copy_(torch::tensor(std::vector<float>{8, 9}));
    m.register_parameter("sum", torch::stack({w[0], w[1]}).sum(0) * w[3]);
    m.register_parameter("eye", torch::eye(3).to(torch::kBFloat16));
    m.register_parameter("fixed", torch::full({3}, 2.5), /*requires_grad=*/false);
    m.register_parameter("halves", torch::ones({8}).chunk(2)[1]);
    m.register_buffer("mask", torch::ones({5, 5}, torch::kBool).tril());
    m.register_buffer("count", torch::tensor(7, torch::kLong));
    m.register_buffer("mean", torch::tensor({{0.5, 0.25}, {1.0, 2.0}}));
    for (const at::Tensor& rate : torch::linspace(0, 1, 3).unbind())
      m.register_buffer("rate" + std::to_string(m.buffers().size()), torch::ones({2}) * rate.item<double>());
    m.to(torch::kDouble);  // replaces the data of every parameter
    w.div_(2);
  };
  const auto filled = Filled(fn);
  const Built eager(fn);
  const auto expect = [&](const std::string& name, const at::Tensor& tensor) {
    ASSERT_EQ(filled.count(name), 1) << name;
    EXPECT_EQ(filled.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_EQ(filled.at(name).requires_grad(), tensor.requires_grad()) << name;
    EXPECT_TRUE(filled.at(name).equal(tensor)) << name << "\n" << filled.at(name) << tensor;
  };
  for (const auto& item : eager.named_parameters()) expect(item.key(), item.value());
  for (const auto& item : eager.named_buffers()) expect(item.key(), item.value());
}

TEST(DeferredInit, TiedParametersStayTied) {
  const BuiltModel model = Build([](Built& m) {
    torch::nn::Linear one(4, 4), two(4, 4), three(4, 4);
    two->weight = one->weight;
    two->register_parameter("weight2", one->weight);
    m.register_module("one", one);
    m.register_module("two", two);
    m.register_parameter("view", one->weight.detach().t());  // another object, the same memory
  });
  model.init->FillAll();
  const auto params = model.module->named_parameters();
  EXPECT_TRUE(params["one.weight"].is_same(params["two.weight2"]));
  EXPECT_TRUE(params["view"].is_alias_of(params["one.weight"]));
  EXPECT_TRUE(params["view"].equal(params["one.weight"].t()));
}

TEST(DeferredInit, ADrawThatTwoParametersNeedIsOne) {
  const auto filled = Filled([](Built& m) {
    const torch::NoGradGuard no_grad;
    const at::Tensor a = m.register_parameter("a", torch::empty({9})).normal_();
    m.register_parameter("b", a * 2);
    a.add_(1);
  });
  EXPECT_TRUE(((filled.at("a") - 1) * 2).allclose(filled.at("b")));
}

TEST(DeferredInit, MembersThatAreNotRegisteredHaveValues) {
  const BuiltModel model = Build([](Built& m) {
    m.member = torch::arange(6, torch::kFloat).view({2, 3}) / 2;
    m.members = {torch::randn({3}), torch::zeros({2})};
    TwoLayers(m);
  });
  EXPECT_TRUE(model.module->member.equal(torch::arange(6, torch::kFloat).view({2, 3}) / 2));
  EXPECT_TRUE(model.module->members[0].is_cpu());
  EXPECT_TRUE(model.module->parameters()[0].is_meta());
}

TEST(DeferredInit, ShapesMayBeFoundByADryRun) {
  const auto filled = Filled([](Built& m) {
    torch::nn::Conv2d conv(torch::nn::Conv2dOptions(3, 4, 3).stride(2));
    m.register_module("conv", conv);
    const int64_t features = conv->forward(torch::zeros({1, 3, 9, 9})).flatten(1).size(1);
    m.register_module("head", torch::nn::Linear(features, 2));
  });
  EXPECT_EQ(filled.at("head.weight").sizes(), at::IntArrayRef({2, 64}));
}

TEST(DeferredInit, SaysWhatCannotBeDeferred) {
  using testing::HasSubstr;
  EXPECT_THAT(WhyNot([](Built& m) { m.register_parameter("w", torch::zeros({2})).data_ptr<float>()[0] = 1; }),
              HasSubstr("its data is not allocated yet"));
  EXPECT_THAT(WhyNot([](Built& m) { m.register_parameter("w", torch::zeros({2})).accessor<float, 1>()[0] = 1; }),
              HasSubstr("its data is not allocated yet"));
  EXPECT_THAT(WhyNot([](Built& m) {
                if (torch::rand({1}).item<float>() < 2) TwoLayers(m);
              }),
              HasSubstr("asks for the value of random numbers (aten::rand)"));
  EXPECT_THAT(WhyNot([](Built& m) {
                at::Generator own = at::make_generator<at::CPUGeneratorImpl>(3);
                m.register_parameter("w", torch::empty({2})).data().normal_(0, 1, own);
              }),
              HasSubstr("generator of the caller's own"));
  EXPECT_THAT(WhyNot([](Built& m) {
                at::Tensor real = torch::tensor(std::vector<float>{1, 2});
                real.add_(torch::ones({2}));
              }),
              HasSubstr("aten::add_ writes values that do not exist yet"));
  const at::Tensor after = torch::zeros({2});
  EXPECT_TRUE(after.is_cpu()) << "nothing is deferred outside of the scope";
}

TEST(DeferredInit, UndeferredTensorsHaveMemoryAtOnce) {
  const BuiltModel model = Build([](Built& m) {
    const UndeferredScope real;
    m.register_module("real", torch::nn::Linear(2, 2));
  });
  EXPECT_TRUE(model.module->parameters()[0].is_cpu());
}

TEST(DeferredInit, FingerprintIsOfWhatDecidesValues) {
  const auto fingerprint = [](const Constructor& fn, uint64_t seed = 1) { return Build(fn, seed).init->Fingerprint(); };
  const auto with = [](float value, double deviation) {
    return [=](Built& m) {
      const at::Tensor outside = torch::tensor(std::vector<float>{value});
      m.register_parameter("w", (torch::empty({3}).normal_(0, deviation) + outside).detach());
    };
  };
  EXPECT_EQ(fingerprint(TwoLayers), fingerprint(TwoLayers));
  EXPECT_NE(fingerprint(TwoLayers), fingerprint(TwoLayers, 2));
  EXPECT_EQ(fingerprint(with(1, 1)), fingerprint(with(1, 1)));
  EXPECT_NE(fingerprint(with(1, 1)), fingerprint(with(2, 1)));
  EXPECT_NE(fingerprint(with(1, 1)), fingerprint(with(1, 2)));
}

}  // namespace
}  // namespace composer
