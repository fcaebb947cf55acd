#include "levers/levers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "levers/bindings.h"
#include "levers/config_file.h"
#include "levers/parse.h"
#include "levers/print.h"

namespace isotope::levers {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::string value(const Inputs& in, std::string_view name) {
  auto l = Levers::resolve(in);
  if (!l) return "ERROR " + l.error().message();
  return l->find(name)->value;
}

std::string read(const std::string& path) {
  std::ifstream in(std::string(ISOTOPE_SOURCE_DIR) + "/" + path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Catalogue, HoldsEveryExpectedRowWithItsDefault) {
  std::istringstream lines(read("tests/levers/expected.tsv"));
  std::string line;
  std::getline(lines, line);
  int count = 0;
  std::set<std::string> names;
  while (std::getline(lines, line)) {
    std::vector<std::string> f(1);
    for (char c : line) {
      if (c == '\t') f.emplace_back();
      else f.back().push_back(c);
    }
    ASSERT_EQ(f.size(), 6u) << line;
    const Row* r = find_row(f[0]);
    ASSERT_NE(r, nullptr) << f[0];
    EXPECT_EQ(r->name, f[0]);
    EXPECT_EQ(r->group, f[1]) << f[0];
    EXPECT_EQ(type_name(r->type), f[2]) << f[0];
    EXPECT_EQ(r->fallback, f[3]) << f[0];
    constexpr std::string_view kPlans[] = {"same", "equivalent", "accelerator"};
    EXPECT_EQ(kPlans[size_t(r->plan)], f[4]) << f[0];
    names.insert(f[0]);
    ++count;
  }
  EXPECT_EQ(count, 248);
  for (const Row& r : rows())
    EXPECT_NE(names.contains(std::string(r.name)), r.name.starts_with("ISOTOPE_")) << r.name;
}

TEST(Catalogue, NamesAndAliasesAreUnique) {
  std::set<std::string_view> seen;
  for (const Row& r : rows()) {
    EXPECT_TRUE(seen.insert(r.name).second) << r.name;
    EXPECT_FALSE(r.meaning.empty()) << r.name;
    EXPECT_EQ(r.plan == Plan::same, r.how.empty()) << r.name;
  }
}

TEST(Catalogue, EveryDefaultIsAcceptedByItsOwnRow) {
  for (const Row& r : rows()) {
    if (r.fallback.empty() || r.fallback.starts_with("ATOM_") || r.rule == Rule::presence || r.rule == Rule::presence_off || r.rule == Rule::negative) continue;
    const auto p = parse_value(r, r.fallback, "test");
    ASSERT_TRUE(p) << r.name << ": " << p.error().message();
    EXPECT_FALSE(p->warning) << r.name;
  }
}

TEST(Parse, EmptyMeansUnsetForEveryRowButPresence) {
  for (const Row& r : rows()) {
    const auto p = parse_value(r, "  ", "test");
    ASSERT_TRUE(p) << r.name;
    if (r.rule == Rule::presence) EXPECT_EQ(p->value, "true");
    else if (r.rule == Rule::presence_off) EXPECT_EQ(p->value, "false");
    else EXPECT_EQ(p->value, r.fallback) << r.name;
  }
}

TEST(Parse, BooleansHaveOneParser) {
  for (const Row& r : rows()) {
    if (r.type != Type::boolean || r.rule != Rule::value) continue;
    for (const char* on : {"1", "true", "YES", " On "}) EXPECT_EQ(parse_value(r, on, "test")->value, "true") << r.name;
    for (const char* off : {"0", "False", "no", "OFF"}) EXPECT_EQ(parse_value(r, off, "test")->value, "false") << r.name;
    const auto bad = parse_value(r, "abc", "environment");
    ASSERT_FALSE(bad) << r.name;
    EXPECT_THAT(bad.error().message(), HasSubstr(std::string(r.name)));
    EXPECT_THAT(bad.error().message(), HasSubstr("environment"));
    EXPECT_THAT(bad.error().message(), HasSubstr("1 true yes on | 0 false no off"));
  }
}

TEST(Parse, NumbersRejectTextOverflowAndWhatIsOutOfRange) {
  for (const Row& r : rows()) {
    if (r.type != Type::integer && r.type != Type::real) continue;
    for (const char* text : {"abc", "99999999999999999999999", "1e400", "nan", "1x", "0x10", "-"}) {
      const auto p = parse_value(r, text, "test");
      if (r.invalid == OnInvalid::stop) EXPECT_FALSE(p) << r.name << " " << text;
      else EXPECT_TRUE(p && p->warning) << r.name << " " << text;
    }
  }
  EXPECT_FALSE(parse_value(*find_row("ATOM_DP_MASTER_PORT"), "65536", "test"));
  EXPECT_FALSE(parse_value(*find_row("ATOM_LOADER_NUM_THREADS"), "0", "test"));
  EXPECT_FALSE(parse_value(*find_row("ATOM_DSV41_SIDE_STREAMS"), "3", "test"));
  EXPECT_EQ(parse_value(*find_row("ATOM_MEGA_DECODE_MTPR"), "256", "test")->value, "256");
}

TEST(Parse, ClampsAndFallsBackWithAWarning) {
  struct Case { const char *name, *text, *value; };
  for (const Case& c : {Case{"ATLAS_MTP_DRAFT_CONF", "1.5", "0.99"}, {"ATLAS_MTP_DRAFT_CONF", "x", "0.0"}, {"ATLAS_MTP_SHADOW_TOPK", "9", "8"},
                        {"ATOM_PREFILL_DELAYER_STALL_TICKS", "0", "1"}, {"ATOM_SHUTDOWN_TIMEOUT_S", "-1", "5"}, {"ATOM_METRICS_UPDATE_INTERVAL_S", "0", "1.0"}}) {
    const auto p = parse_value(*find_row(c.name), c.text, "test");
    ASSERT_TRUE(p) << c.name;
    EXPECT_EQ(p->value, c.value) << c.name;
    EXPECT_TRUE(p->warning) << c.name;
  }
}

TEST(Parse, PresenceArmsWhateverTheTextAndWarnsWhenItReadsAsNo) {
  const Row& on = *find_row("ATLAS_MOE_W4A4");
  EXPECT_EQ(parse_value(on, "0", "environment")->value, "true");
  EXPECT_THAT(*parse_value(on, "0", "environment")->warning, HasSubstr("set but presence-gated; unset it to disable"));
  EXPECT_FALSE(parse_value(on, "1", "environment")->warning);
  EXPECT_EQ(parse_value(*find_row("ATLAS_NO_SSD"), "1", "environment")->value, "false");
}

TEST(Parse, InvertedAliasesFlip) {
  EXPECT_EQ(value({.environment = {{"ATLAS_NO_GDN_REGRESIDENT", "1"}}}, "ATLAS_GDN_REGRESIDENT"), "false");
  EXPECT_EQ(value({.environment = {{"ATLAS_GDN_REGRESIDENT", "1"}}}, "ATLAS_GDN_REGRESIDENT"), "true");
  EXPECT_EQ(value({.environment = {{"ATLAS_DIAG_GEMMA4", "TRUE"}}}, "ATLAS_GEMMA4_DIAG"), "true");
}

TEST(Parse, ListsAndJson) {
  EXPECT_EQ(parse_value(*find_row("ATOM_TOKEN_GRAPH_SIZES"), " 1, 2,3 ", "test")->value, "1,2,3");
  EXPECT_FALSE(parse_value(*find_row("ATOM_TOKEN_GRAPH_SIZES"), "1,,3", "test"));
  EXPECT_FALSE(parse_value(*find_row("ATOM_TOKEN_GRAPH_SIZES"), "1,x", "test"));
  EXPECT_FALSE(parse_value(*find_row("ATOM_KV_OFFLOAD_EXTRA_CONFIG"), "[1]", "test"));
  EXPECT_TRUE(parse_value(*find_row("ATOM_KV_OFFLOAD_EXTRA_CONFIG"), R"({"a":1})", "test"));
}

TEST(Resolve, PrecedenceMatrix) {
  const char* name = "ATOM_LOADER_NUM_THREADS";
  for (int mask = 0; mask < 16; ++mask) {
    Inputs in;
    if (mask & 8) in.tuned[name] = "1";
    if (mask & 1) in.config_file[name] = "2";
    if (mask & 2) in.environment[name] = "3";
    if (mask & 4) in.set = {{name, "9"}, {name, "4"}};
    const char* expected = mask & 4 ? "4" : mask & 2 ? "3" : mask & 1 ? "2" : mask & 8 ? "1" : "16";
    EXPECT_EQ(value(in, name), expected) << mask;
  }
}

TEST(Resolve, TypedGroupsHoldTheValues) {
  const auto l = *Levers::resolve({.environment = {{"ATOM_DISABLE_MMAP", "yes"}, {"ATOM_LOADER_PREFETCH_BLOCK_MB", "4"}, {"ISOTOPE_CPU_ISA", "avx2"}}});
  EXPECT_THAT(l.consumed(), IsEmpty());
  EXPECT_TRUE(l.loading().disable_mmap);
  EXPECT_EQ(l.loading().prefetch_block_mb, 4);
  EXPECT_EQ(l.cpu().isa, "avx2");
  EXPECT_TRUE(l.fusion().norm_quantize);
  EXPECT_FALSE(l.fusion().model_sensitive_norm);
  EXPECT_EQ(l.fusion().qk_norm_max_tokens, 8192);
  EXPECT_EQ(l.program().log_level, "info");
  EXPECT_TRUE(l.prefix_cache().fast_walk);
  EXPECT_EQ(l.kv_events().hwm, 0);
  EXPECT_FALSE(l.prefill_delayer().kv_low);
  EXPECT_FALSE(l.capacity().max_decode_seqs);  // its default stands for "not given"
  EXPECT_EQ(l.data_parallel().request_equiv, 512);
  EXPECT_EQ(l.housekeeping().shutdown_timeout_s, 5);
  l.text();
  EXPECT_TRUE(l.sparse().glm_pools);
  EXPECT_TRUE(l.engram().in_place);
  EXPECT_THAT(l.consumed(), SizeIs(bindings().size()));
}

TEST(Resolve, AFolderBelowHomeIsWrittenOut) {
  const auto dir = [](std::map<std::string, std::string> environment) { return Levers::resolve({.environment = std::move(environment)})->engram().cache_dir; };
  EXPECT_EQ(dir({{"HOME", "/home/me"}}), "/home/me/.cache/atom/engram");
  EXPECT_EQ(dir({{"HOME", "/home/me"}, {"ATOM_ENGRAM_CACHE_DIR", "~/kept"}}), "/home/me/kept");
  EXPECT_EQ(dir({{"HOME", "/home/me"}, {"ATOM_ENGRAM_CACHE_DIR", "/data/~x"}}), "/data/~x");
  EXPECT_EQ(dir({}), "~/.cache/atom/engram");
}

/// The fingerprint stands for the bits of results: what joins ops does not change them, another way of rounding does.
TEST(Resolve, OfTheFusionsOnlyRoundingChangesTheNumericHash) {
  const auto hash = [](std::string name, std::string v) { return Levers::resolve({.set = {{name, v}}})->numeric_hash(); };
  const uint64_t plain = Levers::defaults().numeric_hash();
  EXPECT_EQ(hash("ATOM_LLAMA_ENABLE_AITER_TRITON_FUSED_RMSNORM_QUANT", "0"), plain);
  EXPECT_EQ(hash("ATOM_LLAMA_ENABLE_AITER_TRITON_FUSED_SILU_MUL_QUANT", "0"), plain);
  EXPECT_EQ(hash("ATOM_ENABLE_QK_NORM_ROPE_CACHE_QUANT_FUSION", "1"), plain);
  EXPECT_EQ(hash("ATOM_QK_NORM_ROPE_CACHE_FUSION_MAX_TOKENS", "1"), plain);
  EXPECT_EQ(hash("ATOM_GLM5_DISABLE_FUSED_MHC", "1"), plain);
  EXPECT_EQ(hash("ATLAS_HC_PERSEQ_DECODE", "1"), plain);
  EXPECT_NE(hash("ATOM_USE_MODEL_SENSITIVE_RMSNORM", "1"), plain);
}

TEST(Resolve, PrefillDelayerHoldsTheValues) {
  const auto l = *Levers::resolve({.environment = {{"ATOM_ENABLE_PREFILL_DELAYER", "0"}, {"ATOM_PREFILL_DELAYER_TARGET_FILL", "7"},
                                                   {"ATOM_PREFILL_DELAYER_TOKEN_USAGE_LOW_WATERMARK", "0.25"}, {"ATOM_PREFILL_DELAYER_MAX_QUEUE_MS", "12.5"},
                                                   {"ATOM_PREFILL_DECODE_INTERVAL", "3"}, {"ATLAS_MAX_DECODE_SEQS", "1"}}});
  const PrefillDelayer& d = l.prefill_delayer();
  EXPECT_FALSE(d.enabled);
  EXPECT_EQ(d.target_fill, 1.0);  // clamped
  EXPECT_EQ(d.kv_low, 0.25);
  EXPECT_EQ(d.max_queue_ms, 12.5);
  EXPECT_EQ(d.decode_interval, 3);
  EXPECT_EQ(d.ttft_max_ticks, 200);
  EXPECT_EQ(l.capacity().max_decode_seqs, 1);
  for (const char* bad : {"-1", "x", "1.5"}) EXPECT_FALSE(Levers::resolve({.environment = {{"ATOM_PREFILL_DECODE_INTERVAL", bad}}})) << bad;
}

TEST(Resolve, UnknownNamesSuggestTheNearest) {
  const auto l = *Levers::resolve({.environment = {{"ATOM_LOADER_NUM_THREAD", "2"}}});
  ASSERT_THAT(l.warnings(), SizeIs(1));
  EXPECT_THAT(l.warnings()[0], HasSubstr("did you mean ATOM_LOADER_NUM_THREADS?"));
  const auto set = Levers::resolve({.set = {{"ATOM_DISABLE_MAP", "1"}}});
  ASSERT_FALSE(set);
  EXPECT_THAT(set.error().message(), HasSubstr("did you mean ATOM_DISABLE_MMAP?"));
}

TEST(Resolve, PodEnvironmentGivesNoFalseAlarm) {
  const auto l = *Levers::resolve({.environment = {{"ATOM_SERVICE_HOST", "10.0.0.1"}, {"ATOM_SERVICE_PORT", "80"}, {"ATOM_SERVICE_PORT_HTTP", "80"},
                                                   {"ATOM_PORT", "tcp://10.0.0.1:80"}, {"ATOM_PORT_80_TCP", "tcp://10.0.0.1:80"}, {"ATOM_PORT_80_TCP_ADDR", "10.0.0.1"},
                                                   {"ATLAS_API_SERVICE_HOST", "10.0.0.2"}, {"PATH", "/bin"}, {"HOME", "/root"}}});
  EXPECT_THAT(l.warnings(), IsEmpty());
}

TEST(Resolve, StrictModeStopsOnAnyDoubt) {
  for (const auto& [name, text] : std::map<std::string, std::string>{{"ATOM_LOADER_NUM_THREAD", "2"}, {"ATLAS_MOE_W4A4", "0"}, {"ATOM_SHUTDOWN_TIMEOUT_S", "-1"},
                                                                     {"ATOM_PA_FLYDSL_PLAN", "x"}, {"ATLAS_MLA_PERSEQ_FALLBACK", "1"}}) {
    EXPECT_TRUE(Levers::resolve({.environment = {{name, text}}})) << name;
    const auto strict = Levers::resolve({.environment = {{name, text}}, .strict = true});
    ASSERT_FALSE(strict) << name;
    EXPECT_THAT(strict.error().message(), HasSubstr(name));
  }
  EXPECT_TRUE(Levers::resolve({.environment = {{"ATOM_DISABLE_MMAP", "1"}}, .strict = true}));
}

TEST(Resolve, TombstonesWarnOnceAndNameTheReplacement) {
  const auto l = *Levers::resolve({.environment = {{"ATOM_PA_FLYDSL_PLAN", "x"}}});
  ASSERT_THAT(l.warnings(), SizeIs(1));
  EXPECT_THAT(l.warnings()[0], HasSubstr("use ATOM_PA_FLYDSL"));
}

TEST(Resolve, FormerNamesForwardTheirValue) {
  EXPECT_EQ(value({.environment = {{"ATOM_MORI_V2_FUSED", "1"}}}, "ATOM_MEGA_STAGE2_FUSED"), "true");
}

TEST(Resolve, DefaultsMayFollowAnotherSetting) {
  EXPECT_EQ(value({.environment = {{"ATOM_PROFILER_MORE", "1"}}}, "ATOM_PROFILER_WITH_STACK"), "true");
  EXPECT_EQ(value({.environment = {{"ATOM_PROFILER_MORE", "1"}, {"ATOM_PROFILER_WITH_STACK", "0"}}}, "ATOM_PROFILER_WITH_STACK"), "false");
}

TEST(Disposition, NothingIsActiveWithoutAConsumer) {
  std::set<std::string_view> bound;
  for (const Binding& b : bindings()) {
    ASSERT_NE(find_row(b.name), nullptr) << b.name;
    bound.insert(b.name);
  }
  for (const Row& r : rows()) {
    const std::string_view word = disposition(r).word;
    if (word == "active" || word == "equivalent") EXPECT_TRUE(bound.contains(r.name)) << r.name;
    else EXPECT_FALSE(bound.contains(r.name)) << r.name;
    EXPECT_EQ(word == "active", disposition(r).reason.empty()) << r.name;
  }
}

TEST(Print, SecretsNeverAppear) {
  const auto l = *Levers::resolve({.environment = {{"OPENAI_API_KEY", "sk-verysecret"}, {"ISOTOPE_API_KEY", "hunter2"},
                                                   {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://user:topsecret@127.0.0.1/v1"},
                                                   {"ATOM_KV_OFFLOAD_EXTRA_CONFIG", R"({"password":"p4ss"})"}}});
  for (const std::string& text : {to_table(l), to_json(l), to_markdown()})
    for (const char* secret : {"verysecret", "hunter2", "topsecret", "p4ss"}) EXPECT_EQ(text.find(secret), std::string::npos) << secret;
  EXPECT_THAT(to_json(l), HasSubstr("(hidden)"));
  const auto bad = Levers::resolve({.environment = {{"ATOM_KV_OFFLOAD_EXTRA_CONFIG", "p4ssword"}}});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().message().find("p4ssword"), std::string::npos);
}

TEST(Print, JsonHasTheDocumentedShapeAndFiltersWork) {
  const auto l = *Levers::resolve({.set = {{"ATOM_LOADER_NUM_THREADS", "3"}}});
  const auto all = nlohmann::json::parse(to_json(l));
  ASSERT_EQ(all.size(), rows().size());
  for (const char* key : {"name", "aliases", "type", "value", "source", "default", "domain", "disposition", "reason", "meaning", "group"}) EXPECT_TRUE(all[0].contains(key)) << key;
  const auto changed = nlohmann::json::parse(to_json(l, {.changed_only = true}));
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0]["value"], "3");
  EXPECT_EQ(changed[0]["source"], "command line");
  const auto found = nlohmann::json::parse(to_json(l, {.word = "MMAP"}));
  EXPECT_GE(found.size(), 1u);
  EXPECT_LT(found.size(), 20u);
}

TEST(Print, DocumentationPageEqualsTheCatalogue) {
  EXPECT_EQ(read("docs/levers.md"), to_markdown()) << "run `make docs`";
}

TEST(ConfigFile, TomlAndJsonGiveTheSame) {
  const auto toml = parse_config("ATOM_LOADER_NUM_THREADS = 3\nATOM_TOKEN_GRAPH_SIZES = [1, 2]\n[levers]\nATOM_DISABLE_MMAP = true\n", false, "c.toml");
  const auto json = parse_config(R"({"ATOM_LOADER_NUM_THREADS":3,"ATOM_TOKEN_GRAPH_SIZES":[1,2],"levers":{"ATOM_DISABLE_MMAP":true}})", true, "c.json");
  ASSERT_TRUE(toml) << toml.error().message();
  ASSERT_TRUE(json) << json.error().message();
  EXPECT_EQ(*toml, *json);
  EXPECT_EQ(toml->at("ATOM_TOKEN_GRAPH_SIZES"), "1,2");
}

TEST(ConfigFile, ErrorsNameFileLineAndRemedy) {
  const auto bad = parse_config("A = 1\nB = = 2\n", false, "c.toml");
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message(), HasSubstr("c.toml:2"));
  EXPECT_FALSE(parse_config("[1]", true, "c.json"));
  EXPECT_FALSE(parse_config(std::string(100000, '['), true, "c.json"));
  EXPECT_FALSE(parse_config(R"({"A":[[1]]})", true, "c.json"));
  EXPECT_FALSE(read_config_file("/nonexistent/c.toml"));
}

TEST(Tree, OnlyTheLeversReadTheEnvironment) {
  namespace fs = std::filesystem;
  for (const char* top : {"src", "apps", "include"})
    for (const auto& e : fs::recursive_directory_iterator(fs::path(ISOTOPE_SOURCE_DIR) / top)) {
      const std::string name = e.path().string();
      const std::string ext = e.path().extension();
      if ((ext != ".cc" && ext != ".h" && ext != ".inl") || name.ends_with("_test.cc") || name.find("src/levers/") != std::string::npos) continue;
      std::ifstream in(e.path());
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      for (const char* call : {"getenv(", "environ;", "setenv("}) EXPECT_EQ(text.find(call), std::string::npos) << name << " uses " << call;
    }
}

}  // namespace
}  // namespace isotope::levers
