#include "models/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/cgroup.h"
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
  if (c.compressed && !c.hyper.late) ISO_CHECK_OK(plan.add_final_streams(out.globals, plan.names().body));
  if (c.streams.count) ISO_CHECK_OK(plan.add_streams(out.globals));
  out.layers.resize(size_t(c.layers));
  for (size_t l = 0; l < out.layers.size(); ++l) {
    const std::string prefix = plan.names().layer + std::to_string(l / size_t(arch.sublayers)) + ".";
    const bool moe = c.layer[l].moe;
    plan.at(&c.layer[l], int(l % size_t(arch.sublayers)));
    for (const LayerRow& row : arch.rows()) {
      if (unused_on(row, c.layer[l])) plan.ignore(row, prefix);
      if (!on_layer(row, c, c.layer[l])) continue;
      if (arch.query_gate && row.weight == &Layer::q) ISO_CHECK_OK(plan.add_gated_query(row, out.layers[l], prefix));
      else ISO_CHECK_OK(plan.add(row, out.layers[l], prefix));
    }
    ISO_CHECK_OK(plan.add_mixer(out.layers[l], c.layer[l].mixer, prefix));
    if (c.latent && c.layer[l].attends()) ISO_CHECK_OK(plan.add_latent(out.layers[l], prefix));
    if (c.hyper.late) ISO_CHECK_OK(plan.add_shared(out.layers[l], c.layer[l], prefix));
    else if (c.compressed) ISO_CHECK_OK(plan.add_compressed(out.layers[l], c.layer[l], prefix));
    else if (c.layer[l].choosing == Choosing::own) ISO_CHECK_OK(plan.add_indexer(out.layers[l], prefix));
    if (moe) ISO_CHECK_OK(plan.add_moe(out.layers[l].moe, prefix, c.layer[l].by_token));
    const auto table = std::find(c.engram.layers.begin(), c.engram.layers.end(), int(l));
    if (table != c.engram.layers.end()) ISO_CHECK_OK(plan.add_engram(out.layers[l], int(table - c.engram.layers.begin()), prefix));
    out.layers[l].moe.clamp = c.layer[l].expert_clamp, out.layers[l].moe.shared_clamp = c.layer[l].clamp;
  }
  return {};
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
  if (c.tied_head) out.globals.head.w = std::move(out.globals.embed.w);
  if (c.layer_norms) fill_biases(out);
  return c.engram ? open_tables(ck, plan, out) : Result<void>();
}

}  // namespace isotope::models
