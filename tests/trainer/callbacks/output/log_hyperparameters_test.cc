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

TEST_F(LogHyperparametersTest, NamesTheAlgorithmsOfTheRun) {
  class Named final : public Algorithm {
   public:
    std::string name() const override { return "MixUp"; }
    bool Match(Event, const State&) const override { return false; }
    absl::Status Apply(Event, State&, Logger&) override { return absl::OkStatus(); }
  };
  Record();
  state_.algorithms.push_back(std::make_unique<Named>());
  LogHyperparameters callback({{"a", std::string("1")}});
  ASSERT_TRUE(Fire(callback, Event::kInit).ok());
  EXPECT_EQ(history_.hyperparameters, (Hyperparameters{{"a", "1"}, {"enabled_algorithms/MixUp", "true"}}));
}

}  // namespace
}  // namespace composer
