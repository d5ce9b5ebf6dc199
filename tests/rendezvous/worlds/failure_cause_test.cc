// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/worlds/failure_cause.h"

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
  // A lone continuation byte, a truncated sequence, an overlong '/', a surrogate, and a code point past U+10FFFF.
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

TEST(IsBetterCause, ExplainsTheOneToldFirst) {
  const auto exit = [](bool collateral) {
    proto::FailureCause cause;
    cause.set_rank(3);
    cause.set_collateral(collateral);
    return cause;
  };
  const proto::FailureCause lost = NodeCause("n", "was lost", absl::UnixEpoch());
  const proto::FailureCause again = NodeCause("n", "joined again", absl::UnixEpoch(), /*vague=*/true);
  const struct {
    const char* name;
    proto::FailureCause later, told;
    bool better;
  } cases[] = {
      {"an exit with its own reason, after one that others explain", exit(false), exit(true), true},
      {"a lost node, after an exit that others explain", lost, exit(true), true},
      {"an exit, after a node that came again", exit(false), again, true},
      {"a lost node, after another that came again", lost, again, true},
      {"two exits with their own reasons: the first", exit(false), exit(false), false},
      {"an exit, after a lost node", exit(false), lost, false},
      {"a lost node, after an exit", lost, exit(false), false},
      {"two exits that others explain: the first", exit(true), exit(true), false},
      {"a node that came again explains nothing", again, exit(true), false},
  };
  for (const auto& c : cases) EXPECT_EQ(IsBetterCause(c.later, c.told), c.better) << c.name;
}

}  // namespace
}  // namespace composer
