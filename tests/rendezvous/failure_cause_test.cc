// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/failure_cause.h"

#include <gtest/gtest.h>

#include <string>

namespace composer {
namespace {

TEST(TidyCause, KeepsWhatIsValid) {
  proto::FailureCause cause;
  cause.set_message("Köln 東京 \xF0\x9F\x94\xA5");
  cause.set_exit_code(3);
  TidyCause(cause);
  EXPECT_EQ(cause.message(), "Köln 東京 \xF0\x9F\x94\xA5");
  EXPECT_EQ(cause.exit_code(), 3);
}

TEST(TidyCause, ReplacesBrokenBytesSoThatTheMessageParses) {
  proto::FailureCause cause;
  // lone continuation, cut sequence, overlong '/', surrogate, past U+10FFFF
  cause.set_stderr_tail("a\x80z\xE6\x9D|\xC0\xAF|\xED\xA0\x80|\xF4\x90\x80\x80");
  TidyCause(cause);
  EXPECT_EQ(cause.stderr_tail(), "a?z??|??|???|????");
  proto::FailureCause parsed;
  EXPECT_TRUE(parsed.ParseFromString(cause.SerializeAsString()));
}

TEST(TidyCause, KeepsTheBeginningOfTheMessageAndTheEndOfStderr) {
  proto::FailureCause cause;
  cause.set_message("begin" + std::string(kMaxCauseMessageBytes, 'x'));
  cause.set_stderr_tail(std::string(kMaxCauseStderrBytes, 'x') + "end");
  TidyCause(cause);
  EXPECT_EQ(cause.message().size(), kMaxCauseMessageBytes);
  EXPECT_EQ(cause.message().substr(0, 6), "beginx");
  EXPECT_EQ(cause.stderr_tail().size(), kMaxCauseStderrBytes);
  EXPECT_EQ(cause.stderr_tail().substr(kMaxCauseStderrBytes - 4), "xend");
}

}  // namespace
}  // namespace composer
