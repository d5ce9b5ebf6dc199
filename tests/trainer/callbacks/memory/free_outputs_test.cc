// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/memory/free_outputs.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/trainer/callbacks/callback_fixture.h"
#include "tests/trainer/callbacks/small_models.h"

namespace composer {
namespace {

using FreeOutputsTest = CallbackTest;

TEST_F(FreeOutputsTest, BackwardGoesOnWithoutThem) {
  LinearModel model;
  state_.batch.inputs = torch::ones({1, 2});
  state_.outputs = model.forward(state_.batch);
  state_.loss = state_.outputs->sum();
  const c10::weak_intrusive_ptr<at::TensorImpl> outputs(state_.outputs->getIntrusivePtr());
  FreeOutputs callback;
  EXPECT_TRUE(callback.events().Has(Event::kBeforeBackward));
  ASSERT_TRUE(Fire(callback, Event::kBeforeBackward).ok());
  EXPECT_FALSE(state_.outputs.defined());
  EXPECT_TRUE(outputs.expired());  // nobody else holds them, so the memory is free
  state_.loss.backward();
  EXPECT_TRUE(torch::equal(model.parameters()[0].grad(), torch::ones({2, 2})));
}

TEST_F(FreeOutputsTest, NoOutputsAreNoError) {
  FreeOutputs callback;
  EXPECT_TRUE(Fire(callback, Event::kBeforeBackward).ok());
}

}  // namespace
}  // namespace composer
