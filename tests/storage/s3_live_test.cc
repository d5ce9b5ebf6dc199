// Runs the conformance suite on a real server: COMPOSER_TEST_PLACE names a bucket and a prefix reserved for this test.
// tests/integration/s3_test.py runs it; it is not a ctest by itself.
// SPDX-License-Identifier: Apache-2.0
#include "base/env.h"
#include "storage/open_store.h"
#include "tests/conformance/object_store_suite.h"

namespace composer {
namespace {

// Each store is in its own folder, so that each test starts with an empty one.
INSTANTIATE_TEST_SUITE_P(Live, ObjectStoreSuite, testing::Values([]() -> std::shared_ptr<ObjectStore> {
                           static int count = 0;
                           const Environment env = Environment::FromProcess();
                           const std::string place = absl::StrCat(env.GetOr("COMPOSER_TEST_PLACE", ""), "/", count++);
                           return OpenStore(place, env).value();
                         }));

TEST(LiveStore, AnUploadInManyPartsComesBack) {
  const Environment env = Environment::FromProcess();
  const auto store = OpenStore(env.GetOr("COMPOSER_TEST_PLACE", "") + "/parts", env).value();
  std::string large(size_t{150} << 20, ' ');
  for (size_t i = 0; i < large.size(); i += 4096) large[i] = static_cast<char>('a' + (i >> 12) % 26);
  ASSERT_TRUE(store->PutIfAbsent("large", {large}).ok());
  EXPECT_EQ(store->PutIfAbsent("large", {large}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*store->Size("large"), static_cast<int64_t>(large.size()));
  std::string read(size_t{1} << 20, ' ');
  ASSERT_TRUE(store->Read("large", int64_t{70} << 20, absl::MakeSpan(read.data(), read.size())).ok());
  EXPECT_EQ(read, large.substr(size_t{70} << 20, read.size()));
}

}  // namespace
}  // namespace composer
