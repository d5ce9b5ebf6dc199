// What object stores answer: lists, errors, ids of uploads.
// SPDX-License-Identifier: Apache-2.0
#include "storage/cloud_answers.h"
#include "storage/s3_answers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  composer::ParseAzureList(text).status().IgnoreError();
  composer::ParseVolumeList(text).status().IgnoreError();
  composer::VolumeError(text);
  composer::ParseOciList(text).status().IgnoreError();
  composer::ParseOciUploads(text).status().IgnoreError();
  composer::ParseOciUploadId(text).status().IgnoreError();
  composer::ParseOciNamespace(text).status().IgnoreError();
  composer::OciError(text);
  composer::ParseS3List(text).status().IgnoreError();
  composer::ParseS3Uploads(text).status().IgnoreError();
  composer::ParseS3UploadId(text).status().IgnoreError();
  composer::ParseS3DeleteErrors(text).status().IgnoreError();
  composer::ParseS3Error(text);
  return 0;
}
