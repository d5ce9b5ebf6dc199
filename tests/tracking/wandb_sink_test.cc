// Tests the offline run of Weights & Biases, read back by a second reader in Python. tests/integration/trackers_test.py
// has the package's own.
// SPDX-License-Identifier: Apache-2.0
#include "tracking/wandb_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "tests/support/run_python.h"
#include "tests/support/temp_dir.h"
#include "tracking/open_tracker.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

// Prints the fields of each record: "2: loss=0.5 _step=1 …". Fails on a wrong checksum or a torn record.
constexpr char kReader[] = R"(
import struct, sys, zlib
data = open(sys.argv[1], 'rb').read()
assert data[:7] == b':W&B\xe1\xbe\x00', data[:7]
at, parts = 7, b''
def fields(b):
    i, out = 0, []
    def varint():
        nonlocal i
        v = s = 0
        while True:
            v |= (b[i] & 127) << s; s += 7; i += 1
            if not b[i - 1] & 128: return v
    while i < len(b):
        tag = varint()
        if tag & 7 == 0: out.append((tag >> 3, varint()))
        else:
            assert tag & 7 == 2
            n = varint(); out.append((tag >> 3, b[i:i + n])); i += n
    return out
while at < len(data):
    if 32768 - at % 32768 < 7: at += 32768 - at % 32768; continue
    crc, size, kind = struct.unpack('<IHB', data[at:at + 7])
    body = data[at + 7:at + 7 + size]
    assert zlib.crc32(data[at + 6:at + 7] + body) == crc and len(body) == size
    assert (kind in (1, 2)) == (parts == b''), kind
    parts += body; at += 7 + size
    if kind in (2, 3): continue
    (number, n), (what, inner) = fields(parts)
    items = [dict(fields(v)) for k, v in fields(inner) if k == 1 and isinstance(v, bytes) and what in (2, 3, 5)]
    print(f"{n} {what}:", *(f"{i[2].decode()}={i[16].decode()}" for i in items) if items else (str(fields(inner)),))
    parts = b''
)";

class WandbSinkTest : public ::testing::Test {
 protected:
  void Append(const std::string& text) { std::ofstream(dir_.Path("metrics.jsonl"), std::ios::app) << text; }
  std::unique_ptr<Tracker> Open(const std::map<std::string, std::string>& more = {}) {
    TrackerOptions options{
        .name = "wandb", .run = {"r", dir_.path(), 1000}, .settings = {{"project", "p"}, {"tags", "a,b"}}};
    options.settings.insert(more.begin(), more.end());
    auto tracker = OpenTracker(options, {}, nullptr, nullptr);
    EXPECT_TRUE((*tracker)->Load(true).ok());
    return *std::move(tracker);
  }
  static void Drain(Tracker& tracker) {
    absl::StatusOr<bool> more = true;
    while (more.ok() && *more) more = tracker.SendSome();
    EXPECT_TRUE(more.ok()) << more.status();
  }
  std::string Read(const Tracker& tracker) {
    return RunPythonScript(kReader, {dir_.Path(tracker.memory().notes.at("path"))});
  }
  TempDir dir_;
};

TEST_F(WandbSinkTest, ARunReadsBack) {
  Append("{\"time/batch\":1,\"wall\":1001,\"loss\":0.5}\n{\"time/batch\":1,\"wall\":1001,\"eval\":0.25}\n");
  Append("{\"time/batch\":2,\"wall\":1002,\"loss\":null}\n");
  auto tracker = Open();
  tracker->AddParameters({{"lr", "a\"b"}});
  Drain(*tracker);
  ASSERT_TRUE(tracker->Finish("done").ok());
  const std::string text = Read(*tracker);
  EXPECT_THAT(text, HasSubstr("2 17: "));
  EXPECT_THAT(text, HasSubstr("3 5: lr=\"a\\\"b\"\n"));
  EXPECT_THAT(text, HasSubstr("4 2: loss=0.5 eval=0.25 _step=1 _timestamp=1001.0 _runtime=1.0\n"));
  EXPECT_THAT(text, HasSubstr("5 2: loss=\"NaN\" _step=2"));
  EXPECT_THAT(text, HasSubstr("6 3: _step=2.0 eval=0.25 loss=\"NaN\"\n7 18:"));
}

TEST_F(WandbSinkTest, PicturesTablesAndCheckpointsAreKept) {
  const std::string png("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x05\0\0\0\x04", 24);
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("a.png"), png).ok());
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("t.json"), R"({"columns":["x"],"data":[["1"],["2"]]})").ok());
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("w.bin"), "hi").ok());
  std::ofstream(dir_.Path("files.jsonl")) << R"({"time/batch":1,"kind":"image","name":"Images/Train","path":"a.png"})"
                                          << "\n"
                                          << R"({"time/batch":2,"kind":"table","name":"texts","path":"t.json"})"
                                          << "\n"
                                          << R"({"time/batch":2,"kind":"checkpoint","name":"ep0-ba2","path":"w.bin"})"
                                          << "\n";
  Append("{\"time/batch\":1,\"wall\":1001,\"loss\":0.5}\n");
  auto tracker = Open({{"log_artifacts", "true"}});
  Drain(*tracker);
  ASSERT_TRUE(tracker->Finish("done").ok());
  const std::string text = Read(*tracker);
  EXPECT_THAT(text,
              HasSubstr("loss=0.5 Images/Train={\"_type\":\"image-file\",\"path\":\"media/images/Images_Train_1_"));
  EXPECT_THAT(text, HasSubstr("\"size\":24,\"format\":\"png\",\"width\":5,\"height\":4} _step=1"));
  EXPECT_THAT(text, HasSubstr("2: texts={\"_type\":\"table-file\",\"path\":\"media/table/texts_2_"));
  EXPECT_THAT(text, HasSubstr("\"ncols\":1,\"nrows\":2} _step=2"));
  EXPECT_THAT(text, HasSubstr("8: [(1, b'"));  // an artifact
  EXPECT_THAT(text, HasSubstr("SfaKXIST7CwL9ImCHCH8Ow==")) << "the digest that wandb writes for `hi`";
  EXPECT_THAT(text, HasSubstr("(6, b'5a046c86fe1073d4e8b965509ae9e7b3')")) << "and for an artifact of it as w.bin";
}

TEST_F(WandbSinkTest, LongRecordsAndManyCrossBlocks) {
  for (int i = 1; i <= 600; ++i) {
    std::string line = absl::StrCat("{\"time/batch\":", i, ",\"wall\":", i);
    for (int k = 0; k < i; ++k) absl::StrAppend(&line, ",\"metric/", k, "\":", k);
    Append(line + "}\n");
  }
  auto tracker = Open();
  Drain(*tracker);
  ASSERT_TRUE(tracker->Finish("done").ok());
  const std::string text = Read(*tracker);
  EXPECT_THAT(text, HasSubstr("\n602 2: metric/0=0.0")) << text.substr(0, 300);
  EXPECT_THAT(text, HasSubstr("metric/599=599.0 _step=600"));
}

TEST_F(WandbSinkTest, AfterAResumeTheFileHasEachStepOnce) {
  Append("{\"time/batch\":1,\"wall\":1,\"loss\":1}\n{\"time/batch\":2,\"wall\":2,\"loss\":2}\n");
  Drain(*Open());
  std::filesystem::resize_file(dir_.Path("metrics.jsonl"), 35);
  Append("{\"time/batch\":2,\"wall\":3,\"loss\":20}\n");
  auto tracker = Open();
  Drain(*tracker);
  ASSERT_TRUE(tracker->Finish("done").ok());
  const std::string text = Read(*tracker);
  EXPECT_THAT(text, HasSubstr("3 2: loss=1.0 _step=1"));
  EXPECT_THAT(text, HasSubstr("4 2: loss=20.0 _step=2"));
  EXPECT_THAT(text, HasSubstr("5 3:"));
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_.Path("wandb")))
    files += entry.path().extension() == ".wandb" ? 1 : 0;
  EXPECT_EQ(files, 1);
}

}  // namespace
}  // namespace composer
