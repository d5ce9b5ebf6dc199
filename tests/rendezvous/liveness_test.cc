// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/liveness.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

constexpr absl::Duration kLong = absl::Seconds(20), kShort = absl::Milliseconds(30);

TEST(LivenessTest, WhoConnectsSeesTheWord) {
  const auto life = Liveness::Show("127.0.0.1", "a word");
  ASSERT_TRUE(life.ok()) << life.status();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(SeesLife((*life)->place(), kLong));
  proto::Liveness other = (*life)->place();
  other.set_word("another");
  EXPECT_FALSE(SeesLife(other, kLong)) << "another process at the port";
  other.set_word("a");
  EXPECT_FALSE(SeesLife(other, kLong)) << "more than the word";
}

TEST(LivenessTest, AProcessThatIsGoneShowsNone) {
  auto life = Liveness::Show("127.0.0.1", "word");
  ASSERT_TRUE(life.ok());
  const proto::Liveness place = (*life)->place();
  life->reset();
  EXPECT_FALSE(SeesLife(place, kLong));
}

TEST(LivenessTest, WhatCannotBeAPlaceShowsNone) {
  proto::Liveness place;
  EXPECT_FALSE(SeesLife(place, kLong));
  place.set_address("127.0.0.1");
  place.set_word("word");
  for (int port : {-1, 0, 65536}) {
    place.set_port(port);
    EXPECT_FALSE(SeesLife(place, kLong));
  }
  place.set_port(80);
  place.set_word(std::string(1000, 'x'));
  EXPECT_FALSE(SeesLife(place, kLong));
}

TEST(LivenessTest, AnAddressOfAnotherMachineIsServedOnAllOfOurs) {
  const auto life = Liveness::Show("192.0.2.1", "word");
  ASSERT_TRUE(life.ok());
  EXPECT_EQ((*life)->place().address(), "192.0.2.1") << "for the others, who reach us there";
  proto::Liveness here = (*life)->place();
  here.set_address("127.0.0.1");
  EXPECT_TRUE(SeesLife(here, kLong));
  EXPECT_FALSE(SeesLife((*life)->place(), kShort));
}

}  // namespace
}  // namespace composer
