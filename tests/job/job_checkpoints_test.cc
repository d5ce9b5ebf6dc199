// Tests the keys save_*, load_*, autoresume, and the callbacks checkpoint_saver and load_checkpoint.
// SPDX-License-Identifier: Apache-2.0
#include "job/job_checkpoints.h"

#include "base/file.h"
#include "tests/worker/named_keys.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SaveOptions Saving(const std::string& yaml) {
  SaveOptions save;
  EXPECT_EQ(ErrorOf(yaml, [&](ConfigMap& root) { save = ReadSaving(root, "r", "/runs/r"); }), "") << yaml;
  return save;
}
LoadOptions Loading(const std::string& yaml) {
  LoadOptions load;
  EXPECT_EQ(ErrorOf(yaml, [&](ConfigMap& root) { load = ReadLoading(root); }), "") << yaml;
  return load;
}
std::vector<SaveOptions> Savers(const std::string& yaml) {
  std::vector<SaveOptions> savers;
  EXPECT_EQ(ErrorOf(yaml, [&](ConfigMap& root) { savers = ReadCheckpointSavers(root, "r"); }), "") << yaml;
  return savers;
}
std::string Error(const std::string& yaml) {
  return ErrorOf(yaml, [](ConfigMap& root) {
    ReadSaving(root, "r", "/runs/r"), ReadLoading(root), ReadCheckpointSavers(root, "r");
  });
}

TEST(JobCheckpointsTest, SavingHasDefaultsAndKeys) {
  const SaveOptions usual = Saving("{}");
  EXPECT_EQ(usual.save_folder, "/runs/r/checkpoints");
  EXPECT_EQ(usual.save_interval.every().ToString(), "1ep");
  EXPECT_EQ(usual.save_num_checkpoints_to_keep, -1);
  EXPECT_TRUE(usual.autoresume);
  EXPECT_FALSE(usual.save_overwrite || usual.save_weights_only);
  EXPECT_TRUE(usual.save_async);
  EXPECT_EQ(usual.save_overlap, SaveOverlap::kWait);
  EXPECT_THAT(usual.save_ignore_keys.patterns(), IsEmpty());
  const SaveOptions other = Saving(
      "{save_folder: /ck, save_interval: 0.5dur, save_num_checkpoints_to_keep: 2, autoresume: false, "
      "save_overwrite: true, save_weights_only: true, save_async: false, save_overlap: skip, "
      "save_ignore_keys: [optimizer/*, rng]}");
  EXPECT_FALSE(other.save_async);
  EXPECT_EQ(other.save_overlap, SaveOverlap::kSkip);
  EXPECT_EQ(other.save_folder, "/ck");
  EXPECT_EQ(other.save_interval.every().ToString(), "0.5dur");
  EXPECT_EQ(other.save_num_checkpoints_to_keep, 2);
  EXPECT_FALSE(other.autoresume);
  EXPECT_TRUE(other.save_overwrite && other.save_weights_only);
  EXPECT_THAT(other.save_ignore_keys.patterns(), ElementsAre("optimizer/*", "rng"));
}

TEST(JobCheckpointsTest, ComposersFileNamesMeanAFolderAndALink) {
  const struct {
    const char* keys;
    const char* folder;
    const char* latest;
    const char* link = "";
  } kCases[] = {
      {"{save_folder: /ck}", "/ck", "latest"},
      {"{save_folder: /ck, save_filename: 'ep{epoch}-ba{batch}-rank{rank}.pt', save_latest_filename: "
       "'latest-rank{rank}.pt'}",
       "/ck", "latest", "ep{epoch}-ba{batch}-rank{rank}.pt"},
      {"{save_folder: /ck, save_filename: 'ba{batch:06}-rank{rank}.pt'}", "/ck", "latest",
       "ba{batch:06}-rank{rank}.pt"},
      {"{save_folder: /ck, save_filename: '{run_name}/e{epoch}/{token}-{total_wct}.pt'}", "/ck", "latest",
       "{run_name}/e{epoch}/{token}-{total_wct}.pt"},
      {"{save_folder: /ck, save_filename: '{run_name}/best.pt'}", "/ck/r", "latest", "best.pt"},
      {"{save_folder: /ck, save_filename: 'ep{epoch}-ba{batch}'}", "/ck", "latest"},
      {"{save_folder: /ck, save_filename: '{run_name}/x/ep{epoch}-ba{batch}-rank{rank}.pt', save_latest_filename: "
       "'{run_name}/x/newest-rank{rank}.symlink'}",
       "/ck/r/x", "newest", "ep{epoch}-ba{batch}-rank{rank}.pt"},
      {"{save_folder: 's3://b/{run_name}', save_filename: 'a/ep{epoch}-ba{batch}', save_latest_filename: ''}",
       "s3://b/r/a", ""},
  };
  for (const auto& test : kCases) {
    const SaveOptions save = Saving(test.keys);
    EXPECT_EQ(save.save_folder, test.folder) << test.keys;
    EXPECT_EQ(save.save_latest, test.latest) << test.keys;
    EXPECT_EQ(save.save_filename, test.link) << test.keys;
  }
  const std::pair<const char*, const char*> kMistakes[] = {
      {"{save_filename: 'ba{batsh}.pt'}", "save_filename: unknown placeholder {batsh}; there are {run_name}"},
      {"{save_filename: 'ba{batsh}.pt'}", "(did you mean `batch`?)"},
      {"{save_filename: 'ba{batch'}", "{ without }"},
      {"{save_filename: 'ep{epoch}-ba{batch}/model.pt'}", "cannot be the name of a file that leads to a checkpoint"},
      {"{save_filename: 'my model {batch}'}", "cannot be the name of a file that leads to a checkpoint"},
      {"{save_filename: 'newest', save_latest_filename: newest}", "the file that names the newest checkpoint"},
      {"{save_filename: 'ep{epoch}-ba{batch}.pt.zst'}",
       "checkpoints are not packed: each is a folder that ranks read pieces of; write \"ep{epoch}-ba{batch}.pt\", and "
       "pack one with `composer checkpoint export RUN x.pt.gz`"},
      {"{save_filename: '../ep{epoch}-ba{batch}'}", "must stay below save_folder"},
      {"{save_filename: 'a/../../ep{epoch}-ba{batch}'}", "must stay below save_folder"},
      {"{save_filename: '/a/ep{epoch}-ba{batch}'}", "must stay below save_folder"},
      {"{save_latest_filename: 'x/latest'}", "save_latest_filename: "},
      {"{save_latest_filename: 'ep1-ba2'}", "cannot be the name"},
      {"{save_latest_filename: 'a b'}", "cannot be the name"},
  };
  for (const auto& [keys, message] : kMistakes) EXPECT_THAT(Error(keys), HasSubstr(message)) << keys;
}

TEST(JobCheckpointsTest, LoadingHasDefaultsAndKeys) {
  const LoadOptions usual = Loading("{}");
  EXPECT_EQ(usual.load_path, "");
  EXPECT_TRUE(usual.load_strict_model_weights);
  EXPECT_FALSE(usual.load_weights_only);
  const LoadOptions other = Loading(
      "{load_path: /x, load_weights_only: true, load_strict_model_weights: false, load_ignore_keys: model/head.*, "
      "load_exclude_algorithms: [BlurPool, EMA]}");
  EXPECT_EQ(other.load_path, "/x");
  EXPECT_TRUE(other.load_weights_only);
  EXPECT_FALSE(other.load_strict_model_weights);
  EXPECT_THAT(other.load_ignore_keys.patterns(), ElementsAre("model/head.*"));
  EXPECT_THAT(other.load_exclude_algorithms, ElementsAre("BlurPool", "EMA"));
}

TEST(JobCheckpointsTest, EveryRootKeyIsReadAndMistakesAreNamed) {
  for (const char* key :
       {"save_folder", "save_filename", "save_latest_filename", "save_interval", "save_num_checkpoints_to_keep",
        "save_metrics", "autoresume", "save_overwrite", "save_weights_only", "save_async", "save_overlap",
        "save_ignore_keys", "load_path", "load_weights_only", "load_strict_model_weights", "load_ignore_keys",
        "load_exclude_algorithms"}) {
    EXPECT_THAT(Error(absl::StrCat("{", key, ": {x: 1}}")), HasSubstr(absl::StrCat(key, ": expected")));
    EXPECT_THAT(Error(absl::StrCat("{", key, "s: 1}")), HasSubstr(absl::StrCat("did you mean `", key, "`?")));
  }
  EXPECT_THAT(Error("{save_top_k: 3}"), HasSubstr("save_top_k: expected"));
  EXPECT_THAT(Error("{save_num_checkpoints_to_keep: 0}"), HasSubstr("must be at least 1, or -1 to keep all"));
  EXPECT_THAT(Error("{save_num_checkpoints_to_keep: -2}"), HasSubstr("must be at least -1, got -2"));
  EXPECT_THAT(Error("{save_overlap: queue}"), HasSubstr("save_overlap: "));
  EXPECT_THAT(Error("{save_interval: never}"), HasSubstr("save_interval: "));
  EXPECT_THAT(Error("{save_weights_only: true}"), HasSubstr("no run can go on from weights alone"));
  EXPECT_EQ(Error("{save_weights_only: true, autoresume: false}"), "");
  EXPECT_THAT(Error("{callbacks: {checkpoint_saver: }}"), HasSubstr("checkpoint_saver.folder: is required"));
}

TEST(JobCheckpointsTest, TheBestAreKeptByAMetric) {
  EXPECT_FALSE(Saving("{}").save_top_k.has_value());
  const struct {
    const char* keys;
    int k;
    bool less;
  } kCases[] = {
      {"monitor: metrics/eval/MulticlassAccuracy", 1, false},
      {"monitor: metrics/eval/CrossEntropy, k: 3", 3, true},
      {"monitor: metrics/eval/CrossEntropy, mode: max", 1, false},
      {"monitor: metrics/eval/MulticlassAccuracy, mode: min", 1, true},
  };
  for (const auto& test : kCases) {
    const SaveOptions save = Saving(absl::StrCat("{save_top_k: {", test.keys, "}}"));
    ASSERT_TRUE(save.save_top_k.has_value());
    EXPECT_EQ(save.save_top_k->k, test.k) << test.keys;
    EXPECT_EQ(save.save_top_k->less_is_better, test.less) << test.keys;
  }
  EXPECT_THAT(Error("{save_top_k: {k: 2}}"), HasSubstr("save_top_k.monitor: is required"));
  EXPECT_THAT(Error("{save_top_k: {monitor: Accuracy}}"), HasSubstr("say whose: metrics/eval/Accuracy"));
  EXPECT_THAT(Error("{save_top_k: {monitor: a/b, k: 0}}"), HasSubstr("save_top_k.k: must be at least 1"));
  EXPECT_THAT(Error("{save_top_k: {monitor: a/b, mode: best}}"), HasSubstr("save_top_k.mode: "));
  const auto savers = Savers(
      "{callbacks: {checkpoint_saver: {folder: '/a/{run_name}', filename: 'w{batch}', save_metrics: true, top_k: "
      "{monitor: loss/train/total}}}}");
  ASSERT_EQ(savers.size(), 1u);
  EXPECT_EQ(savers[0].save_folder, "/a/r");
  EXPECT_EQ(savers[0].save_filename, "w{batch}");
  EXPECT_TRUE(savers[0].save_metrics && savers[0].save_top_k->less_is_better);
}

TEST(JobCheckpointsTest, SaversAreAsManyAsGiven) {
  EXPECT_THAT(Savers("{}"), IsEmpty());
  EXPECT_THAT(Savers("{callbacks: {lr_monitor: }}"), IsEmpty());
  const auto savers = Savers(
      "{callbacks: [{checkpoint_saver: {folder: /a}}, lr_monitor, {checkpoint_saver: {folder: b, save_interval: 5ba, "
      "num_checkpoints_to_keep: 3, overwrite: true, weights_only: true, async: false, overlap: skip, ignore_keys: "
      "[optimizer/*]}}]}");
  EXPECT_TRUE(savers[0].save_async && savers[0].save_overlap == SaveOverlap::kWait);
  EXPECT_TRUE(!savers[1].save_async && savers[1].save_overlap == SaveOverlap::kSkip);
  ASSERT_EQ(savers.size(), 2u);
  EXPECT_EQ(savers[0].save_folder, "/a");
  EXPECT_EQ(savers[0].save_interval.every().ToString(), "1ep");
  EXPECT_EQ(savers[0].save_num_checkpoints_to_keep, -1);
  EXPECT_FALSE(savers[0].autoresume || savers[0].save_overwrite || savers[0].save_weights_only);
  EXPECT_EQ(savers[1].save_folder, AbsolutePath("b"));
  EXPECT_EQ(savers[1].save_interval.every().ToString(), "5ba");
  EXPECT_EQ(savers[1].save_num_checkpoints_to_keep, 3);
  EXPECT_TRUE(savers[1].save_overwrite && savers[1].save_weights_only);
  EXPECT_THAT(savers[1].save_ignore_keys.patterns(), ElementsAre("optimizer/*"));
}

TEST(JobCheckpointsTest, LoadCheckpointWaitsForItsEvent) {
  const auto loader = [](const std::string& keys) {
    std::vector<CallbackFactory> factories;
    EXPECT_EQ(ErrorOf(absl::StrCat("{callbacks: {load_checkpoint: {load_path: /nowhere, ", keys, "}}}"),
                      [&](ConfigMap& root) { factories = ReadCallbacks(root, {}); }),
              "");
    return factories.at(0)(JobPlace(), JobFacts());
  };
  EXPECT_TRUE(loader("")->events().Has(Event::kBeforeLoad));
  for (int i = 0; i < kNumEvents; ++i) {
    const auto event = static_cast<Event>(i);
    EXPECT_TRUE(loader(absl::StrCat("event: ", EventName(event)))->events().Has(event)) << EventName(event);
  }
  State state;
  Logger logger;
  const absl::Status status = loader("")->Run(Event::kBeforeLoad, state, logger);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace composer
