// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "absl/strings/str_cat.h"

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
    calls_->push_back(absl::StrCat(name_, ":", EventName(event)));
    return result_;
  }
  absl::Status Close(State&, Logger&) override {
    calls_->push_back(name_ + ":close");
    if (name_ == "Throws") throw std::runtime_error("no");
    return result_;
  }
  absl::Status PostClose() override {
    calls_->push_back(name_ + ":post_close");
    return absl::InternalError("only logged");
  }

 private:
  std::string name_;
  EventSet wanted_;
  Calls* calls_;
  absl::Status result_;
};

// Applies at one event and at INIT.
class Marker final : public Algorithm {
 public:
  Marker(std::string name, Event event, Calls* calls) : name_(std::move(name)), event_(event), calls_(calls) {}
  std::string name() const override { return name_; }
  bool Match(Event event, const State&) const override { return event == event_ || event == Event::kInit; }
  absl::Status Apply(Event event, State&, Logger&) override {
    calls_->push_back(absl::StrCat(name_, ":", EventName(event)));
    return absl::OkStatus();
  }

 private:
  std::string name_;
  Event event_;
  Calls* calls_;
};

// Writes "(name" and ")" as spans begin and end.
class TextTracer final : public Tracer {
 public:
  Span Begin(const TraceName& name) override {
    absl::StrAppend(&text, "(", name.name);
    return ++last_;
  }
  void End(Span span) override {
    EXPECT_GT(span, 0u);
    text += ")";
  }
  void Instant(const TraceName& name) override {}
  void Counter(const TraceName& name, double value) override {}

  std::string text;

 private:
  Span last_ = 0;
};

TEST(Engine, AlgorithmsComeFirstExceptAtInitAndInReverseAfter) {
  Calls calls;
  State state;
  Logger logger;
  state.algorithms.push_back(std::make_unique<Marker>("A", Event::kAfterLoss, &calls));
  state.algorithms.push_back(std::make_unique<Marker>("B", Event::kAfterLoss, &calls));
  state.callbacks.push_back(std::make_unique<Recorder>("C", EventSet::All(), &calls));
  Engine engine(state, logger);
  ASSERT_TRUE(engine.Run(Event::kInit).ok());
  ASSERT_TRUE(engine.Run(Event::kAfterLoss).ok());
  EXPECT_EQ(calls, (Calls{"C:init", "A:init", "B:init", "B:after_loss", "A:after_loss", "C:after_loss"}));
}

TEST(Engine, TheUsersPassesAreRun) {
  Calls calls;
  State state;
  Logger logger;
  for (const char* name : {"A", "B", "C"})
    state.algorithms.push_back(std::make_unique<Marker>(name, Event::kBeforeLoss, &calls));
  const AlgorithmPass rotate = [](AlgorithmList list, Event) {
    std::rotate(list.begin(), list.begin() + 1, list.end());
    return list;
  };
  Engine engine(state, logger, {{{rotate}}});
  ASSERT_TRUE(engine.Run(Event::kBeforeLoss).ok());
  EXPECT_EQ(calls, (Calls{"B:before_loss", "C:before_loss", "A:before_loss"}));
}

// Match would return true for both events.
class Choosy final : public Algorithm {
 public:
  explicit Choosy(Calls* calls) : calls_(calls) {}
  std::string name() const override { return "Choosy"; }
  EventSet events() const override { return {Event::kBatchEnd}; }
  bool Match(Event, const State&) const override { return true; }
  absl::Status Apply(Event event, State&, Logger&) override {
    calls_->push_back(absl::StrCat("Choosy:", EventName(event)));
    return absl::OkStatus();
  }

 private:
  Calls* calls_;
};

TEST(Engine, AlgorithmsAreAskedOnlyAtWhatTheyWant) {
  Calls calls;
  State state;
  Logger logger;
  state.algorithms.push_back(std::make_unique<Choosy>(&calls));
  state.algorithms.push_back(std::make_unique<Marker>("A", Event::kBatchStart, &calls));
  Engine engine(state, logger);
  ASSERT_TRUE(engine.Run(Event::kBatchStart).ok());
  ASSERT_TRUE(engine.Run(Event::kBatchEnd).ok());
  EXPECT_EQ(calls, (Calls{"A:batch_start", "Choosy:batch_end"}));
}

TEST(Engine, AnAlgorithmMayBeAddedLater) {
  Calls calls;
  State state;
  Logger logger;
  Engine engine(state, logger);
  engine.Add(std::make_unique<Marker>("Late", Event::kBatchEnd, &calls));
  ASSERT_TRUE(engine.Run(Event::kBatchEnd).ok());
  EXPECT_EQ(calls, Calls{"Late:batch_end"});
  EXPECT_EQ(state.algorithms.size(), 1u);
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

TEST(Engine, TracesAreLoggedOnlyWhenAskedFor) {
  for (const bool log_traces : {false, true}) {
    Calls calls;
    State state;
    Logger logger;
    state.algorithms.push_back(std::make_unique<Marker>("MixUp", Event::kBeforeForward, &calls));
    EngineOptions options;
    options.log_traces = log_traces;
    Engine engine(state, logger, options);
    ASSERT_TRUE(engine.Run(Event::kBeforeForward).ok());
    ASSERT_TRUE(engine.Run(Event::kBeforeLoss).ok());
    EXPECT_EQ(logger.Last("algorithm_traces/MixUp/before_forward") == 1, log_traces);
    EXPECT_TRUE(std::isnan(logger.Last("algorithm_traces/MixUp/before_loss")));  // it did not match
  }
}

TEST(Engine, ClosesEachCallbackOnceAlsoAfterErrors) {
  Calls calls;
  State state;
  Logger logger;
  state.callbacks.push_back(
      std::make_unique<Recorder>("Fails", EventSet::All(), &calls, absl::InternalError("disk full")));
  state.callbacks.push_back(std::make_unique<Recorder>("Throws", EventSet{}, &calls));
  state.callbacks.push_back(std::make_unique<Recorder>("Fine", EventSet{}, &calls));
  state.callbacks.push_back(std::make_unique<Recorder>("Too", EventSet{}, &calls));
  {
    Engine engine(state, logger);
    EXPECT_FALSE(engine.Run(Event::kInit).ok());
    engine.Close();
    engine.Close();
    EXPECT_EQ(engine.Run(Event::kFitStart).code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(calls, (Calls{"Fails:init", "Fails:close", "Throws:close", "Fine:close", "Too:close", "Fine:post_close",
                          "Too:post_close"}));
}

TEST(Engine, ItsDestructorCallsNobody) {
  Calls calls;
  State state;
  Logger logger;
  state.callbacks.push_back(std::make_unique<Recorder>("C", EventSet::All(), &calls));
  {
    const Engine engine(state, logger);
  }
  EXPECT_EQ(calls, Calls{});
}

TEST(Engine, SpansNestEventThenWhoRuns) {
  Calls calls;
  State state;
  Logger logger;
  TextTracer tracer;
  state.algorithms.push_back(std::make_unique<Marker>("MixUp", Event::kBeforeForward, &calls));
  state.callbacks.push_back(std::make_unique<Recorder>("C", EventSet{Event::kBeforeForward}, &calls));
  Engine engine(state, logger);
  ASSERT_TRUE(engine.Run(Event::kBeforeForward).ok());
  EXPECT_EQ(tracer.text, "");
  state.tracer = &tracer;
  ASSERT_TRUE(engine.Run(Event::kBeforeForward).ok());
  EXPECT_EQ(tracer.text,
            "(event/before_forward(algorithm/MixUp/event/before_forward)(callback/C/event/before_forward))");
}

TEST(Engine, TracesEventsNobodyListensToAndFailures) {
  Calls calls;
  State state;
  Logger logger;
  TextTracer tracer;
  state.tracer = &tracer;
  state.callbacks.push_back(std::make_unique<Recorder>("C", EventSet{Event::kInit}, &calls, absl::InternalError("no")));
  Engine engine(state, logger);
  ASSERT_TRUE(engine.Run(Event::kBatchStart).ok());
  ASSERT_FALSE(engine.Run(Event::kInit).ok());
  EXPECT_EQ(tracer.text, "(event/batch_start)(event/init(callback/C/event/init))");
}

}  // namespace
}  // namespace composer
