// Runs the real composer binary in tests, with its output in files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "base/process.h"
#include "config/schema.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace composer {

// A job that the launcher accepts, for fake_worker.
inline constexpr char kFakeJob[] =
    "model: {name: mlp}\ntrain_dataloader: {name: gaussian_classification}\nglobal_train_batch_size: 1\nmax_duration: "
    "1ep\n";

// `steps=20` after the job's file is an argument for fake_worker and not a key of a job, so it travels as
// `variables.steps=20`.
inline void PassToFakeWorker(std::vector<std::string>& arguments) {
  bool settings = false;
  for (std::string& argument : arguments) {
    const std::string key = argument.substr(0, argument.find_first_of("=."));
    if (settings && key[0] != '-' && BuiltInSchema().Find("map", "job")->Find(key) == nullptr)
      argument.insert(0, "variables.");
    settings = settings || absl::EndsWith(argument, ".yaml");
  }
}

class Launched {
 public:
  // Starts at once. `folder` is the working directory and TMPDIR; it must outlive this object.
  Launched(const TempDir& folder, const std::string& binary, std::vector<std::string> arguments)
      : out_(folder.Path("stdout")), err_(folder.Path("stderr")) {
    PassToFakeWorker(arguments);
    arguments.insert(arguments.begin(), binary);
    pid_ = fork();
    if (pid_ != 0) return;
    setenv("TMPDIR", folder.path().c_str(), 1);
    for (const char* name : {"LOCAL_WORLD_SIZE", "WORLD_SIZE", "NODE_RANK", "BASE_RANK", "MASTER_ADDR", "MASTER_PORT",
                             "OMP_NUM_THREADS"}) {
      unsetenv(name);
    }
    setenv("COMPOSER_RUNTIME_DIR", folder.Path("runtime").c_str(), 1);
    dup2(open(out_.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600), 1);
    dup2(open(err_.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600), 2);
    if (chdir(folder.path().c_str()) != 0) _exit(126);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    execv(binary.c_str(), argv.data());
    _exit(127);
  }
  ~Launched() {
    if (pid_ > 0) Signal(SIGKILL), Wait(absl::Seconds(5));
  }
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) { kill(pid_, signal); }

  // Returns the exit code as a shell would show it, or -1 when the process does not end in time.
  int Wait(absl::Duration limit = absl::Seconds(20)) {
    int status = 0;
    if (!WaitUntil([&] { return waitpid(pid_, &status, WNOHANG) == pid_; }, limit)) return -1;
    pid_ = 0;
    return ExitStatus::FromWait(status).ShellCode();
  }

  std::string out() const { return ReadFile(out_).value_or(""); }
  std::string err() const { return ReadFile(err_).value_or(""); }
  // Waits for a text on stderr.
  bool Says(const std::string& text, absl::Duration limit = absl::Seconds(20)) const {
    return WaitUntil([&] { return absl::StrContains(err(), text); }, limit);
  }

 private:
  const std::string out_;
  const std::string err_;
  pid_t pid_ = 0;
};

}  // namespace composer
