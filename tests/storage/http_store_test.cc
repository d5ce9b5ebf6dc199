// SPDX-License-Identifier: Apache-2.0
#include "storage/http_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "tests/support/scripted_http.h"

namespace composer {
namespace {

using testing::HasSubstr;

class WebServer final : public ScriptedHttp {
 public:
  bool knows_ranges = true;
  void Serve(const std::string& path, const std::string& bytes) {
    const absl::MutexLock lock(&mutex_);
    objects_[path] = bytes;
  }

 private:
  HttpResponse Answer(const HttpRequest& request) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = objects_.find(request.path);
    if (found == objects_.end() || !request.follow_redirects) return {404, {}, ""};
    HttpRequest whole = request;
    if (!knows_ranges) whole.headers.clear();
    return Part(whole, found->second);
  }
};

class HttpStoreTest : public testing::Test {
 protected:
  HttpStoreTest() : store_({"https://example.com:8443", "data", {}}, server_, clock_) {
    server_.Serve("/data/a/k.bin", "0123456789");
  }
  WebServer server_;
  ManualClock clock_;
  HttpStore store_;
};

TEST_F(HttpStoreTest, ReadsWholeAndInPart) {
  EXPECT_EQ(store_.Location("a/k.bin"), "https://example.com:8443/data/a/k.bin");
  EXPECT_EQ(*store_.Size("a/k.bin"), 10);
  EXPECT_EQ(*GetObject(store_, "a/k.bin", 100), "0123456789");
  char bytes[4];
  ASSERT_TRUE(store_.Read("a/k.bin", 5, absl::MakeSpan(bytes)).ok());
  EXPECT_EQ(std::string(bytes, 4), "5678");
  EXPECT_TRUE(store_.Read("a/k.bin", 10, {}).ok());
  EXPECT_EQ(store_.Read("a/k.bin", 7, absl::MakeSpan(bytes)).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(store_.Read("a/k.bin", 70, absl::MakeSpan(bytes)).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(store_.Read("no", 0, absl::MakeSpan(bytes)).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_.Size("../x").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(HttpStoreTest, AServerThatIgnoresRangesGivesWholeFilesAndElseAnAdvice) {
  server_.knows_ranges = false;
  EXPECT_EQ(*GetObject(store_, "a/k.bin", 100), "0123456789");
  char bytes[4];
  const absl::Status status = store_.Read("a/k.bin", 5, absl::MakeSpan(bytes));
  EXPECT_THAT(std::string(status.message()), HasSubstr("ignores ranges"));
}

TEST_F(HttpStoreTest, IsOnlyReadFromAndListsNothing) {
  const absl::Status refused[] = {store_.Put("k", {"x"}), store_.PutIfAbsent("k", {"x"}), store_.Delete("k"),
                                  store_.DeleteTree("a")};
  for (const absl::Status& status : refused) EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(refused[0].message()), HasSubstr("only read from"));
  EXPECT_EQ(store_.List("a").status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(HttpStoreTest, ABusyServerIsAskedAgain) {
  server_.set_script([](int number) { return number < 3 ? ScriptedHttp::Fault::kBusy : ScriptedHttp::Fault::kNone; });
  EXPECT_EQ(*store_.Size("a/k.bin"), 10);
}

}  // namespace
}  // namespace composer
