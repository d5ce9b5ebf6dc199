// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/life_sign.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

constexpr absl::Duration kLong = absl::Seconds(20), kShort = absl::Milliseconds(30);

TEST(LifeSignTest, WhoConnectsSeesTheWord) {
  const auto life = LifeSign::Show("127.0.0.1", "a word");
  ASSERT_TRUE(life.ok()) << life.status();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(SeesLife((*life)->place(), kLong));
  proto::LifeSign other = (*life)->place();
  other.set_word("another");
  EXPECT_FALSE(SeesLife(other, kLong)) << "another process at the port";
  other.set_word("a");
  EXPECT_FALSE(SeesLife(other, kLong)) << "more than the word";
}

TEST(LifeSignTest, AProcessThatIsGoneShowsNone) {
  auto life = LifeSign::Show("127.0.0.1", "word");
  ASSERT_TRUE(life.ok());
  const proto::LifeSign place = (*life)->place();
  life->reset();
  EXPECT_FALSE(SeesLife(place, kLong));
}

TEST(LifeSignTest, WhatCannotBeAPlaceShowsNone) {
  proto::LifeSign place;
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

TEST(LifeSignTest, AnAddressOfAnotherMachineIsServedOnAllOfOurs) {
  const auto life = LifeSign::Show("192.0.2.1", "word");
  ASSERT_TRUE(life.ok());
  EXPECT_EQ((*life)->place().address(), "192.0.2.1") << "for the others, who reach us there";
  proto::LifeSign here = (*life)->place();
  here.set_address("127.0.0.1");
  EXPECT_TRUE(SeesLife(here, kLong));
  EXPECT_FALSE(SeesLife((*life)->place(), kShort));
}

}  // namespace
}  // namespace composer
