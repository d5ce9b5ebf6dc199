// Tests that operators on the mock give the CPU's bits, whatever their arguments look like.
// SPDX-License-Identifier: Apache-2.0
#include <torch/cuda.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/optim/adamw.h>
#include <torch/serialize.h>

#include <functional>
#include <map>
#include <sstream>

#include "tests/support/accelerator/fixture.h"

namespace composer::mock {
namespace {

using Tensors = std::vector<at::Tensor>;

class MockTensors : public OnMock {};

Tensors Moved(const Tensors& tensors, at::Device device) {
  Tensors moved;
  for (const at::Tensor& tensor : tensors) moved.push_back(tensor.clone().to(device));
  return moved;
}

bool Same(const at::Tensor& cpu, const at::Tensor& mock) {
  return mock.is_cuda() && at::equal(cpu.nan_to_num(123), mock.cpu().nan_to_num(123));
}

struct Check {
  const char* name;
  std::function<Tensors(const Tensors&)> run;  // of a [4, 6], b [6, 5], i [4] integers below 6
};

const std::vector<Check>& Checks() {
  using T = const Tensors&;
  static const auto& checks = *new std::vector<Check>{
      {"sum", [](T t) { return Tensors{t[0] + t[0] * 2, t[0].sum(), t[0].mean(1, true)}; }},
      {"product", [](T t) { return Tensors{t[0].mm(t[1]), at::linear(t[0], t[1].t()), t[0].matmul(t[1])}; }},
      {"views", [](T t) { return Tensors{t[0].t().contiguous(), t[0].view({2, 12}), t[0].narrow(1, 1, 3).clone()}; }},
      {"in place on a view", [](T t) { return t[0].t().slice(0, 1, 4).mul_(3).add_(1), Tensors{t[0]}; }},
      {"masks", [](T t) { return Tensors{t[0].masked_fill(t[0] > 0, -1), t[0].index({t[0] > 0}), at::nonzero(t[0])}; }},
      {"indices", [](T t) { return Tensors{t[0].index_select(1, t[2]), t[0].gather(1, t[2].unsqueeze(1))}; }},
      {"put",
       [](T t) { return t[0].index_put_({t[2].remainder(4)}, at::ones({6}, t[0].options()), true), Tensors{t[0]}; }},
      {"sorts", [](T t) { return Tensors{std::get<1>(t[0].sort(1)), std::get<0>(t[0].topk(2))}; }},
      {"unique", [](T t) { return Tensors{std::get<0>(at::_unique2(t[2]))}; }},
      {"softmax", [](T t) { return Tensors{t[0].softmax(1), at::cross_entropy_loss(t[0], t[2])}; }},
      {"norms", [](T t) { return Tensors{at::layer_norm(t[0], {6}), t[0].norm(), t[0].std(0)}; }},
      {"foreach",
       [](T t) {
         Tensors list = {t[0], t[1]};
         at::_foreach_mul_(list, 2.0);
         at::_foreach_addcmul_(list, list, list, 0.5);
         for (const at::Tensor& norm : at::_foreach_norm(list)) list.push_back(norm);
         return list;
       }},
      {"out",
       [](T t) {
         at::Tensor out = at::empty({0}, t[0].options());
         at::mm_out(out, t[0], t[1]);
         return Tensors{out};
       }},
      {"types",
       [](T t) { return Tensors{t[0].to(at::kBFloat16), t[0].to(at::kLong), t[0].to(at::kHalf).to(at::kFloat)}; }},
      {"channels last",
       [](T t) { return Tensors{t[0].view({1, 2, 3, 4}).contiguous(at::MemoryFormat::ChannelsLast).mul(2).relu()}; }},
      {"concatenation",
       [](T t) { return Tensors{at::cat({t[0], t[0]}), at::stack({t[0], t[0]}, 1), t[0].chunk(2, 1)[1].clone()}; }},
      {"factories",
       [](T t) {
         return Tensors{
             at::arange(7, t[0].options()), at::arange(3, t[0].options()), at::full({2}, 4, t[0].options()),
             at::eye(3, t[0].options()),    at::zeros_like(t[0]),          at::linspace(0, 1, 5, t[0].options())};
       }},
      {"complex", [](T t) { return Tensors{at::view_as_real(at::fft_fft(t[0]).conj().mul(2).resolve_conj())}; }},
      {"batch norm",
       [](T t) {
         const at::Tensor mean = at::zeros({6}, t[0].options()), var = at::ones({6}, t[0].options());
         const at::Tensor y = at::batch_norm(t[0], {}, {}, mean, var, true, 0.1, 1e-5, false);
         return Tensors{y, mean, var};
       }},
      {"pooling", [](T t) { return Tensors{at::max_pool2d(t[0].view({1, 1, 4, 6}), 2), at::gelu(t[0])}; }},
      {"attention",
       [](T t) {
         const at::Tensor q = t[0].view({1, 2, 4, 3});
         return Tensors{at::scaled_dot_product_attention(q, q, q, {}, 0, true)};
       }},
      {"random numbers",
       [](T t) {
         torch::manual_seed(3);
         return Tensors{at::empty_like(t[0]).normal_(), at::rand({3}, t[0].options()), at::dropout(t[0], 0.4, true)};
       }},
      {"resize",
       [](T t) {
         at::Tensor grown = t[0].clone();
         grown.resize_({8, 6});
         return Tensors{grown.slice(0, 0, 4).clone()};
       }},
      {"autocast scale",
       [](T t) {
         Tensors grads = {t[0]};
         at::Tensor found = at::zeros({1}, t[0].options());
         at::_amp_foreach_non_finite_check_and_unscale_(grads, found, at::full({1}, 0.5, t[0].options()));
         return Tensors{t[0], found};
       }},
  };
  return checks;
}

Tensors Inputs() {
  torch::manual_seed(1);
  return {at::randn({4, 6}), at::randn({6, 5}), at::randint(6, {4}, at::kLong)};
}

// Twice: the first call of each operator runs before it returns, later ones are queued.
TEST_F(MockTensors, OperatorsGiveTheBitsOfTheCpu) {
  at::globalContext().setSDPUseFlash(false);
  for (int turn = 0; turn < 2; ++turn) {
    for (const Check& check : Checks()) {
      SCOPED_TRACE(check.name);
      const Tensors cpu = check.run(Moved(Inputs(), at::kCPU)), mock = check.run(Moved(Inputs(), kDevice));
      ASSERT_EQ(cpu.size(), mock.size());
      for (size_t i = 0; i < cpu.size(); ++i)
        EXPECT_TRUE(Same(cpu[i], mock[i])) << i << "\n" << cpu[i] << mock[i].cpu();
    }
  }
  at::globalContext().setSDPUseFlash(true);
}

TEST_F(MockTensors, TrainsAsTheCpuDoes) {
  const auto train = [](at::Device device) {
    torch::manual_seed(5);
    torch::nn::Sequential model(torch::nn::Linear(6, 8), torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})),
                                torch::nn::GELU(), torch::nn::Linear(8, 3));
    const at::Tensor x = at::randn({16, 6}), y = at::randint(3, {16}, at::kLong);
    model->to(device);
    torch::optim::AdamW optimizer(model->parameters(), 0.01);
    Tensors result;
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      const at::Tensor loss = at::cross_entropy_loss(model->forward(x.to(device)), y.to(device));
      loss.backward();
      optimizer.step();
      result.push_back(loss.detach());
    }
    for (const at::Tensor& param : model->parameters()) result.push_back(param.detach());
    return result;
  };
  const Tensors cpu = train(at::kCPU), mock = train(kDevice);
  for (size_t i = 0; i < cpu.size(); ++i) EXPECT_TRUE(Same(cpu[i], mock[i])) << i;
}

TEST_F(MockTensors, IsADevice) {
  EXPECT_TRUE(torch::cuda::is_available());
  EXPECT_EQ(torch::cuda::device_count(), static_cast<size_t>(kDevices));
  const at::Tensor a = at::ones({3}, kDevice), b = at::ones({3}, at::Device(at::kCUDA, 1));
  EXPECT_EQ(b.get_device(), 1);
  EXPECT_TRUE(a.to(b.device()).add(b).eq(2).all().item<bool>());
  EXPECT_THROW(a.add(b), c10::Error);
  EXPECT_THROW(a.add(at::ones({3})), c10::Error) << "a tensor of the host must be refused";
  EXPECT_EQ(a.add(at::scalar_tensor(2)).sum().item<float>(), 9);
}

TEST_F(MockTensors, SavesAndLoads) {
  const at::Tensor a = at::arange(5, at::TensorOptions(kDevice));
  std::stringstream file;
  torch::save(a, file);
  at::Tensor b;
  torch::load(b, file);
  EXPECT_TRUE(b.is_cuda());
  EXPECT_TRUE(b.equal(a));
}

TEST_F(MockTensors, FreedMemoryIsReusedAtOnceAndFilledWithNan) {
  at::Tensor a = at::zeros({256}, kDevice);
  const void* address = a.const_data_ptr();
  a.reset();
  const at::Tensor b = at::empty({256}, kDevice);
  EXPECT_EQ(b.const_data_ptr(), address);
  EXPECT_TRUE(b.isnan().all().item<bool>());
}

TEST_F(MockTensors, RunsOutOfMemoryAtTheLimit) {
  auto& allocator = MockDeviceAllocator::Get();
  allocator.emptyCache();
  const auto used = static_cast<size_t>(allocator.getDeviceStats(0).reserved_bytes[0].current);
  allocator.SetLimit(used + (3 << 20));
  at::Tensor a = at::empty({1 << 19}, kDevice);  // 2 MiB
  EXPECT_THROW(at::empty({1 << 19}, kDevice), c10::OutOfMemoryError);
  a.reset();
  EXPECT_NO_THROW(at::empty({700 << 10}, kDevice)) << "cached blocks are given back first";
}

TEST_F(MockTensors, AnErrorShowsAtTheNextWait) {
  const at::Tensor table = at::zeros({4, 2}, kDevice);
  const auto look_up = [&](int64_t row) {
    return table.index_select(0, at::full({1}, row, at::TensorOptions(kDevice).dtype(at::kLong)));
  };
  look_up(1);
  const at::Tensor wrong = look_up(9);  // its shapes are known, so it is queued
  EXPECT_THROW(torch::cuda::synchronize(0), c10::Error);
  EXPECT_NO_THROW(torch::cuda::synchronize(0));
}

}  // namespace
}  // namespace composer::mock
