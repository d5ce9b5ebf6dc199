// A bucket of FakeS3 together with what an S3Store needs. Time is simulated, so waiting takes no time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/clock.h"
#include "storage/s3_store.h"
#include "tests/support/fake_s3.h"

namespace composer {

struct FakeBucket {
  FakeS3 server;
  ManualClock clock;
  std::shared_ptr<S3KeySource> keys = std::make_shared<S3KeySource>(
      [] { return S3Credentials{{"id", "secret", ""}, absl::InfiniteFuture(), "test"}; }, clock);

  // Returns a store for the objects below s3://bucket/runs/mine.
  S3Store Store(int64_t part_bytes = S3Store::kPartBytes, S3Bucket::CreateOnly create = {}) {
    S3Store::Options options;
    options.bucket = {.endpoint = "http://fake", .name = "bucket"};
    options.bucket.create_only = create;
    options.prefix = "runs/mine";
    options.part_bytes = part_bytes;
    return {options, server, keys, clock};
  }
};

}  // namespace composer
