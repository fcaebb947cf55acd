#include "levers/levers.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

#include "levers/bindings.h"
#include "levers/parse.h"

namespace isotope::levers {

struct Levers::Groups {
  AllGroups all;
  std::array<std::atomic<bool>, size_t(Group::count_)> taken{};
};

namespace {

constexpr std::string_view kPrefixes[] = {"ATOM_", "OFFLOAD_", "ATLAS_", "ISOTOPE_"};
// Groups whose settings never touch a number that a model computes.
constexpr std::string_view kNeutralGroups[] = {"loading", "isotope", "tracing", "profiling", "memory_housekeeping", "kv_events", "shutdown", "benchmarks",
                                               "tokenize_cache", "detokenizer", "data_parallel", "prefill_delayer", "prefix_cache", "internal", "engram"};
// Single settings of other groups of which the same is true: joined ops give the bits of the ops one after the other.
constexpr std::string_view kNeutralRows[] = {"ATOM_LLAMA_ENABLE_AITER_TRITON_FUSED_RMSNORM_QUANT", "ATOM_LLAMA_ENABLE_AITER_TRITON_FUSED_SILU_MUL_QUANT",
                                             "ATOM_ENABLE_QK_NORM_ROPE_CACHE_QUANT_FUSION", "ATOM_QK_NORM_ROPE_CACHE_FUSION_MAX_TOKENS",
                                             "ATOM_GLM5_KPOOL", "ATOM_GLM5_FORCE_DENSE_MLA", "ATOM_GLM5_DISABLE_FUSED_MHC",
                                             "ATOM_SPARSE_INDEXER_LOGITS_BUDGET_MB", "ATLAS_HC_PERSEQ_DECODE"};

bool neutral(const Row& row) {
  return std::find(std::begin(kNeutralGroups), std::end(kNeutralGroups), row.group) != std::end(kNeutralGroups) ||
         std::find(std::begin(kNeutralRows), std::end(kNeutralRows), row.name) != std::end(kNeutralRows);
}

bool has_our_prefix(std::string_view name) {
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes), [&](std::string_view p) { return name.starts_with(p); });
}

/// Variables that Kubernetes puts into every pod for a service called, say, "atom": ATOM_SERVICE_HOST, ATOM_SERVICE_PORT(_HTTP), ATOM_PORT,
/// ATOM_PORT_80_TCP(_ADDR|_PORT|_PROTO). They are not settings of ours.
bool is_service_variable(std::string_view name, std::string_view value) {
  if (name.ends_with("_SERVICE_HOST") || name.find("_SERVICE_PORT") != std::string_view::npos) return true;
  const size_t at = name.find("_PORT");
  if (at == std::string_view::npos) return false;
  const std::string_view tail = name.substr(at + 5);
  if (tail.empty()) return value.find("://") != std::string_view::npos;
  return tail.size() > 1 && tail[0] == '_' && tail[1] >= '0' && tail[1] <= '9' && (tail.find("_TCP") != std::string_view::npos || tail.find("_UDP") != std::string_view::npos);
}

struct Candidate {
  std::string name, text, where;
  Source source;
};

/// All values of all sources, the weakest first, so that the last one wins.
std::vector<Candidate> collect(const Inputs& in) {
  std::vector<Candidate> all;
  for (const auto& [name, text] : in.tuned) all.push_back({name, text, in.tuned_path.empty() ? "tuned profile" : in.tuned_path, Source::tuned});
  for (const auto& [name, text] : in.config_file) all.push_back({name, text, in.config_path.empty() ? "config file" : in.config_path, Source::config_file});
  for (const auto& [name, text] : in.environment)
    if (find_row(name) || has_our_prefix(name)) all.push_back({name, text, "environment", Source::environment});
  for (const auto& [name, text] : in.set) all.push_back({name, text, "--set", Source::command_line});
  return all;
}

Error unknown(const Candidate& c) {
  const std::string_view near = nearest_name(c.name);
  return Error{Code::invalid_argument, fmt::format("there is no setting '{}'", c.name), c.where,
               near.empty() ? "`isotope levers` lists all settings" : fmt::format("did you mean {}?", near)};
}

}  // namespace

std::string_view source_name(Source s) {
  constexpr std::string_view kNames[] = {"default", "tuned", "config", "environment", "command line"};
  return kNames[size_t(s)];
}

Disposition disposition(const Row& row) {
  if (!row.replacement.empty()) return {"inactive", "removed; it is accepted and ignored"};
  if (row.plan == Plan::accelerator) return {"inactive", row.how};
  const auto all = bindings();
  const bool bound = std::any_of(all.begin(), all.end(), [&](const Binding& b) { return b.name == row.name; });
  if (!bound) return {"planned", "its mechanism does not exist in this version; the value is checked and changes nothing"};
  if (row.plan == Plan::equivalent) return {"equivalent", row.how};
  return {"active", ""};
}

Levers::Levers() : groups_(std::make_shared<Groups>()) {
  for (const Row& r : rows()) settings_.push_back({&r, std::string(r.fallback), Source::default_value});
}

Levers Levers::defaults() { return *resolve({}); }

const Setting* Levers::find(std::string_view name) const {
  const Row* row = find_row(name);
  return row ? &settings_[size_t(row - rows().data())] : nullptr;
}

bool Levers::changed(const Setting& s) const { return s.source != Source::default_value && s.value != s.row->fallback; }

Result<Levers> Levers::resolve(const Inputs& in) {
  Levers out;
  std::vector<std::pair<const Row*, std::string>> told;  // nullptr: no setting of ours
  for (const Candidate& c : collect(in)) {
    bool inverted = false;
    const Row* row = find_row(c.name, &inverted);
    if (!row) {
      if (c.source != Source::environment) return tl::unexpected(unknown(c));
      if (!is_service_variable(c.name, c.text)) told.emplace_back(nullptr, unknown(c).message());
      continue;
    }
    ISO_TRY(Parsed p, parse_value(*row, c.text, c.where, inverted));
    std::erase_if(told, [&](const auto& t) { return t.first == row; });  // of a weaker source, which no longer counts
    if (p.warning) told.emplace_back(row, *p.warning);
    if (!row->replacement.empty()) {
      told.emplace_back(row, fmt::format("{} ({}) was removed and is ignored; use {}", row->name, c.where, row->replacement));
      continue;
    }
    if (!row->now.empty()) {
      told.emplace_back(row, fmt::format("{} ({}) is a former name; use {}", row->name, c.where, row->now));
      Setting& target = out.settings_[size_t(find_row(row->now) - rows().data())];
      if (target.source <= c.source) target.value = p.value, target.source = c.source;
    }
    Setting& s = out.settings_[size_t(row - rows().data())];
    s.value = p.value;
    s.source = c.source;
    const Disposition d = disposition(*row);
    if (out.changed(s) && (d.word == "planned" || d.word == "inactive") && row->now.empty())
      told.emplace_back(row, fmt::format("{} ({}) has no effect here: {}", row->name, c.where, d.reason));
  }
  for (Setting& s : out.settings_) {  // a default may be the value of another setting
    if (s.source == Source::default_value && s.row->fallback == s.value)
      if (const Setting* other = s.value.starts_with("ATOM_") ? out.find(s.value) : nullptr) s.value = other->value;
  }
  auto& warnings = out.warnings_;
  for (auto& [row, text] : told) warnings.push_back(std::move(text));
  if (in.strict && !warnings.empty()) {
    return fail(Code::invalid_argument, fmt::format("{} doubtful setting{}: {}", warnings.size(), warnings.size() == 1 ? "" : "s", fmt::join(warnings, " | ")),
                "--strict-levers", "correct them or start without --strict-levers");
  }
  out.bind();
  std::string& cache = out.groups_->all.engram.cache_dir;
  if (const auto home = in.environment.find("HOME"); cache.starts_with("~/") && home != in.environment.end() && !home->second.empty())
    cache.replace(0, 1, home->second);
  return out;
}

void Levers::bind() {
  for (const Binding& b : bindings())
    if (const Setting* s = find(b.name); s && (b.group != Group::capacity || s->source != Source::default_value)) b.set(groups_->all, s->value);
}

const Loading& Levers::loading() const { return groups_->taken[size_t(Group::loading)] = true, groups_->all.loading; }
const Cpu& Levers::cpu() const { return groups_->taken[size_t(Group::cpu)] = true, groups_->all.cpu; }
const Fusion& Levers::fusion() const { return groups_->taken[size_t(Group::fusion)] = true, groups_->all.fusion; }
const Program& Levers::program() const { return groups_->taken[size_t(Group::program)] = true, groups_->all.program; }
const PrefixCache& Levers::prefix_cache() const { return groups_->taken[size_t(Group::prefix_cache)] = true, groups_->all.prefix_cache; }
const KvEvents& Levers::kv_events() const { return groups_->taken[size_t(Group::kv_events)] = true, groups_->all.kv_events; }
const PrefillDelayer& Levers::prefill_delayer() const { return groups_->taken[size_t(Group::delayer)] = true, groups_->all.delayer; }
const Capacity& Levers::capacity() const { return groups_->taken[size_t(Group::capacity)] = true, groups_->all.capacity; }
const DataParallel& Levers::data_parallel() const { return groups_->taken[size_t(Group::data_parallel)] = true, groups_->all.data_parallel; }
const Text& Levers::text() const { return groups_->taken[size_t(Group::text)] = true, groups_->all.text; }
const Engram& Levers::engram() const { return groups_->taken[size_t(Group::engram)] = true, groups_->all.engram; }
const Sparse& Levers::sparse() const { return groups_->taken[size_t(Group::sparse)] = true, groups_->all.sparse; }
const Housekeeping& Levers::housekeeping() const { return groups_->taken[size_t(Group::housekeeping)] = true, groups_->all.housekeeping; }

std::vector<std::string_view> Levers::consumed() const {
  std::vector<std::string_view> names;
  for (const Binding& b : bindings())
    if (groups_->taken[size_t(b.group)]) names.push_back(b.name);
  return names;
}

uint64_t Levers::numeric_hash() const {
  std::string all;
  for (const Setting& s : settings_) {
    if (!neutral(*s.row) && changed(s) && disposition(*s.row).word != "planned") all += fmt::format("{}={}\n", s.row->name, s.value);
  }
  return XXH64(all.data(), all.size(), 0);
}

}  // namespace isotope::levers
