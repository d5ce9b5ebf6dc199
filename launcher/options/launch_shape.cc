// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/launch_shape.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "rendezvous/worlds/rank_layout.h"

namespace composer {
namespace {

// Decides one part after another; each may use what the earlier ones found.
class Decision {
 public:
  explicit Decision(const ShapeQuery& query) : query_(query), options_(query.options) {}

  absl::StatusOr<LaunchShape> Make() {
    RETURN_IF_ERROR(Slots());
    RETURN_IF_ERROR(Nodes());
    RETURN_IF_ERROR(shape_.one_node() ? RanksOfOneNode() : Ranks());
    RETURN_IF_ERROR(Meeting());
    return std::move(shape_);
  }

 private:
  template <typename... Parts>
  static absl::Status Refuse(const Parts&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(parts...));
  }

  bool FromFlag(const char* name) const {
    const OptionValue* given = options_.Given(name);
    return given != nullptr && absl::StartsWith(given->origin, "flag");
  }

  // Returns a value and its origin, such as "world-size 8 (WORLD_SIZE)".
  std::string Quote(const char* name, int value) const {
    const OptionValue* given = options_.Given(name);
    if (given == nullptr) return absl::StrCat(name, " ", value);
    const absl::string_view origin = given->origin;
    return absl::StrCat(name, " ", value, " (", origin.substr(origin.find(' ') + 1), ")");
  }
  std::string QuoteSlots() const { return Quote("nproc", shape_.slots); }

  void Settle(absl::string_view name, absl::string_view value, absl::string_view origin) {
    shape_.values.push_back({std::string(name), std::string(value), std::string(origin)});
  }
  void Settle(absl::string_view name, int value, absl::string_view origin) {
    Settle(name, absl::StrCat(value), origin);
  }

  absl::Status Slots();
  absl::Status Nodes();
  absl::Status NodesOfRange();
  absl::Status NodesOfWorldSize();
  absl::Status RanksOfOneNode();
  absl::Status Ranks();
  absl::Status RanksOfEqualNodes();
  absl::Status Meeting();
  absl::Status RendezvousOfSeveral();

  const ShapeQuery& query_;
  const LaunchOptions& options_;
  LaunchShape shape_;
};

absl::Status Decision::Slots() {
  const std::string& given = options_.nproc;
  if (given == "gpu" && query_.gpus == 0) return Refuse("nproc is `gpu`, but this node shows no GPU");
  if (given == "gpu" || (given == "auto" && query_.gpus > 0)) {
    shape_.slots = query_.gpus;
    Settle("nproc", shape_.slots, absl::StrCat(options_.Given("nproc")->origin, ", one per GPU"));
  } else if (given == "cpu" || given == "auto") {
    shape_.slots = std::max(1, query_.cpus);
    Settle("nproc", shape_.slots, absl::StrCat(options_.Given("nproc")->origin, ", one per CPU"));
  } else if (!given.empty()) {
    int number = 0;
    if (!absl::SimpleAtoi(given, &number)) return Refuse("nproc is `", given, "`, it must be a number");
    if (number == 0 && FromFlag("nproc")) return Refuse(Quote("nproc", 0), ": a node has at least 1 worker");
    shape_.slots = std::max(1, number);
  } else if (query_.platform.slots > 0) {
    Settle("nproc", shape_.slots = query_.platform.slots, query_.platform.name);
  } else if (query_.job_nproc > 0) {
    Settle("nproc", shape_.slots = query_.job_nproc, "the YAML file");
  } else {
    shape_.slots = std::max(1, query_.gpus);
    Settle("nproc", shape_.slots, query_.gpus > 0 ? "one per GPU" : "default");
  }
  if (shape_.slots > kMaxSlots) return Refuse(QuoteSlots(), ": a node has at most ", kMaxSlots, " workers");
  return absl::OkStatus();
}

absl::Status Decision::Nodes() {
  const bool from_environment = options_.world_size > 0 && !FromFlag("world-size");
  const bool same_as_local = query_.local_world_size == absl::StrCat(options_.world_size);
  // torchrun does not read WORLD_SIZE, and inside a worker of a single node it says nothing about us.
  const bool world_size_counts = !(from_environment && (same_as_local || options_.max_nodes > 0));
  if (options_.world_size > 0 && world_size_counts) shape_.world_size = options_.world_size;
  if (options_.world_size > 0 && !world_size_counts) {
    Settle("world-size", "-",
           options_.max_nodes > 0 ? "environment WORLD_SIZE does not count beside nnodes"
                                  : "environment WORLD_SIZE does not count: it equals LOCAL_WORLD_SIZE");
  }
  if (shape_.world_size > 0 && shape_.world_size < shape_.slots) {
    return Refuse(Quote("world-size", shape_.world_size), " is less than ", QuoteSlots(),
                  ", the workers of this node alone");
  }
  if (options_.max_nodes > 0) return NodesOfRange();
  if (shape_.world_size > shape_.slots) return NodesOfWorldSize();
  if (shape_.world_size == 0 && query_.platform.nodes > 1 && !options_.standalone) {
    shape_.min_nodes = shape_.max_nodes = query_.platform.nodes;
    Settle("nnodes", shape_.max_nodes, query_.platform.name);
    return absl::OkStatus();
  }
  Settle("nnodes", 1, shape_.world_size > 0 ? "world-size equals nproc" : "default");
  return absl::OkStatus();
}

absl::Status Decision::NodesOfRange() {
  shape_.min_nodes = options_.min_nodes;
  shape_.max_nodes = options_.max_nodes;
  const std::string range = options_.Given("nnodes")->value;
  if (options_.standalone && shape_.max_nodes > 1) {
    return Refuse("standalone means one node, but nnodes is ", range, ": leave one of them out");
  }
  const int64_t size = shape_.world_size;
  if (size == 0) return absl::OkStatus();
  if (shape_.min_nodes < shape_.max_nodes) {
    return Refuse(Quote("world-size", shape_.world_size), " fixes the number of workers, but nnodes ", range,
                  " leaves it open: leave one of them out");
  }
  const int64_t others = shape_.max_nodes - 1;
  if (size < shape_.slots + others || size > shape_.slots + others * kMaxSlots) {
    return Refuse(Quote("world-size", shape_.world_size), " does not fit nnodes ", range, " with ", QuoteSlots(),
                  " on this one: nodes of this size make ", shape_.slots * static_cast<int64_t>(shape_.max_nodes));
  }
  return absl::OkStatus();
}

absl::Status Decision::NodesOfWorldSize() {
  if (options_.standalone) {
    return Refuse("standalone means one node, but ", Quote("world-size", shape_.world_size), " is more than ",
                  QuoteSlots());
  }
  const bool both = options_.base_rank >= 0 && options_.node_rank >= 0;
  const bool even = shape_.world_size % shape_.slots == 0 &&
                    !(both && options_.base_rank != static_cast<int64_t>(options_.node_rank) * shape_.slots);
  if (!even && !both) {
    return Refuse(
        Quote("world-size", shape_.world_size), " is not a multiple of ", QuoteSlots(),
        ": when the nodes differ in nproc, each needs both --node_rank and --base_rank, and --nnodes says how "
        "many they are");
  }
  if (!even) {
    return Refuse(Quote("world-size", shape_.world_size), " with ", QuoteSlots(), ", ",
                  Quote("node-rank", options_.node_rank), " and ", Quote("base-rank", options_.base_rank),
                  " means nodes of different nproc: give --nnodes N too, the number of nodes");
  }
  shape_.min_nodes = shape_.max_nodes = shape_.world_size / shape_.slots;
  if (shape_.max_nodes > kMaxNodes) return Refuse("at most ", kMaxNodes, " nodes are possible");
  Settle("nnodes", shape_.max_nodes, "world-size / nproc");
  return absl::OkStatus();
}

absl::Status Decision::RanksOfOneNode() {
  shape_.node_rank = shape_.base_rank = 0;
  const bool sized = shape_.world_size > 0;
  const std::string why =
      sized ? absl::StrCat(Quote("world-size", shape_.world_size), " and ", QuoteSlots(), " make one node")
            : std::string("there is one node");
  const std::string more =
      sized ? absl::StrCat("for two nodes of ", shape_.slots, " workers give --world_size ", 2 * shape_.slots)
            : std::string("for several nodes give --world_size or --nnodes");
  for (const auto& [name, rank] : {std::pair("node-rank", options_.node_rank), {"base-rank", options_.base_rank}}) {
    if (rank > 0) return Refuse(Quote(name, rank), " cannot be: ", why, ", whose ", name, " is 0; ", more);
  }
  return absl::OkStatus();
}

absl::Status Decision::Ranks() {
  shape_.node_rank = options_.node_rank;
  shape_.base_rank = options_.base_rank;
  if (shape_.node_rank < 0 && shape_.base_rank < 0 && query_.platform.node_rank >= 0) {
    Settle("node-rank", shape_.node_rank = query_.platform.node_rank, query_.platform.name);
  }
  const bool composer_way = options_.max_nodes == 0;
  const bool met_by_address = !options_.rdzv_endpoint.empty();
  if (shape_.node_rank < 0 && shape_.base_rank < 0 && composer_way && !met_by_address) {
    return Refuse(Quote("world-size", shape_.world_size), " and ", QuoteSlots(), " make ", shape_.max_nodes,
                  " nodes: --node_rank must say which of them this is, 0 to ", shape_.max_nodes - 1,
                  " (or --base_rank)");
  }
  if (shape_.node_rank >= shape_.max_nodes) {
    return Refuse(Quote("node-rank", shape_.node_rank), " cannot be: there are at most ", shape_.max_nodes,
                  " nodes, so it must be from 0 to ", shape_.max_nodes - 1);
  }
  if (shape_.world_size > 0) RETURN_IF_ERROR(RanksOfEqualNodes());
  const int64_t end = static_cast<int64_t>(shape_.base_rank) + shape_.slots;
  if (shape_.world_size > 0 && shape_.base_rank >= 0 && end > shape_.world_size) {
    return Refuse(Quote("base-rank", shape_.base_rank), " with ", QuoteSlots(), " makes rank ", end - 1, ", but ",
                  Quote("world-size", shape_.world_size), " allows ranks up to ", shape_.world_size - 1);
  }
  return absl::OkStatus();
}

// If all nodes have as many workers as this one, the missing rank follows from the other one.
absl::Status Decision::RanksOfEqualNodes() {
  if ((shape_.node_rank < 0) == (shape_.base_rank < 0)) return absl::OkStatus();
  const char* missing = shape_.node_rank < 0 ? "node-rank" : "base-rank";
  const bool even = shape_.world_size % shape_.slots == 0 && std::max(0, shape_.base_rank) % shape_.slots == 0;
  if (!even) {
    const std::string given =
        shape_.node_rank < 0 ? Quote("base-rank", shape_.base_rank) : Quote("node-rank", shape_.node_rank);
    return Refuse(missing, " is missing and cannot be found out: ", given, ", ", QuoteSlots(), " and ",
                  Quote("world-size", shape_.world_size), " mean nodes of different nproc");
  }
  if (shape_.node_rank < 0) {
    Settle("node-rank", shape_.node_rank = shape_.base_rank / shape_.slots, "base-rank / nproc");
  } else {
    const int64_t base = static_cast<int64_t>(shape_.node_rank) * shape_.slots;
    shape_.base_rank = static_cast<int>(std::min<int64_t>(base, shape_.world_size));
    Settle("base-rank", shape_.base_rank, "node-rank x nproc");
  }
  return absl::OkStatus();
}

absl::Status Decision::Meeting() {
  if (!options_.rdzv_endpoint.empty() && FromFlag("master-addr") && FromFlag("rdzv-endpoint")) {
    return Refuse("--rdzv-endpoint and --master_addr both say where the nodes meet: leave one of them out");
  }
  const bool alone = shape_.one_node() && (options_.standalone || options_.rdzv_endpoint.empty());
  if (!alone) return RendezvousOfSeveral();
  const int port = FromFlag("master-port") ? options_.master_port : 0;
  if (options_.master_port > 0 && port == 0) {
    Settle("master-port", "any free one", "one node: MASTER_PORT of the environment does not count");
  }
  shape_.endpoints = {{"127.0.0.1", port}};
  Settle("rendezvous", shape_.endpoints[0].ToString(), "one node");
  return absl::OkStatus();
}

absl::Status Decision::RendezvousOfSeveral() {
  const PlatformShape& platform = query_.platform;
  std::string places = options_.rdzv_endpoint, origin = "rdzv-endpoint";
  int port = places.empty() ? kDefaultMasterPort : kDefaultEndpointPort;
  if (platform.port > 0) port = platform.port;
  if (options_.master_port >= 0) port = options_.master_port;
  const char* source = "rdzv-endpoint";
  if (places.empty()) {
    places = options_.master_addr;
    source = "master-addr";
    origin = source;
  }
  if (places.empty() && !platform.hosts.empty()) {
    for (const std::string& host : platform.hosts) absl::StrAppend(&places, places.empty() ? "" : ",", host);
    origin = platform.name;
  }
  if (places.empty()) {
    return Refuse(shape_.max_nodes,
                  " nodes must know where to meet: give --master_addr, the address of node 0 (and --master_port, by "
                  "default ",
                  kDefaultMasterPort, "), or --rdzv-endpoint HOST:PORT");
  }
  auto endpoints = ParseEndpoints(places, port);
  if (!endpoints.ok()) return Refuse(source, ": ", endpoints.status().message());
  if (endpoints->size() > 1 && source == std::string("master-addr") && options_.master_addr == places) {
    return Refuse("master-addr `", places, "` must be one host; --rdzv-endpoint takes several");
  }
  shape_.endpoints = *std::move(endpoints);
  for (const Endpoint& endpoint : shape_.endpoints) {
    if (endpoint.port == 0 && !shape_.one_node()) {
      return Refuse(
          "port 0 is any free one, which the other nodes would not know: give a --master_port from 1 to 65535");
    }
  }
  const auto is_host = options_.rdzv_conf.find("is_host");
  bool told = false;
  if (is_host != options_.rdzv_conf.end() && absl::SimpleAtob(is_host->second, &told)) {
    shape_.hosting = told ? Hosting::kYes : Hosting::kNo;
  } else if (shape_.node_rank < 0 || (!options_.rdzv_endpoint.empty() && shape_.endpoints.size() == 1)) {
    shape_.hosting = Hosting::kIfLocal;
  } else {
    shape_.hosting = shape_.node_rank == 0 ? Hosting::kYes : Hosting::kNo;
  }
  Settle("rendezvous", shape_.endpoints[0].ToString(), origin);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LaunchShape> DecideShape(const ShapeQuery& query) { return Decision(query).Make(); }

}  // namespace composer
