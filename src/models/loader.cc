#include "models/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/cgroup.h"
#include "base/log.h"
#include "models/engram_tables.h"
#include "models/planner.h"

namespace isotope::models {

std::vector<int32_t> halves_from_pairs(int64_t heads, int64_t head_dim, int64_t rot) {
  std::vector<int32_t> order(size_t(heads * head_dim));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t r = 0; r < rot; ++r) order[size_t(h * head_dim + r)] = int32_t(h * head_dim + 2 * (r % (rot / 2)) + r / (rot / 2));
  return order;
}

namespace {

/// A layer norm has a bias; where a family has none it is zero.
void fill_biases(Transformer& t) {
  const auto fill = [&](const std::vector<float>& weight, std::vector<float>& bias) {
    if (bias.empty()) bias.assign(weight.size(), 0.0f);
  };
  for (Layer& l : t.layers) fill(l.attn_norm, l.attn_norm_bias), fill(l.ffn_norm, l.ffn_norm_bias);
  fill(t.globals.norm, t.globals.norm_bias);
}

/// Number of a layer, its place among those of its index, and the prefix of its tensors' names.
struct LayerPlace {
  size_t layer;
  int sublayer;
  std::string prefix;
};

/// The norm before the feed-forward block of a head's layer may have a name of its own.
LayerRow as_drafts_say(LayerRow row, const Planner& plan) {
  const DraftNames* const names = plan.draft_names();
  if (names && !names->ffn_norm.empty() && row.vector == &Layer::ffn_norm) row.hf = names->ffn_norm;
  return row;
}

Result<void> plan_layer(Planner& plan, const Arch& arch, Transformer& out, const LayerPlace& at) {
  const ModelConfig& c = out.config();
  const LayerConfig& l = c.layer[at.layer];
  Layer& to = out.layers[at.layer];
  plan.at(&l, at.sublayer);
  for (const LayerRow& row : arch.rows()) {
    if (unused_on(row, l)) plan.ignore(row, at.prefix);
    if (!on_layer(row, c, l)) continue;
    if (arch.query_gate && row.weight == &Layer::q) ISO_CHECK_OK(plan.add_gated_query(row, to, at.prefix));
    else ISO_CHECK_OK(plan.add(as_drafts_say(row, plan), to, at.prefix));
  }
  ISO_CHECK_OK(plan.add_mixer(to, l.mixer, at.prefix));
  if (l.ngrams >= 0) ISO_CHECK_OK(plan.add_ngrams(to, l.ngrams, at.prefix));
  if (c.latent && l.attends()) ISO_CHECK_OK(plan.add_latent(to, at.prefix));
  if (c.hyper) ISO_CHECK_OK(plan.add_layer_streams(to, at.prefix));
  if (c.hyper.late) ISO_CHECK_OK(plan.add_shared(to, l, at.prefix));
  else if (c.compressed) ISO_CHECK_OK(plan.add_compressed(to, l, at.prefix));
  else if (l.choosing == Choosing::own) ISO_CHECK_OK(plan.add_indexer(to, at.prefix));
  else if (c.index && c.latent && l.choosing == Choosing::none) plan.ignore_indexer(at.prefix);
  if (l.moe) ISO_CHECK_OK(plan.add_moe(to.moe, at.prefix, l.by_token));
  const auto table = std::find(c.engram.layers.begin(), c.engram.layers.end(), int(at.layer));
  if (table != c.engram.layers.end()) ISO_CHECK_OK(plan.add_engram(to, int(table - c.engram.layers.begin()), at.prefix));
  to.moe.clamp = l.expert_clamp, to.moe.shared_clamp = l.clamp;
  return {};
}

Result<void> plan_drafts(Planner& plan, const Arch& arch, Transformer& out) {
  const ModelConfig& c = out.config();
  out.drafts.resize(size_t(c.draft_heads));
  for (int64_t k = 0; k < c.draft_heads; ++k) {
    const DraftPlace place = draft_place(plan.checkpoint(), arch, c.layers, k);
    plan.drafts(arch.drafts);
    ISO_CHECK_OK(plan_layer(plan, arch, out, {size_t(c.layers + k), 0, place.layer}));
    ISO_CHECK_OK(plan.add_draft(out.drafts[size_t(k)], place.own));
    plan.drafts(nullptr);
  }
  return {};
}

}  // namespace

Result<void> plan_weights(Planner& plan, const Arch& arch, Transformer& out) {
  const ModelConfig& c = out.config();
  for (const GlobalRow& row : arch.globals()) {
    const bool head = row.weight == &Globals::head;
    const bool of_layers = row.rows == Size::input || row.rows == Size::inputs || row.cols == Size::inputs;
    if (of_layers && c.layer_input.width == 0) continue;
    if (head && c.tied_head) continue;
    ISO_CHECK_OK(plan.add(row, out.globals, head ? plan.names().head : plan.names().body));
  }
  if (c.hyper && !c.hyper.late) ISO_CHECK_OK(plan.add_final_streams(out.globals, plan.names().body));
  if (c.streams.count) ISO_CHECK_OK(plan.add_streams(out.globals));
  out.layers.resize(size_t(c.layers + c.draft_heads));
  for (int64_t l = 0; l < c.layers; ++l) {
    const std::string prefix = fmt::format("{}{}.", plan.names().layer, l / arch.sublayers);
    ISO_CHECK_OK(plan_layer(plan, arch, out, {size_t(l), int(l % arch.sublayers), prefix}));
  }
  return plan_drafts(plan, arch, out);
}

/// N-gram tables are not read: the model looks rows up where the file has them.
static Result<void> open_tables(const Checkpoint& ck, const Planner& plan, Transformer& out) {
  ISO_TRY(out.engram, EngramTables::make(out.config().engram));
  for (const Planner::Table& t : plan.tables()) {
    ISO_TRY(Checkpoint::Data values, ck.read(*t.values));
    Checkpoint::Data scales;
    if (t.scales) { ISO_TRY(scales, ck.read(*t.scales)); }
    ISO_CHECK_OK(out.engram->set(t.number, std::move(values), std::move(scales), t.values->name));
  }
  return {};
}

Result<void> load_weights(const Checkpoint& ck, ops::Ops& o, const levers::Loading& levers, const Arch& arch, Transformer& out,
                          const std::function<void(const LoadProgress&)>& progress) {
  const ModelConfig& c = out.config();
  if (arch.sparse != Sparse::none && !o.sparse())
    return fail(Code::unsupported, fmt::format("{} has no sparse attention, which {} needs", o.describe(), arch.name), {}, "run it on the CPU");
  if (c.engram && !c.engram.map)
    return fail(Code::internal, "the model has n-gram tables and nobody said what its tokens say", std::string(arch.name), "report this as a defect");
  Planner plan(ck, o, arch, c);
  ISO_CHECK_OK(plan_weights(plan, arch, out));
  ISO_CHECK_OK(plan.check(levers));
  ISO_CHECK_OK(plan.forecast(levers, base::available_memory()));
  ISO_TRY([[maybe_unused]] const weights::LoadReport report, weights::load_all(ck, plan.take_jobs(), levers, progress));
  if (const bool one = c.draft_heads == 1; c.draft_heads)
    base::log(base::LogLevel::info, "{} multi-token-prediction head{} kept, {:.1f} MiB (--no-mtp leaves {} out)", c.draft_heads, one ? " is" : "s are",
              double(plan.draft_bytes()) / double(1 << 20), one ? "it" : "them");
  if (c.tied_head) out.globals.head.w = std::move(out.globals.embed.w);
  if (c.layer_norms) fill_biases(out);
  return c.engram ? open_tables(ck, plan, out) : Result<void>();
}

}  // namespace isotope::models
