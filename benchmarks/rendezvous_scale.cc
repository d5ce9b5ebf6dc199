// rendezvous_scale AGENTS: runs a rendezvous in its own process, and in this one AGENTS stub agents with a TCP
// connection each, over loopback. Prints one JSON object: seconds to open all connections, seconds from the first Join
// to the last World, messages and bytes per agent, the server's memory, and its CPU seconds beside those of all agents,
// which share the machine's cores with it. Then one agent's worker fails: seconds until all others know, and until all
// have their next World.
// SPDX-License-Identifier: Apache-2.0
#include <grpcpp/create_channel.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/server.h"
#include "rendezvous/transport/grpc_settings.h"

namespace composer {
namespace {

constexpr absl::Duration kLimit = absl::Minutes(2);
constexpr int kConnectors = 8;

// The combined counts of all agents.
struct Tally {
  std::atomic<int> worlds = 0;
  std::atomic<int> overs = 0;
  std::atomic<int> ended = 0;
  std::atomic<int64_t> sent = 0, sent_bytes = 0, received = 0, received_bytes = 0;
};

class Agent final : public grpc::ClientBidiReactor<proto::NodeMessage, proto::CoordinatorMessage> {
 public:
  Agent(int index, int agents, const std::string& address, Tally* tally) : index_(index), tally_(tally) {
    channel_ = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                         ChannelSettings(Link::kNetwork, TimeoutsOf(agents)));
  }
  bool Connect() { return channel_->WaitForConnected(DeadlineAfter(kLimit)); }

  void Start() {
    stub_ = proto::Rendezvous::NewStub(channel_);
    stub_->async()->Attend(&context_, this);
    AddHold();
    StartRead(&incoming_);
    Join();
    StartCall();
  }
  void Join() {
    proto::NodeInfo& node = *outgoing_.mutable_join()->mutable_node();
    node.set_node_id(absl::StrCat("host", index_, "-0123456789abcdef"));
    node.set_node_rank(index_);
    node.set_hostname(absl::StrCat("host", index_));
    node.set_address(absl::StrCat("10.0.", index_ / 256, ".", index_ % 256));
    node.set_slots(8);
    node.set_config_hash("0123456789abcdef0123456789abcdef");
    node.set_version("0.1.0");
    *outgoing_.mutable_join()->mutable_last() = record_;
    Send();
  }
  void Fail() {
    outgoing_.mutable_generation_ended()->mutable_cause()->set_message("rank 0 was killed by SIGKILL (9)");
    Send();
  }
  void Cancel() {
    context_.TryCancel();
    RemoveHold();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    ++tally_->received;
    tally_->received_bytes += static_cast<int64_t>(incoming_.ByteSizeLong());
    if (incoming_.has_world()) {
      record_.set_generation(incoming_.world().generation());
      record_.set_world(incoming_.world().id());
      record_.set_nodes(incoming_.world().nodes());
      record_.set_node_rank(incoming_.world().node_rank());
      ++tally_->worlds;
    }
    if (incoming_.has_generation_over()) ++tally_->overs;
    StartRead(&incoming_);
  }
  void OnDone(const grpc::Status&) override { ++tally_->ended; }

 private:
  void Send() {
    outgoing_.mutable_caller()->set_job("scale");
    outgoing_.mutable_caller()->set_generation(record_.generation());
    outgoing_.mutable_caller()->set_incarnation(absl::StrCat("incarnation", index_));
    ++tally_->sent;
    tally_->sent_bytes += static_cast<int64_t>(outgoing_.ByteSizeLong());
    StartWrite(&outgoing_);
  }

  const int index_;
  Tally* const tally_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<proto::Rendezvous::Stub> stub_;
  grpc::ClientContext context_;
  proto::NodeMessage outgoing_;
  proto::CoordinatorMessage incoming_;
  proto::MembershipRecord record_;
};

int ServeChild(int agents, int port_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto server = RendezvousServer::Start({.job = "scale", .min_nodes = agents, .max_nodes = agents});
  if (!server.ok()) return std::fprintf(stderr, "%s\n", std::string(server.status().message()).c_str()), 1;
  const int port = (*server)->port();
  if (write(port_fd, &port, sizeof port) != sizeof port) return 1;
  while (true) pause();
}

template <typename Done>
absl::Duration Until(absl::Time start, const char* what, const Done& done) {
  while (!done()) {
    if (absl::Now() - start > kLimit) {
      std::fprintf(stderr, "rendezvous_scale: not %s in time\n", what);
      std::exit(1);
    }
    absl::SleepFor(absl::Microseconds(200));
  }
  return absl::Now() - start;
}

long ServerMegabytes(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::atol(line.c_str() + 6) / 1024;
  }
  return 0;
}

// Returns the user and system time of a process so far.
double CpuSecondsOf(pid_t pid) {
  std::ifstream stat(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(stat, line);
  std::istringstream fields(line.substr(line.rfind(')') + 2));  // the name before it may contain anything
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

int ThreadsOf(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("Threads:", 0) == 0) return std::atoi(line.c_str() + 8);
  }
  return 0;
}

int Main(int agents) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_max < static_cast<rlim_t>(agents) + 100)
    return std::fprintf(stderr, "rendezvous_scale: at most %d agents with this limit of open files\n",
                        static_cast<int>(files.rlim_max) - 100),
           1;
  int ports[2];
  if (pipe(ports) != 0) return 1;
  const pid_t server = fork();
  if (server == 0) _exit(ServeChild(agents, ports[1]));
  int port = 0;
  if (read(ports[0], &port, sizeof port) != sizeof port) return 1;

  Tally tally;
  const absl::Time start = absl::Now();
  std::vector<std::unique_ptr<Agent>> all;
  for (int i = 0; i < agents; ++i)
    all.push_back(std::make_unique<Agent>(i, agents, absl::StrCat("127.0.0.1:", port), &tally));
  // A channel connects only while someone waits for it.
  std::atomic<size_t> next = 0;
  std::vector<std::thread> connectors;
  for (int i = 0; i < kConnectors; ++i) {
    connectors.emplace_back([&] {
      for (size_t mine; (mine = next++) < all.size();) {
        if (!all[mine]->Connect()) std::exit(1);
      }
    });
  }
  for (std::thread& connector : connectors) connector.join();
  const absl::Duration connecting = absl::Now() - start;

  const double server_connect_cpu = CpuSecondsOf(server), agents_connect_cpu = CpuSecondsOf(getpid());

  const absl::Time first_join = absl::Now();
  for (auto& agent : all) agent->Start();
  const absl::Duration meeting = Until(first_join, "met", [&] { return tally.worlds == agents; });
  const double server_meet_cpu = CpuSecondsOf(server) - server_connect_cpu;
  const double agents_meet_cpu = CpuSecondsOf(getpid()) - agents_connect_cpu;
  const double messages = static_cast<double>(tally.sent + tally.received) / agents;
  const double bytes = static_cast<double>(tally.sent_bytes + tally.received_bytes) / agents;

  const absl::Time failure = absl::Now();
  all[0]->Fail();
  const absl::Duration known = Until(failure, "told", [&] { return tally.overs == agents - 1; });
  for (auto& agent : all) agent->Join();
  const absl::Duration again = Until(failure, "met again", [&] { return tally.worlds == 2 * agents; });

  std::printf(
      "{\"agents\": %d, \"connect_s\": %.3f, \"meet_s\": %.4f, \"messages_an_agent\": %.2f, \"bytes_an_agent\": %.0f, "
      "\"failure_known_s\": %.4f, \"next_world_s\": %.4f, \"server_mb\": %ld, \"server_threads\": %d, "
      "\"connect_cpu_s\": {\"server\": %.2f, \"agents\": %.2f}, \"meet_cpu_s\": {\"server\": %.2f, \"agents\": "
      "%.2f}}\n",
      agents, absl::ToDoubleSeconds(connecting), absl::ToDoubleSeconds(meeting), messages, bytes,
      absl::ToDoubleSeconds(known), absl::ToDoubleSeconds(again), ServerMegabytes(server), ThreadsOf(server),
      server_connect_cpu, agents_connect_cpu, server_meet_cpu, agents_meet_cpu);
  std::fflush(stdout);
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  _exit(0);  // skips closing thousands of channels one by one
}

}  // namespace
}  // namespace composer

int main(int argc, char** argv) {
  const int agents = argc == 2 ? std::atoi(argv[1]) : 0;
  if (agents < 2 || agents > 100'000) return std::fprintf(stderr, "usage: rendezvous_scale AGENTS\n"), 64;
  return composer::Main(agents);
}
