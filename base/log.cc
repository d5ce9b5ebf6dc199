// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/printable.h"

namespace composer {
namespace {

class Forwarder final : public google::LogSink {
 public:
  explicit Forwarder(std::function<void(absl::string_view)> write) : write_(std::move(write)) {
    for (int severity = 0; severity < google::NUM_SEVERITIES; ++severity)
      google::SetLogDestination(severity, "");  // glog writes log files unless it writes to stderr alone
    FLAGS_stderrthreshold = google::GLOG_FATAL;
    FLAGS_logtostderr = false;
    google::AddLogSink(this);
  }
  ~Forwarder() override {
    google::RemoveLogSink(this);
    FLAGS_logtostderr = true;
  }

  void send(google::LogSeverity severity, const char* /*full_filename*/, const char* base_filename, int line,
            const google::LogMessageTime& time, const char* message, size_t size) override {
    if (severity == google::GLOG_FATAL) return;
    const std::string text = PrintableText({message, size});
    write_(absl::StrCat(ToString(severity, base_filename, line, time, text.data(), text.size()), "\n"));
  }

 private:
  const std::function<void(absl::string_view)> write_;
};

}  // namespace

void InitLogging(absl::string_view program, int min_severity) {
  static const std::string& name = *new std::string(program);
  FLAGS_logtostderr = true;
  FLAGS_minloglevel = min_severity;
  google::InitGoogleLogging(name.c_str());
}

void EnsureLogging() {
  static const bool done = [] {
    if (!google::IsGoogleLoggingInitialized()) InitLogging("composer", /*min_severity=*/FLAGS_minloglevel);
    return true;
  }();
  (void)done;
}

void SendLogsTo(std::function<void(absl::string_view line)> write) {
  static auto& forwarder = *new std::unique_ptr<Forwarder>;
  forwarder.reset();
  if (write != nullptr) forwarder = std::make_unique<Forwarder>(std::move(write));
}

}  // namespace composer
