// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch_files/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

using testing::HasSubstr;
using Kind = PickleValue::Kind;

// Returns `program` preceded by the opcode PROTO 2 and followed by STOP.
std::string Whole(absl::string_view program) { return absl::StrCat("\x80\x02", program, "."); }
std::string Bytes(std::initializer_list<int> bytes) {
  std::string text;
  for (const int byte : bytes) text += static_cast<char>(byte);
  return text;
}

TEST(Pickle, Numbers) {
  const struct {
    std::string program;
    int64_t number;
  } rows[] = {{Bytes({'K', 200}), 200},
              {Bytes({'M', 0x34, 0x12}), 0x1234},
              {Bytes({'J', 0xff, 0xff, 0xff, 0xff}), -1},
              {Bytes({'J', 0, 0, 0, 0x80}), INT32_MIN},
              {Bytes({0x8a, 0}), 0},
              {Bytes({0x8a, 1, 0xff}), -1},
              {Bytes({0x8a, 2, 0xff, 0}), 255},
              {Bytes({0x8a, 8, 0, 0, 0, 0, 0, 0, 0, 0x80}), INT64_MIN},
              {Bytes({0x88}), 1}};
  for (const auto& row : rows) {
    const std::string bytes = Whole(row.program);
    const auto pickle = Pickle::Parse(bytes);
    ASSERT_TRUE(pickle.ok()) << pickle.status();
    EXPECT_EQ(pickle->root().number, row.number);
  }
  const std::string half = Whole(Bytes({'G', 0x3f, 0xe0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(Pickle::Parse(half)->root().real, 0.5);
  const std::string huge = Whole(Bytes({0x8a, 9, 0, 0, 0, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(Pickle::Parse(huge)->root().kind, Kind::kBytes);
}

TEST(Pickle, ContainersAndReferences) {
  // {"a": [1, 2], "b": the same list, "a": (None,)}: for equal keys the last one counts.
  const std::string bytes = Whole(absl::StrCat("}(U\x01", "a](K\x01K\x02", "eq", Bytes({0}), "U\x01", "bh", Bytes({0}),
                                               "U\x01", "aN", Bytes({0x85}), "u"));
  const auto pickle = Pickle::Parse(bytes);
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  const PickleValue* b = pickle->Find(pickle->root(), "b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->kind, Kind::kList);
  ASSERT_EQ(b->items.size(), 2u);
  EXPECT_EQ(pickle->at(b->items[1]).number, 2);
  EXPECT_EQ(pickle->Find(pickle->root(), "a")->kind, Kind::kTuple);
  EXPECT_EQ(pickle->Find(pickle->root(), "c"), nullptr);
  EXPECT_EQ(pickle->Find(*b, "a"), nullptr);
}

TEST(Pickle, AListThatContainsItselfIsFinite) {
  const std::string bytes = Whole(absl::StrCat("]q", Bytes({0}), "h", Bytes({0}), "a"));
  const auto pickle = Pickle::Parse(bytes);
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_EQ(&pickle->at(pickle->root().items[0]), &pickle->root());
}

TEST(Pickle, CallsAreNamesAndNothingIsExecuted) {
  const std::string bytes = Whole(absl::StrCat("cposix\nsystem\nU\x04", "true", Bytes({0x85}), "R}b"));
  const auto pickle = Pickle::Parse(bytes);
  ASSERT_TRUE(pickle.ok()) << pickle.status();
  EXPECT_EQ(pickle->root().kind, Kind::kCall);
  EXPECT_EQ(pickle->Describe(pickle->root()), "posix.system");
  const std::string ordered = Whole("ccollections\nOrderedDict\n)RU\x01kK\x05s");
  const auto dict = Pickle::Parse(ordered);
  ASSERT_TRUE(dict.ok()) << dict.status();
  EXPECT_EQ(dict->Find(dict->root(), "k")->number, 5);
}

TEST(Pickle, DamageIsRefusedWithItsPlace) {
  const struct {
    std::string bytes;
    const char* reason;
  } rows[] = {{"", "does not start as one"},
              {"(lp0", "does not start as one"},
              {Bytes({0x80, 6, 'N', '.'}), "protocol 6"},
              {Bytes({0x80, 2, 'N'}), "it ends early"},
              {Whole(""), "nothing left to take"},
              {Whole("K"), "nothing left to take"},  // STOP is consumed as K's number
              {Whole("U\x7fz"), "longer than the pickle"},
              {Whole(Bytes({0x8d, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})), "longer than the pickle"},
              {Whole("t"), "no mark"},
              {Whole("N(0"), "nothing left to take"},
              {Whole("(N(2"), "nothing to repeat"},
              {Whole(absl::StrCat("h", Bytes({7}))), "a reference to nothing"},
              {Whole("]NNs"), "items for what has none"},
              {Whole("](Ne(Nu"), "a key without a value"},
              {Whole("(Nd"), "a key without a value"},
              {Whole("Na"), "no list to append to"},
              {Whole("cos"), "a name without an end"},
              {Whole("NNR"), "arguments that are not a tuple"},
              {Whole(absl::StrCat("NN", Bytes({0x93}))), "a global without a name"},
              {Whole("q"), "nothing to remember"}};
  for (const auto& row : rows) {
    const auto pickle = Pickle::Parse(row.bytes);
    if (row.bytes == Whole("K")) {
      EXPECT_FALSE(pickle.ok());
      continue;
    }
    EXPECT_EQ(pickle.status().code(), absl::StatusCode::kDataLoss) << row.reason;
    EXPECT_THAT(std::string(pickle.status().message()), testing::AllOf(HasSubstr(row.reason), HasSubstr(" at byte ")));
  }
  // These are text opcodes, extension codes, and out-of-band buffers.
  for (const int opcode : std::initializer_list<int>{'I', 'L', 'F', 'S', 'V', 'P', 'i', 'o', 0x82, 0x97, 0xff}) {
    const std::string bytes = Whole(Bytes({opcode}));
    EXPECT_EQ(Pickle::Parse(bytes).status().code(), absl::StatusCode::kUnimplemented) << opcode;
  }
}

TEST(Pickle, TooManyValuesAreRefused) {
  const std::string bytes = Whole(std::string(kMaxPickleValues + 1, 'N'));
  EXPECT_THAT(std::string(Pickle::Parse(bytes).status().message()), HasSubstr("more than 4194304 values"));
}

}  // namespace
}  // namespace composer
