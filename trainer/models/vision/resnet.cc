// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/vision/resnet.h"

#include <torch/types.h>

#include "trainer/models/classifier.h"
#include "trainer/models/vision/resnet_body.h"

namespace composer {
namespace {

class ResNet final : public Classifier {
 public:
  explicit ResNet(const ResNetOptions& options) {
    ConvMaker convs(options.image_size);
    body_ = ResNetBody(*this, options, convs);
    fc_ = Slot<Layer>(*this, "fc", std::make_shared<LinearLayer>(body_.channels(), options.classes));
    convs.Count(static_cast<double>(body_.channels() * options.classes));
    flops_per_sample_ = convs.flops();
  }

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override { return fc_->forward(body_.forward(inputs).mean({2, 3})); }

 private:
  ResNetBody body_;
  Slot<Layer> fc_;
};

}  // namespace

std::shared_ptr<Model> MakeResNet(const ResNetOptions& options) { return std::make_shared<ResNet>(options); }

}  // namespace composer
