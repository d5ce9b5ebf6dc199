// Loads the library made from test_plugin.cc, and copies of it with bytes changed.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "job/job.h"
#include "job/plugin/plugin_loader.h"
#include "job/run/build_trainer.h"
#include "tests/support/temp_dir.h"
#include "trainer/core/torch_status.h"
#include "trainer/trainer.h"

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class PluginTest : public ::testing::Test {
 protected:
  PluginTest() {
    library_ = ReadFile(TEST_PLUGIN).value();
    EXPECT_TRUE(AtomicWriteFile(dir_.Path("libgood.so"), library_).ok());
  }

  // Returns a copy with the first occurrence of `from` overwritten.
  std::string Changed(const std::string& from, const std::string& to) {
    std::string bytes = library_;
    const size_t at = bytes.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    EXPECT_LE(to.size(), from.size());
    bytes.replace(at, to.size(), to);
    return Written(bytes);
  }
  std::string InMode(const std::string& mode) {
    return Changed("TEST_PLUGIN_MODE=good         ", absl::StrCat("TEST_PLUGIN_MODE=", mode, " "));
  }
  // Uses a new file each time, because glibc recognises a loaded library by its inode.
  std::string Written(const std::string& bytes) {
    const std::string path = dir_.Path(absl::StrCat("libcopy", ++copies_, ".so"));
    EXPECT_TRUE(AtomicWriteFile(path, bytes).ok());
    return path;
  }
  static std::string Refusal(const std::string& path) {
    PluginRegistry registry({{"model", {"mlp"}}, {"store", {"s3"}}});
    const absl::Status status = LoadPlugin(path, registry);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    return std::string(status.message());
  }

  absl::StatusOr<Job> Read(const std::string& changes, const std::string& model = "slope, start: 0.5") {
    const std::string yaml = absl::StrCat(
        "plugins: [libgood.so]\nmodel: {name: ", model,
        "}\n"
        "train_dataloader: {name: points, slope: 3, size: 64}\nglobal_train_batch_size: 8\n"
        "optimizers: {name: plain_sgd, lr: 0.02}\nmax_duration: 5ep\nprogress_bar: false\nautoresume: false\n",
        changes);
    EXPECT_TRUE(AtomicWriteFile(dir_.Path("job.yaml"), yaml).ok());
    return ReadJob({.yaml_path = dir_.Path("job.yaml"), .run_folder = dir_.Path("run")}, Environment());
  }
  std::string Error(const std::string& changes) { return std::string(Read(changes).status().message()); }

  // Returns what CMake computes from the source's headers, in a copy of them after `change` (a shell command, or
  // FLAGS=…).
  std::string HashOfHeaders(const std::string& change) {
    const std::string copy = dir_.Path(absl::StrCat("source", ++copies_));
    const bool flags = absl::StartsWith(change, "FLAGS=");
    const std::string command = absl::StrCat(
        "mkdir -p ", copy,
        "/generated && cd " COMPOSER_SOURCE_DIR
        " && cp -r --parents base net storage data checkpoint trainer tracking views include config/plugin_note.h "
        "job/plugin/plugin*.h ",
        copy, " && cp -r " COMPOSER_GENERATED_DIR "/composer ", copy, "/generated && cd ", copy, " && ",
        change.empty() || flags ? "true" : change,
        " && " CMAKE_PROGRAM " -DROOT=$PWD -DGENERATED=$PWD/generated '-DFLAGS=",
        flags ? change.substr(6) : COMPOSER_INTERFACE_FLAGS, "' -P " COMPOSER_SOURCE_DIR "/cmake/InterfaceHash.cmake");
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    const std::string header = ReadFile(copy + "/generated/composer/interface.h").value();
    const size_t at = header.find("kInterfaceHash[] = \"");
    return at == std::string::npos ? header : header.substr(at + 20, 16);
  }

  TempDir dir_;
  std::string library_;
  int copies_ = 0;
};

TEST_F(PluginTest, TrainsWhatThePluginMakes) {
  absl::StatusOr<Job> job = Read(
      "schedulers: {name: half}\ncallbacks: {ends_early: {when: 30ba}, nan_monitor: }\n"
      "eval_dataloader: {name: points, slope: 3}\n");
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(MakeDirs(job->run_folder).ok());
  auto options = BuildTrainerOptions(*std::move(job), {});
  ASSERT_TRUE(options.ok()) << options.status();
  auto trainer = Trainer::Create(*std::move(options));
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const absl::Status fitted = (*trainer)->Fit();
  ASSERT_TRUE(fitted.ok()) << fitted;
  EXPECT_EQ((*trainer)->state().timestamp.batch, 30);
  EXPECT_EQ((*trainer)->logger().Last("test/batches"), 30);
  EXPECT_EQ((*trainer)->state().optimizer->groups()[0].lr, 0.01);
  EXPECT_NEAR((*trainer)->state().model->named_parameters()["slope"].item<double>(), 3, 0.2);
}

TEST_F(PluginTest, APluginsLoggerSeesEventsAndKeepsFiles) {
  absl::StatusOr<Job> job = Read("loggers: {watcher: }\n");
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(MakeDirs(job->run_folder).ok());
  auto trainer = Trainer::Create(BuildTrainerOptions(*std::move(job), {}).value());
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  ASSERT_TRUE((*trainer)->Fit().ok());
  EXPECT_EQ(*ReadFile(dir_.Path("run/seen")),
            "fit_start 0\nepoch_end 8\nepoch_end 16\nepoch_end 24\nepoch_end 32\nepoch_end 40\nfit_end 40\n");
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("weights"), "of a file").ok());
  (*trainer)->logger().LogFile("weights", dir_.Path("weights"));
  ASSERT_TRUE((*trainer)->logger().FetchFile("weights", dir_.Path("again")).ok());
  EXPECT_EQ(*ReadFile(dir_.Path("again")), "of a file");
}

TEST_F(PluginTest, APluginsModelIsGeneratedFrom) {
  const std::string generate = "callbacks: {generate: {prompts: [a, klm], interval: 100ba, max_new_tokens: 3}}\n";
  absl::StatusOr<Job> job = Read(generate, "alphabet");
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(MakeDirs(job->run_folder).ok());
  auto trainer = Trainer::Create(BuildTrainerOptions(*std::move(job), {}).value());
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  EXPECT_THAT((*trainer)->Generate({"a", "klm"}, {.max_new_tokens = 3}).value(), ElementsAre("BCD", "NOP"));
  ASSERT_TRUE((*trainer)->Fit().ok());
  EXPECT_THAT(ReadFile(dir_.Path("run/tables.jsonl")).value(), HasSubstr(R"([["a","BCD"],["klm","NOP"]])"));
  const auto refused = Trainer::Create(BuildTrainerOptions(*Read(generate), {}).value());
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("the model is not a language model"));
}

TEST_F(PluginTest, AlgorithmsComeFromPlugins) {
  absl::StatusOr<Job> job = Read("algorithms: {doubles: }\n");
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(MakeDirs(job->run_folder).ok());
  auto options = BuildTrainerOptions(*std::move(job), {}).value();
  options.max_duration = Time::Epochs(20);
  auto trainer = Trainer::Create(std::move(options)).value();
  ASSERT_TRUE(trainer->Fit().ok());
  EXPECT_NEAR(trainer->state().model->named_parameters()["slope"].item<double>(), 1.5, 0.01);
}

TEST_F(PluginTest, DataComesFromPluginsPartByPart) {
  const std::string yaml =
      "plugins: [libgood.so]\nmodel: {name: slope}\nglobal_train_batch_size: 8\nmax_duration: 5ep\n"
      "optimizers: {name: plain_sgd, lr: 0.02}\nprogress_bar: false\nsave_folder: shelf://checkpoints\n"
      "train_dataloader: {name: counted, place: shelf://data, transforms: [{times: {factor: 2}}], collate: {name: "
      "x_first}, order: {name: backwards}}\n";
  EXPECT_TRUE(AtomicWriteFile(dir_.Path("job.yaml"), yaml).ok());
  const auto read = [&] {
    return ReadJob({.yaml_path = dir_.Path("job.yaml"), .run_folder = dir_.Path("run")}, Environment());
  };
  absl::StatusOr<Job> job = read();
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_TRUE(MakeDirs(job->run_folder).ok());
  const std::shared_ptr<ObjectStore> shelf = *job->plugins->tables().stores.at("shelf")("shelf://data");
  EXPECT_THAT(std::string(BuildTrainerOptions(*read(), {}).status().message()), HasSubstr("train_dataloader"))
      << "the store has no such object yet";
  ASSERT_TRUE(shelf->Put("size", {std::string(64, 'x')}).ok());
  auto options = BuildTrainerOptions(*std::move(job), {});
  ASSERT_TRUE(options.ok()) << options.status();
  std::vector<int64_t> first;
  auto trainer = Trainer::Create(*std::move(options));
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const absl::Status fitted = (*trainer)->Fit();
  ASSERT_TRUE(fitted.ok()) << fitted;
  EXPECT_EQ((*trainer)->state().timestamp.batch, 40);
  EXPECT_THAT((*trainer)->state().batch.sample_ids, ElementsAre(7, 6, 5, 4, 3, 2, 1, 0));
  EXPECT_NEAR((*trainer)->state().model->named_parameters()["slope"].item<double>(), 1.5, 0.05);
  EXPECT_FALSE(shelf->List("").value().empty()) << "checkpoints went to the plugin's store";
}

TEST_F(PluginTest, ABuiltInAlgorithmReplacesItsLayersByItsPolicies) {
  const auto trained = [&](const std::string& changes) {
    absl::StatusOr<Job> job = Read(changes, "gains");
    EXPECT_TRUE(job.ok()) << job.status();
    EXPECT_TRUE(MakeDirs(job->run_folder).ok());
    TrainerOptions options = BuildTrainerOptions(*std::move(job), {}).value();
    options.max_duration = Time::Epochs(20);
    auto trainer = Trainer::Create(std::move(options)).value();
    const absl::Status fitted = trainer->Fit();
    EXPECT_TRUE(fitted.ok()) << fitted;
    const auto params = trainer->state().model->named_parameters();
    return std::pair(params.keys()[0], params[0].value().item<double>());
  };
  EXPECT_EQ(trained("").first, "gain.factor");
  const auto [name, factor] = trained("algorithms: {squeeze_excite: }\n");
  EXPECT_EQ(name, "gain.gain.factor");
  EXPECT_NEAR(factor, 2, 0.05) << "the slope is 3, and the replacement adds the input";
}

TEST_F(PluginTest, KeysOfPluginsAreCheckedLikeBuiltInOnes) {
  EXPECT_THAT(Error("model2: 1\n"), HasSubstr("job.yaml:9:1: model2: unknown key"));
  const struct {
    const char* changes;
    const char* message;
  } cases[] = {
      {"callbacks: {ends_early: {wen: 3ba}}\n",
       "job.yaml:9:26: callbacks.ends_early.wen: unknown key (did you mean `when`?)"},
      {"callbacks: {ends_early: {when: soon}}\n", "job.yaml:9:32: callbacks.ends_early.when: "},
      {"eval_dataloader: {name: points, slope: steep}\n", "eval_dataloader.slope: expected a number, got `steep`"},
      {"eval_dataloader: {name: points}\n", "eval_dataloader.slope: is required"},
      {"eval_dataloader: {name: points, slope: 1, size: 0}\n", "must be at least 1, got 0"},
      {"eval_dataloader: {name: pionts, slope: 1}\n",
       "names that docs/configuration.md lists (did you mean `points`?)"},
      {"callbacks: {ends_erly: }\n", "did you mean `ends_early`?"},
      {"algorithms: {double: {alpha: 1}}\n", "names that docs/configuration.md lists (did you mean `doubles`?)"},
      {"schedulers: {name: haf}\n", "did you mean `half`?"},
  };
  for (const auto& c : cases) {
    const std::string error = Error(c.changes);
    EXPECT_THAT(error, HasSubstr(c.message)) << c.changes;
    EXPECT_THAT(error, Not(HasSubstr("\n"))) << "one error and no more";
  }
}

TEST_F(PluginTest, WhatAFactoryDoesWrongNamesIt) {
  const auto built = [&](const std::string& model) {
    const std::string yaml =
        absl::StrCat("plugins: [libgood.so]\nmodel: {name: ", model,
                     "}\ntrain_dataloader: {name: points, slope: 3}\nglobal_train_batch_size: 8\nmax_duration: 1ep\n");
    EXPECT_TRUE(AtomicWriteFile(dir_.Path("job.yaml"), yaml).ok());
    return CatchTorch([&]() -> absl::Status {
      auto job = ReadJob({.yaml_path = dir_.Path("job.yaml"), .run_folder = dir_.Path("run")}, Environment());
      if (!job.ok()) return job.status();
      const absl::StatusOr<TrainerOptions> options = BuildTrainerOptions(*std::move(job), {});
      if (!options.ok()) return options.status();
      ConstructModel(options->make_model, options->seed);
      return absl::OkStatus();
    });
  };
  EXPECT_TRUE(MakeDirs(dir_.Path("run")).ok());
  const struct {
    const char* model;
    const char* message;
  } cases[] = {{"no_model", "its factory gave nothing"},
               {"bad_model", "sizes do not fit"},
               {"bad_reader", "no luck"},
               {"no_factory", "its reader gave no factory"}};
  for (const auto& c : cases) {
    const absl::Status status = built(c.model);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.model << status;
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr(c.message), HasSubstr(absl::StrCat("`", c.model, "` of plugin ")), HasSubstr("libgood.so")));
  }
  auto job = Read("eval_dataloader: {name: no_data}\n");
  ASSERT_TRUE(job.ok()) << job.status();
  const absl::Status status = BuildTrainerOptions(*std::move(job), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("no_data"), HasSubstr("/data/x")));
}

// Regression test for R7: sizes did not reveal reordered members, new enumerators and changed virtual functions.
TEST_F(PluginTest, AnyOtherHeaderIsAnotherInterface) {
  const std::string same = HashOfHeaders("");
  EXPECT_EQ(same, kInterfaceHash);
  EXPECT_NE(HashOfHeaders("sed -i 's/kInit,/kFirst,/' trainer/core/event.h"), same);
  EXPECT_NE(HashOfHeaders("touch trainer/new.h"), same);
  EXPECT_NE(HashOfHeaders("FLAGS=-DX"), same);
}

TEST_F(PluginTest, AWrongVersionIsRefusedBeforeAnythingRuns) {
  const PluginInfo info = ReadPluginInfo(dir_.Path("libgood.so")).value();
  EXPECT_STREQ(info.name, "test_plugin");
  EXPECT_TRUE(CheckPluginInfo(info).ok());
  const std::string witness = dir_.Path("witness");
  setenv("TEST_PLUGIN_WITNESS", witness.c_str(), 1);
  const auto with = [&](auto change) {
    PluginInfo changed = info;
    change(changed);
    std::string bytes = library_;
    const std::string original(reinterpret_cast<const char*>(&info), sizeof(info));
    bytes.replace(bytes.find(original), sizeof(info), reinterpret_cast<const char*>(&changed), sizeof(changed));
    return Refusal(Written(bytes));
  };
  EXPECT_THAT(with([](PluginInfo& i) { i.interface_version = 9; }), HasSubstr("plugin interface 9, but this"));
  // The note of that version has another size, and nothing of it but the number can be read.
  PluginInfo other = info;
  other.interface_version = 2;
  const size_t content = library_.find(std::string(reinterpret_cast<const char*>(&info), sizeof(info)));
  std::string bytes = library_;
  bytes.replace(content, sizeof(other), reinterpret_cast<const char*>(&other), sizeof(other));
  const uint32_t size = sizeof(other.interface_version);
  bytes.replace(content - offsetof(PluginNote, content) + offsetof(PluginNote, content_size), sizeof(size),
                reinterpret_cast<const char*>(&size), sizeof(size));
  EXPECT_THAT(Refusal(Written(bytes)), HasSubstr(absl::StrCat("built for plugin interface 2, but this composer_worker "
                                                              "has ",
                                                              kPluginInterface, ": build it again")));
  EXPECT_THAT(with([](PluginInfo& i) { CopyText(i.composer, "9.8.7"); }),
              AllOf(HasSubstr("built for Composer 9.8.7, but this composer_worker has "), HasSubstr(kVersion)));
  EXPECT_THAT(with([](PluginInfo& i) { CopyText(i.torch, "2.99.0"); }), HasSubstr("built for LibTorch 2.99.0"));
  EXPECT_THAT(with([](PluginInfo& i) { CopyText(i.toolchain, "libc++"); }), HasSubstr("toolchain libc++"));
  EXPECT_THAT(with([](PluginInfo& i) { i.headers[3] ^= 1; }), HasSubstr("built with other headers of Composer "));
  EXPECT_EQ(std::string(info.headers), HashOfHeaders(""));
  // The text fills its field without a terminating zero.
  EXPECT_THAT(with([](PluginInfo& i) { std::fill(std::begin(i.torch), std::end(i.torch), 'x'); }), HasSubstr("xxxx,"));
  EXPECT_FALSE(PathExists(witness));
  PluginRegistry registry;
  EXPECT_TRUE(LoadPlugin(Written(library_), registry).ok());
  EXPECT_TRUE(PathExists(witness));
  unsetenv("TEST_PLUGIN_WITNESS");
}

TEST_F(PluginTest, FilesThatAreNoPlugins) {
  EXPECT_THAT(Refusal(Written("#!/bin/sh\n")), HasSubstr("not a shared library"));
  EXPECT_THAT(Refusal(Written("")), HasSubstr("not a shared library"));
  EXPECT_THAT(Refusal("/lib/x86_64-linux-gnu/libm.so.6"), HasSubstr("has no COMPOSER_PLUGIN"));
  EXPECT_THAT(Refusal(Written(library_.substr(0, 100))), HasSubstr("damaged"));
  EXPECT_THAT(Refusal(Written(library_.substr(0, library_.size() / 4))), HasSubstr("ends before its segments"));
  PluginRegistry registry;
  EXPECT_EQ(LoadPlugin(dir_.Path("none.so"), registry).code(), absl::StatusCode::kNotFound);
}

TEST_F(PluginTest, LibrariesThatCannotBeLoaded) {
  EXPECT_THAT(Refusal(Changed("_ZN8composer12PluginConfig6DoubleE", "_ZN8composer12PluginConfig6DaubleE")),
              AllOf(HasSubstr("undefined symbol: composer::PluginConfig::Dauble("), HasSubstr("other headers")));
  EXPECT_THAT(Refusal(Changed("libtorch_cpu.so", "libtorch_gnu.so")), HasSubstr("libtorch_gnu.so"));
  EXPECT_THAT(Refusal(Changed("composer_plugin_v1", "composer_plugin_v2")),
              AnyOf(HasSubstr("no entry point composer_plugin_v1"),
                    HasSubstr("undefined symbol: composer_plugin_v2")));  // AddressSanitizer's libraries refer to it
}

TEST_F(PluginTest, RegistrationsThatFail) {
  EXPECT_THAT(Refusal(InMode("throws")), HasSubstr("its registration threw: no configuration"));
  EXPECT_THAT(Refusal(InMode("throws_int")), HasSubstr("an exception of unknown type"));
  EXPECT_THAT(Refusal(InMode("nothing")), HasSubstr("it registers nothing"));
  EXPECT_THAT(Refusal(InMode("twice")), HasSubstr("scheduler `half`: registered twice"));
  EXPECT_THAT(Refusal(InMode("clash")), HasSubstr("model `mlp`: that name is built in"));
  EXPECT_THAT(Refusal(InMode("same_data")), HasSubstr("dataset `points`: registered twice"));
  EXPECT_THAT(Refusal(InMode("store_clash")), HasSubstr("store `s3`: that name is built in"));
  EXPECT_THAT(Refusal(InMode("bad_name")), HasSubstr("model `my model`: a name is"));
  EXPECT_THAT(Refusal(InMode("same_policy")),
              HasSubstr("layer policy `steady_gain`: already registered for squeeze_excite by plugin "));
  EXPECT_THAT(Refusal(InMode("empty_policy")), HasSubstr("layer policy `empty`: registered without a function"));
  EXPECT_THAT(Refusal(InMode("no_reader")), HasSubstr("model `empty`: registered without a reader"));
  PluginRegistry registry;
  ASSERT_TRUE(LoadPlugin(dir_.Path("libgood.so"), registry).ok());
  const absl::Status again = LoadPlugin(Written(library_), registry);
  EXPECT_THAT(std::string(again.message()),
              HasSubstr(absl::StrCat("model `slope`: already registered by plugin ", dir_.Path("libgood.so"))));
}

TEST_F(PluginTest, APolicyForAnUnknownAlgorithmIsAnError) {
  const std::string bytes = ReadFile(InMode("lost_policy")).value();
  EXPECT_TRUE(AtomicWriteFile(dir_.Path("libgood.so"), bytes).ok());
  EXPECT_THAT(Error(""), AllOf(HasSubstr("libgood.so: layer policy `steady_gain`: algorithm `squeeze_exite`"),
                               HasSubstr("did you mean `squeeze_excite`?")));
}

TEST_F(PluginTest, ErrorsOfPluginsComeAloneAndWithTheirPlace) {
  EXPECT_TRUE(AtomicWriteFile(dir_.Path("text.so"), "text").ok());
  const auto error = [&](const std::string& plugins) {
    const std::string yaml = "max_duration: 1ep\nplugins: [" + plugins +
                             "]\nmodel: {name: mlp}\ntrain_dataloader: {name: gaussian_classification}\n"
                             "global_train_batch_size: 8\ncallbacks: {plugins_own: }\n";
    EXPECT_TRUE(AtomicWriteFile(dir_.Path("job.yaml"), yaml).ok());
    return std::string(ReadJob({.yaml_path = dir_.Path("job.yaml")}, Environment()).status().message());
  };
  EXPECT_THAT(error("./text.so, gone.so"),
              AllOf(HasSubstr("job.yaml:2:10: plugins: `gone.so`: "), Not(HasSubstr("plugins_own"))));
  EXPECT_THAT(error("./text.so"), AllOf(HasSubstr("job.yaml:2:10: plugins: plugin "),
                                        HasSubstr("text.so: not a shared library"), Not(HasSubstr("plugins_own"))));
}

}  // namespace
}  // namespace composer
