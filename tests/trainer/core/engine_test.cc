// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/engine.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

using Calls = std::vector<std::string>;

class Recorder final : public Callback {
 public:
  Recorder(std::string name, EventSet wanted, Calls* calls, absl::Status result = absl::OkStatus())
      : name_(std::move(name)), wanted_(wanted), calls_(calls), result_(std::move(result)) {}
  std::string name() const override { return name_; }
  EventSet events() const override { return wanted_; }
  absl::Status Run(Event event, State&, Logger&) override {
    calls_->push_back(name_ + ":" + std::string(EventName(event)));
    return result_;
  }

 private:
  std::string name_;
  EventSet wanted_;
  Calls* calls_;
  absl::Status result_;
};

class Tracer final : public Algorithm {
 public:
  Tracer(std::string name, Event event, Calls* calls) : name_(std::move(name)), event_(event), calls_(calls) {}
  std::string name() const override { return name_; }
  bool Match(Event event, const State&) const override { return event == event_ || event == Event::kInit; }
  absl::Status Apply(Event event, State&, Logger&) override {
    calls_->push_back(name_ + ":" + std::string(EventName(event)));
    return absl::OkStatus();
  }

 private:
  std::string name_;
  Event event_;
  Calls* calls_;
};

TEST(Engine, AlgorithmsComeFirstExceptAtInitAndInReverseAfter) {
  Calls calls;
  State state;
  Logger logger;
  state.algorithms.push_back(std::make_unique<Tracer>("A", Event::kAfterLoss, &calls));
  state.algorithms.push_back(std::make_unique<Tracer>("B", Event::kAfterLoss, &calls));
  state.callbacks.push_back(std::make_unique<Recorder>("C", EventSet::All(), &calls));
  Engine engine(state, logger);
  ASSERT_TRUE(engine.Run(Event::kInit).ok());
  ASSERT_TRUE(engine.Run(Event::kAfterLoss).ok());
  EXPECT_EQ(calls, (Calls{"C:init", "A:init", "B:init", "B:after_loss", "A:after_loss", "C:after_loss"}));
  ASSERT_EQ(engine.traces().size(), 4u);
  EXPECT_EQ(engine.traces()[2].algorithm, "B");
}

TEST(Engine, CallbacksGetOnlyWhatTheyAskedFor) {
  Calls calls;
  State state;
  Logger logger;
  state.callbacks.push_back(std::make_unique<Recorder>("C", EventSet{Event::kBatchEnd}, &calls));
  Engine engine(state, logger);
  ASSERT_TRUE(engine.Run(Event::kBatchStart).ok());
  ASSERT_TRUE(engine.Run(Event::kBatchEnd).ok());
  EXPECT_EQ(calls, Calls{"C:batch_end"});
}

TEST(Engine, AFailureNamesWhoAndWhen) {
  Calls calls;
  State state;
  Logger logger;
  state.callbacks.push_back(std::make_unique<Recorder>("NaNMonitor", EventSet{Event::kAfterLoss}, &calls,
                                                       absl::InternalError("loss is NaN")));
  Engine engine(state, logger);
  EXPECT_EQ(engine.Run(Event::kAfterLoss).message(), "callback NaNMonitor at after_loss: loss is NaN");
}

}  // namespace
}  // namespace composer
