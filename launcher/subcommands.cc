// SPDX-License-Identifier: Apache-2.0
#include "launcher/subcommands.h"

#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "base/exit_code.h"
#include "launcher/console.h"
#include "launcher/control_commands.h"
#include "launcher/doctor.h"
#include "launcher/serve.h"

namespace composer {
namespace {

// composer_worker has it under the same name: it needs LibTorch.
std::function<int(const SubcommandCall&)> OfWorker(const std::string& name) {
  return [name](const SubcommandCall& call) {
    std::vector<char*> argv = {const_cast<char*>(call.worker_path.c_str()), const_cast<char*>(name.c_str())};
    for (const std::string& word : call.arguments) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execv(call.worker_path.c_str(), argv.data());
    Tell(absl::StrCat("`composer ", name, "` needs ", call.worker_path, ", which cannot be started"));
    return exit_code::kUserError;
  };
}

std::function<int(const SubcommandCall&)> Control(const std::string& name) {
  return [name](const SubcommandCall& call) { return RunControlCommand(name, call.arguments, call.environment); };
}

int PrintVersion(const SubcommandCall& call) {
  if (!call.arguments.empty()) {
    Tell(absl::StrCat("version takes no argument `", call.arguments[0], "`"));
    return exit_code::kUserError;
  }
  std::printf("composer %s\n", COMPOSER_VERSION);
  return std::fflush(stdout) == 0 ? exit_code::kDone : exit_code::kFailure;
}

}  // namespace

const std::vector<Subcommand>& Subcommands() {
  static const auto& table = *new std::vector<Subcommand>{
      {"run", "[flags] PROGRAM ...", "the same as without a subcommand", nullptr},
      {"serve", "[--port PORT] [--job NAME]", "run the rendezvous alone",
       [](const SubcommandCall& call) { return ServeCommand(call.arguments, call.environment); }},
      {"status", "[--json] [--watch] [JOB]", "how a job is doing", Control("status")},
      {"save", "[JOB]", "let a job checkpoint and go on", Control("save")},
      {"drain", "[--wait] [JOB]", "let a job checkpoint and stop", Control("drain")},
      {"stop", "[--wait] [JOB]", "end a job now", Control("stop")},
      {"logs", "[--rank N] [--follow] [JOB]", "the output of a rank", Control("logs")},
      {"doctor", "[--json] [HOST:PORT]", "check this machine and say what to mend",
       [](const SubcommandCall& call) { return DoctorCommand(call.arguments, call.environment); }},
      {"validate", "job.yaml [key=value ...]", "check a YAML file", OfWorker("validate")},
      {"checkpoint", "COMMAND ...", "list, show, verify, diff, export, import, prune", OfWorker("checkpoint")},
      {"trace", "merge FOLDER [OUTPUT]", "join the traces of the ranks", OfWorker("trace")},
      {"version", "", "print the version", PrintVersion},
  };
  return table;
}

std::vector<std::string> SubcommandNames() {
  std::vector<std::string> names;
  for (const Subcommand& command : Subcommands()) names.push_back(command.name);
  return names;
}

}  // namespace composer
