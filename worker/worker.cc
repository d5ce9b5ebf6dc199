// SPDX-License-Identifier: Apache-2.0
#include "worker/worker.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <grpcpp/create_channel.h>
#include <sys/ioctl.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "config/job_check.h"
#include "config/yaml.h"
#include "job/run/build_trainer.h"
#include "job/run/job_inference.h"
#include "job/run/sample_check.h"
#include "rendezvous/transport/grpc_settings.h"
#include "storage/open_store.h"
#include "trainer/collectives/launcher_variables.h"
#include "trainer/collectives/rank_environment.h"
#include "trainer/collectives/tcp_store.h"
#include "trainer/core/torch_status.h"
#include "worker/connect.h"
#include "worker/cuda/cuda_loader.h"
#include "worker/cuda/kernel_choice.h"
#include "worker/exit_codes.h"
#include "worker/gpu_math.h"
#include "worker/job_seed.h"
#include "worker/run_command.h"
#include "worker/thread_stacks.h"
#include "worker/watched_graphs.h"

namespace composer {
namespace {

constexpr std::chrono::seconds kLeaveLimit{30};  // how long rank 0 waits for the others when it serves their store
constexpr std::chrono::seconds kAbortLimit{1};   // of NCCL's groups

absl::Status Attach(WorkerContext& context) {
  WorkerAgent::Options options;
  options.leave = [&context](const std::string& why) {
    const auto watch = std::atomic_load(&context.watch);
    LeaveAtOnce(watch == nullptr ? why : absl::StrCat(why, watch->Abandon(why, kAbortLimit)));
  };
  if (context.place.has_launcher()) {
    context.hub = grpc::CreateCustomChannel(context.place.hub_address, grpc::InsecureChannelCredentials(),
                                            ChannelSettings(Link::kLocal));
    context.caller.set_job(context.place.job);
    context.caller.set_generation(context.place.generation);
    context.caller.set_incarnation(absl::StrCat("rank-", context.place.rank, "-", getpid()));
    options.hub = context.hub;
    options.caller = context.caller;
    options.hello.set_rank(context.place.rank);
    options.hello.set_local_rank(context.place.local_rank);
    options.hello.set_pid(getpid());
  }
  if (!context.place.progress_page_path.empty()) {
    ASSIGN_OR_RETURN(options.page, ProgressPage::Open(context.place.progress_page_path));
  }
  options.write_stacks = [rank = context.place.rank](const std::string& folder) {
    if (const absl::Status status = WriteStacks(folder, rank); !status.ok()) LOG(WARNING) << "no stacks: " << status;
  };
  context.agent = std::make_unique<WorkerAgent>(std::move(options));
  context.supervision = std::make_unique<AgentSupervision>(*context.agent);
  return absl::OkStatus();
}

// Selects the GPU of this rank: one per rank, in the order of local ranks. Must run before anything asks LibTorch for
// CUDA.
absl::Status UseGpu(WorkerContext& context, const Job& job) {
  ASSIGN_OR_RETURN(context.cuda, LoadCuda());
  const int count = context.cuda->device_count();
  if (context.place.local_world_size > count) {
    return absl::FailedPreconditionError(absl::StrCat("device: gpu, but this node has ", count, " GPUs for ",
                                                      context.place.local_world_size, " ranks; start fewer (-n ", count,
                                                      ")"));
  }
  context.device = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(context.place.local_rank));
  return CatchTorch([&] {
    context.cuda->SetDevice(context.place.local_rank);
    SetGpuMath(job.allow_tf32, job.options.deterministic_mode);
    const KernelChoice kernels = ChooseKernels(job.own_kernels ? KernelsKey::kAuto : KernelsKey::kOff,
                                               context.cuda->capability(context.place.local_rank));
    if (context.place.rank == 0) (kernels.use || !job.own_kernels ? LOG(INFO) : LOG(WARNING)) << kernels.reason;
    if (kernels.use) context.cuda->RegisterKernels();
    if (job.cuda_graphs) {
      // The default stream cannot be captured, and what is made now is used by the steps.
      const c10::impl::VirtualGuardImpl guard(context.device.type());
      guard.exchangeStream(guard.getStreamFromGlobalPool(context.device));
    }
  });
}

JobPlace PlaceOf(const WorkerContext& context, const Environment& env) {
  JobPlace place;
  place.rank = context.place.rank;
  place.world_size = context.place.world_size;
  place.local_rank = context.place.local_rank;
  place.local_world_size = context.place.local_world_size;
  place.node_rank = context.place.node_rank;
  place.node_name = env.GetOr("NODENAME", "");
  place.visible_gpus = env.GetOr("CUDA_VISIBLE_DEVICES", "");
  place.open_store = [env](const std::string& where) { return OpenStore(where, env); };
  place.communicator = context.communicator.get();
  if (context.agent != nullptr) place.leaves = [agent = context.agent.get()] { return agent->drain_requested(); };
  place.generation = std::max<int64_t>(1, static_cast<int64_t>(context.place.generation));
  if (!absl::SimpleAtoi(env.GetOr("COMPOSER_LAUNCH", ""), &place.launch)) place.launch = 0;
  place.stderr_is_terminal = isatty(STDERR_FILENO) == 1 || env.Get("COMPOSER_TERMINAL_COLUMNS").has_value();
  place.stdout_is_terminal = isatty(STDOUT_FILENO) == 1;
  if (env.GetOr("TERM", "") == "dumb") place.stderr_is_terminal = place.stdout_is_terminal = false;
  place.terminal = env.GetOr("COMPOSER_TERMINAL", "");
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) place.terminal_columns = size.ws_col;
  if (const auto columns = env.Get("COMPOSER_TERMINAL_COLUMNS"))
    place.terminal_columns = std::clamp(atoi(columns->c_str()), 20, 1000);
  return place;
}

// Replaces an earlier launch's file. Called only after the checkpoint to resume from is settled and nothing has refused
// it.
absl::Status WriteConfig(const std::string& run_folder, const ConfigNode& effective) {
  return AtomicWriteFile(JoinPath(run_folder, "config.yaml"), ToShownYaml(effective), {.mode = 0600});
}

struct FirstStep {
  ModelFactory make_model;
  std::shared_ptr<const Dataset> dataset;
  uint64_t seed;
};

// Explains an error of LibTorch's in the first step: if the model does not accept the data at all, the user must fix
// that, and no restart helps.
absl::Status Explained(const absl::Status& status, const FirstStep& first) {
  if (!absl::IsInternal(status) && !absl::IsOutOfRange(status)) return status;
  const absl::Status trial = CheckSamples(first.make_model, *first.dataset, first.seed).status();
  return trial.code() == absl::StatusCode::kInvalidArgument ? trial : status;
}

// Removes the stack from a user's mistake: the mistake is in the job's file, and the place in the model where it showed
// and a stack add nothing.
absl::Status WithoutStack(const absl::Status& status) {
  if (!absl::IsInvalidArgument(status)) return status;
  return absl::InvalidArgumentError(status.message().substr(0, status.message().find('\n')));
}

void SetPlace(const WorkerContext& context, TrainerOptions& options) {
  options.device = context.device;
  options.communicator = context.communicator.get();
  options.store = context.store;
  options.launch = {context.place.launch, context.place.generation};
  options.supervision = context.supervision.get();
}

absl::Status UseModel(WorkerContext& context, const JobSource& source, const JobCommand& command,
                      const Environment& env) {
  ASSIGN_OR_RETURN(Job job, ReadJob(source, env));
  if (job.gpu) RETURN_IF_ERROR(UseGpu(context, job));
  RETURN_IF_ERROR(Connect(context, job));
  const ConfigNode effective = job.effective;
  const absl::Status status = CatchTorch([&]() -> absl::Status {
    ASSIGN_OR_RETURN(TrainerOptions options, BuildInferenceOptions(std::move(job), PlaceOf(context, env), command));
    SetPlace(context, options);
    // In-context tasks have no targets to explain an error with.
    const bool has_targets = !options.evaluators.empty() && !options.evaluators[0].make_metrics;
    const FirstStep first = {options.make_model, has_targets ? options.evaluators[0].dataset : nullptr, options.seed};
    const absl::Status status = RunJobCommand(std::move(options), command, context.trainer);
    return WithoutStack(first.dataset == nullptr ? status : Explained(status, first));
  });
  return status.code() == absl::StatusCode::kInvalidArgument ? WithPlace(effective, status) : status;
}

absl::Status Train(WorkerContext& context, const JobSource& source, const Environment& env) {
  ASSIGN_OR_RETURN(Job job, ReadJob(source, env));
  if (context.place.rank == 0) RETURN_IF_ERROR(MakePrivateDir(JoinPath(job.run_folder, "logs")));
  if (job.gpu) RETURN_IF_ERROR(UseGpu(context, job));
  RETURN_IF_ERROR(Connect(context, job));
  RETURN_IF_ERROR(SettleSeed(job, *context.communicator));
  context.supervision->OnPhase(RunPhase::kBuilding);
  const ConfigNode effective = job.effective;
  const std::string run_folder = job.run_folder;
  const bool captures = job.cuda_graphs;
  const absl::Status status = CatchTorch([&]() -> absl::Status {
    ASSIGN_OR_RETURN(TrainerOptions options, BuildTrainerOptions(std::move(job), PlaceOf(context, env)));
    SetPlace(context, options);
    if (captures) {
      context.graphs = std::make_unique<WatchedGraphs>(context.cuda->graphs(), std::atomic_load(&context.watch));
      options.graphs = context.graphs.get();
    }
    options.memory = context.memory;
    const FirstStep first_step = {options.make_model, options.train.dataset, options.seed};
    ASSIGN_OR_RETURN(context.trainer, Trainer::Create(std::move(options)));
    if (context.place.rank == 0) RETURN_IF_ERROR(WriteConfig(run_folder, effective));
    const int64_t begin = context.trainer->state().timestamp.batch;
    const absl::Status status = context.trainer->Fit();
    return WithoutStack(context.trainer->state().timestamp.batch == begin ? Explained(status, first_step) : status);
  });
  return status.code() == absl::StatusCode::kInvalidArgument ? WithPlace(effective, status) : status;
}

}  // namespace

int RunWorker(const JobSource& source, const Environment& env, const JobCommand* command) {
  WorkerContext& context = *new WorkerContext;
  absl::StatusOr<RankEnvironment> place = ReadRankEnvironment(WithRankVariables(env));
  if (!place.ok()) {
    absl::FPrintF(stderr, "error: %s\n", place.status().message());
    return ExitCodeFor(place.status().code());
  }
  context.place = *std::move(place);
  JobSource placed = source;
  placed.world_size = context.place.world_size;
  absl::Status status = Attach(context);
  if (status.ok()) status = command != nullptr ? UseModel(context, placed, *command, env) : Train(context, placed, env);
  const int code = ExitCodeFor(status.code());
  if (context.trainer != nullptr) context.trainer->Close();
  if (context.tcp_store != nullptr && status.ok()) LeaveTcpStore(context.place, *context.tcp_store, kLeaveLimit);
  const bool launcher_says = context.agent != nullptr && code == exit_code::kPreempted;
  if (!status.ok() && !launcher_says)
    absl::FPrintF(stderr, "%s: %s\n", code == exit_code::kPreempted ? "stopped" : "error",
                  PrintableText(status.message()));
  if (context.agent != nullptr && context.supervision != nullptr) {
    proto::ExitReport report = ReportOf(context, status);
    if (context.trainer != nullptr) {
      for (const auto& [name, value] : context.trainer->eval_results()) (*report.mutable_metrics())[name] = value;
    }
    context.agent->Finish(std::move(report));
  }
  return code;
}

}  // namespace composer
