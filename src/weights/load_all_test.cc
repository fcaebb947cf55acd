#include "weights/load_all.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>

#include "support/gguf_writer.h"
#include "support/safetensors_writer.h"
#include "weights/coverage.h"

namespace isotope::weights {
namespace {

using test::GgufWriter;
using test::TempDir;
using testing::HasSubstr;

constexpr int kTensors = 40;

class Loaded : public testing::Test {
 protected:
  void SetUp() override {
    GgufWriter w;
    for (int i = 0; i < kTensors; ++i) {
      const std::vector<float> v(64 * size_t(i + 1), float(i));
      w.tensor("t" + std::to_string(i), {i + 1, 64}, tensor::DType::f32, v);
      bytes_ += int64_t(v.size() * 4);
    }
    path_ = dir_.write("m.gguf", w.bytes());
    auto c = open_checkpoint(path_, {});
    ASSERT_TRUE(c);
    c_ = std::move(*c);
  }
  std::vector<LoadJob> jobs(std::function<Result<void>(int, std::span<Checkpoint::Data>)> f) {
    std::vector<LoadJob> out;
    for (int i = kTensors - 1; i >= 0; --i)  // not in file order
      out.push_back({{c_->find("t" + std::to_string(i))}, [f, i](std::span<Checkpoint::Data> d) { return f(i, d); }});
    return out;
  }
  TempDir dir_;
  std::string path_;
  std::unique_ptr<Checkpoint> c_;
  int64_t bytes_ = 0;
};

double sum(const Checkpoint::Data& d) {
  double s = 0;
  for (int64_t i = 0; i < d.view.elements(); ++i) s += static_cast<const float*>(d.view.data)[i];
  return s;
}

TEST_F(Loaded, EveryThreadCountAndReaderGivesTheSame) {
  std::vector<double> first;
  for (const levers::Loading& l : {levers::Loading{}, levers::Loading{.num_threads = 1}, levers::Loading{.disable_mmap = true},
                                   levers::Loading{.prefetch = false}, levers::Loading{.prefetch = false, .fadvise = true},
                                   levers::Loading{.prefetch_threads = 0}}) {
    auto opened = open_checkpoint(path_, l);
    ASSERT_TRUE(opened);
    c_ = std::move(*opened);
    std::vector<double> sums(kTensors);
    std::vector<LoadProgress> progress;
    const auto r = load_all(*c_, jobs([&](int i, auto d) {
      sums[size_t(i)] = sum(d[0]);
      return Result<void>();
    }),
                            l, [&](const LoadProgress& p) { progress.push_back(p); });
    ASSERT_TRUE(r) << r.error().message();
    if (first.empty()) first = sums;
    EXPECT_EQ(sums, first);
    EXPECT_EQ(sums[3], 3.0 * 64 * 4);
    ASSERT_EQ(progress.size(), size_t(kTensors));
    for (size_t i = 1; i < progress.size(); ++i) EXPECT_GT(progress[i].done, progress[i - 1].done);
    EXPECT_EQ(progress.back().done, bytes_);
    EXPECT_EQ(progress.back().total, bytes_);
    EXPECT_EQ(r->bytes, bytes_);
    EXPECT_LE(r->threads, l.num_threads);
    EXPECT_EQ(r->mapped, !l.disable_mmap);
    EXPECT_EQ(r->advised, l.fadvise ? 1 : 0);
    EXPECT_EQ(r->prefetch.threads, l.prefetch ? 1 : 0);  // one file needs one reader
  }
}

TEST_F(Loaded, OneThreadWalksInFileOrder) {
  std::vector<int> order;
  ASSERT_TRUE(load_all(*c_, jobs([&](int i, auto) {
    order.push_back(i);
    return Result<void>();
  }),
                       {.num_threads = 1}));
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_F(Loaded, FusedJobsGetAllTheirTensors) {
  std::atomic<int> calls = 0;
  std::vector<LoadJob> fused;
  fused.push_back({{c_->find("t2"), c_->find("t0"), c_->find("t1")}, [&](std::span<Checkpoint::Data> d) {
                     EXPECT_EQ(d.size(), 3u);
                     EXPECT_EQ(d[0].view.rows(), 3);
                     EXPECT_EQ(sum(d[1]), 0.0);
                     ++calls;
                     return Result<void>();
                   }});
  fused.push_back({{}, [&](std::span<Checkpoint::Data> d) {
                     EXPECT_TRUE(d.empty());
                     ++calls;
                     return Result<void>();
                   }});
  ASSERT_TRUE(load_all(*c_, std::move(fused), {}));
  EXPECT_EQ(calls, 2);
}

// The file is cut by another process at the worst moment: when a job already holds its mapped tensor.
TEST_F(Loaded, AFileCutWhileLoadingIsAnErrorThatNamesIt) {
  for (const levers::Loading& l : {levers::Loading{.num_threads = 1}, levers::Loading{.num_threads = 4}}) {
    SetUp();
    std::atomic<bool> cut = false;
    const auto r = load_all(*c_, jobs([&](int, auto d) {
      if (!cut.exchange(true)) std::filesystem::resize_file(path_, 1000);
      sum(d[0]);
      return Result<void>();
    }),
                            l);
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().code, Code::data_loss);
    EXPECT_THAT(r.error().message(), HasSubstr("m.gguf"));
    EXPECT_THAT(r.error().message(), HasSubstr("became shorter"));
    EXPECT_THAT(r.error().remedy, HasSubstr("renaming"));
  }
}

TEST_F(Loaded, AFileWrittenToWhileLoadingIsAnError) {
  const auto r = load_all(*c_, jobs([&](int, auto) {
    std::fstream f(path_, std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(-4, std::ios::end);
    f.write("abcd", 4);
    return Result<void>();
  }),
                          {.num_threads = 1});
  ASSERT_FALSE(r);
  EXPECT_THAT(r.error().message(), HasSubstr("written to"));
}

TEST_F(Loaded, TheFirstErrorStopsTheRest) {
  for (int threads : {1, 16}) {
    std::atomic<int> calls = 0;
    const auto r = load_all(*c_, jobs([&](int i, auto) -> Result<void> {
      ++calls;
      if (i == 5) return fail(Code::unsupported, "no kernel", "t5", "convert");
      return {};
    }),
                            {.num_threads = threads});
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().what, "no kernel");
    EXPECT_LT(calls, kTensors);
  }
}

TEST_F(Loaded, RunningOutOfMemoryIsAnError) {
  const auto r = load_all(*c_, jobs([](int, auto) -> Result<void> { throw std::bad_alloc(); }), {});
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code, Code::resource_exhausted);
  EXPECT_THAT(r.error().message(), HasSubstr("tensor 't"));
}

TEST_F(Loaded, AReadErrorNamesTheFile) {
  std::filesystem::resize_file(path_, 1000);
  const auto r = load_all(*c_, jobs([](int, auto) { return Result<void>(); }), {});
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code, Code::data_loss);
  EXPECT_THAT(r.error().message(), HasSubstr(path_));
}

TEST_F(Loaded, WhatIsWrongWithContentsNamesTensorAndFile) {
  const auto r = load_all(*c_, jobs([](int i, auto) -> Result<void> {
    return i == 7 ? fail(Code::unsupported, "format I64 holds no weights", "dequantize", "save it anew") : Result<void>();
  }), {.num_threads = 1});
  ASSERT_FALSE(r);
  for (const std::string& s : {path_, std::string("tensor 't7'"), std::string("I64"), std::string("save it anew")}) EXPECT_THAT(r.error().message(), HasSubstr(s));
}

TEST_F(Loaded, CoverageListsMissingAndUnexpected) {
  Wanted w{.required = {"t0", "t1", "absent"}, .optional = {"t2", "absent_too"}, .ignored = {"t[3-9]", "t?[0-8]"}};
  const Coverage c = compare(*c_, w);
  EXPECT_EQ(c.missing, std::vector<std::string>{"absent"});
  EXPECT_EQ(c.unexpected, (std::vector<std::string>{"t19", "t29", "t39"}));
  EXPECT_FALSE(c.complete());
  const auto missing = require(*c_, c, {});
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message(), HasSubstr("1 tensors are missing: 'absent'"));
  w.required.pop_back();
  const auto unexpected = require(*c_, compare(*c_, w), {});
  ASSERT_FALSE(unexpected);
  EXPECT_THAT(unexpected.error().message(), HasSubstr("'t19', 't29', 't39'"));
  EXPECT_THAT(unexpected.error().message(), HasSubstr("ATOM_LOADER_STRICT_COVERAGE"));
  EXPECT_TRUE(require(*c_, compare(*c_, w), {.strict_coverage = false}));
}

TEST(LoadReport, SaysHowItWasLoaded) {
  const LoadReport r{
      .threads = 2,
      .bytes = 5 << 20,
      .seconds = 0.5,
      .mapped = true,
      .advised = 0,
      .prefetch = {.files = 3, .files_done = 2, .failed = 1, .bytes_read = 1 << 20, .bytes_warm = 2 << 20, .threads = 1}};
  EXPECT_EQ(describe(r),
            "5.0 MiB in 0.50 s: reader=mmap, 2 threads; prefetch 2 of 3 files, 1.0 MiB read, 2.0 MiB warm, 1 reader, 1 failed");
  EXPECT_EQ(describe({.threads = 1, .advised = 2}), "0.0 MiB in 0.00 s: reader=read, 1 thread; fadvise on 2 files");
}

TEST(Prefetcher, ReadsEachFileOnceAmongRanks) {
  const TempDir dir;
  std::vector<std::string> files;
  for (int i = 0; i < 7; ++i) files.push_back(dir.write("f" + std::to_string(6 - i), std::string(3 << 20, 'x')));
  int done = 0;
  uint64_t bytes = 0;
  for (int rank = 0; rank < 2; ++rank) {
    Prefetcher p(files, {.prefetch_threads = 2, .prefetch_block_mb = 1}, {rank, 2});
    p.wait();
    const PrefetchReport r = p.report();
    EXPECT_EQ(r.threads, 2);
    EXPECT_EQ(r.files_done, r.files);
    done += r.files_done;
    bytes += r.bytes_read + r.bytes_warm;
  }
  EXPECT_EQ(done, 7);
  EXPECT_EQ(bytes, uint64_t{7 * (3 << 20)});
}

TEST(Prefetcher, MissingFilesOnlyCount) {
  const TempDir dir;
  Prefetcher p({dir.file("absent"), dir.write("there", "x")}, {});
  p.wait();
  EXPECT_EQ(p.report().failed, 1);
  EXPECT_EQ(p.report().files_done, 1);
}

TEST(Prefetcher, OffMeansNoThreads) {
  Prefetcher p({"a", "b"}, {.prefetch = false});
  p.wait();
  EXPECT_EQ(p.report().threads, 0);
}

TEST(Advise, OnlyWithoutPrefetchAndWithMmap) {
  const TempDir dir;
  const std::vector<std::string> files = {dir.write("a", "x"), dir.file("absent")};
  EXPECT_EQ(advise(files, {.prefetch = false, .fadvise = true}), 1);
  EXPECT_EQ(advise(files, {.prefetch = true, .fadvise = true}), 0);
  EXPECT_EQ(advise(files, {.disable_mmap = true, .prefetch = false, .fadvise = true}), 0);
  EXPECT_EQ(advise(files, {.prefetch = false}), 0);
}

}  // namespace
}  // namespace isotope::weights
