// The requirements on every LoggerDestination. Include this in one test file and instantiate it with a factory for each
// implementation; `folder` exists and is the destination's own:
//   INSTANTIATE_TEST_SUITE_P(InMemory, LoggerDestinationSuite, testing::Values([](const std::string& folder) {
//                              return std::make_unique<InMemoryLogger>();
//                            }));
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "trainer/core/engine.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"

namespace composer {

using LoggerDestinationFactory = std::function<std::unique_ptr<LoggerDestination>(const std::string& folder)>;

class LoggerDestinationSuite : public testing::TestWithParam<LoggerDestinationFactory> {
 protected:
  LoggerDestinationSuite() : destination_(GetParam()(folder_.path())) {}
  std::string Path(const std::string& name) const { return folder_.Path(name); }

  const TempDir folder_;
  const std::unique_ptr<LoggerDestination> destination_;
};

// What a run does, in its order, and once more for batches that are done again after a resumption.
TEST_P(LoggerDestinationSuite, TakesAWholeRun) {
  EXPECT_FALSE(destination_->name().empty());
  Timestamp now;
  EXPECT_TRUE(destination_->Start({now, false}).ok());
  EXPECT_TRUE(destination_->WriteHyperparameters({{"optimizers/lr", "0.001"}}).ok());
  const std::vector<Image> images(2, Image{1, 2, 3, {1, 2, 3, 4, 5, 6}});
  const std::vector<std::string> columns = {"prompt", "text"};
  const std::vector<std::vector<std::string>> rows = {{"a", "b\xff\n"}};
  for (int batch = 1; batch <= 3; ++batch) {
    now.ToNextBatch(8, 0, absl::Milliseconds(5));
    const std::vector<MetricValue> metrics = {{"loss/train/total", 0.5}, {"not a \"number\"", std::nan("")}};
    EXPECT_TRUE(destination_->Write({now, metrics}).ok());
  }
  EXPECT_TRUE(destination_->Write({now, {}}).ok()) << "an empty record";
  EXPECT_TRUE(destination_->WriteImages({now, "Images/Train", images}).ok());
  EXPECT_TRUE(destination_->WriteTable({now, "generate/samples", columns, rows}).ok());
  EXPECT_TRUE(destination_->Close().ok());
}

// The events it asks for, with a state that has no model, data or step yet.
TEST_P(LoggerDestinationSuite, SeesTheEventsItAsksFor) {
  State state;
  for (int i = 0; i < kNumEvents; ++i) {
    const auto event = static_cast<Event>(i);
    if (destination_->events().Has(event)) EXPECT_TRUE(destination_->See(event, state).ok()) << EventName(event);
  }
  EXPECT_TRUE(destination_->Close().ok());
}

// Either it fetches what it took, or it says that it never does.
TEST_P(LoggerDestinationSuite, FetchesWhatItTookOrNothing) {
  ASSERT_TRUE(AtomicWriteFile(Path("taken"), "content").ok());
  ASSERT_TRUE(AtomicWriteFile(Path("fetched"), "before").ok());
  ASSERT_TRUE(destination_->Start({Timestamp(), false}).ok());
  ASSERT_TRUE(destination_->TakeFile("some/file.txt", Path("taken")).ok());
  ASSERT_TRUE(AtomicWriteFile(Path("taken"), "changed after the return").ok());
  const absl::Status fetched = destination_->FetchFile("some/file.txt", Path("fetched"));
  const absl::Status unknown = destination_->FetchFile("nobody/took.txt", Path("none"));
  EXPECT_FALSE(PathExists(Path("none")));
  if (absl::IsUnimplemented(fetched)) {
    EXPECT_TRUE(absl::IsUnimplemented(unknown)) << unknown;
    EXPECT_EQ(*ReadFile(Path("fetched")), "before");
  } else {
    EXPECT_TRUE(fetched.ok()) << fetched;
    EXPECT_TRUE(absl::IsNotFound(unknown)) << unknown;
    EXPECT_EQ(*ReadFile(Path("fetched")), "content");
  }
  EXPECT_TRUE(destination_->Close().ok());
}

}  // namespace composer
