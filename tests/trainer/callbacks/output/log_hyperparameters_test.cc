// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/output/log_hyperparameters.h"

#include <gtest/gtest.h>

#include "tests/trainer/callbacks/callback_fixture.h"

namespace composer {
namespace {

using LogHyperparametersTest = CallbackTest;

TEST_F(LogHyperparametersTest, HandsThemOverOnceAtTheBeginningInTheirOrder) {
  Record();
  const Hyperparameters settings = {{"optimizers/lr", "0.001"}, {"a", "1"}};
  LogHyperparameters callback(settings);
  EXPECT_TRUE(callback.events().Has(Event::kInit));
  ASSERT_TRUE(Fire(callback, Event::kInit).ok());
  EXPECT_EQ(history_.hyperparameters, settings);
  EXPECT_EQ(history_.records, 0);
}

}  // namespace
}  // namespace composer
