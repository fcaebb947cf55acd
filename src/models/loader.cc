#include "models/loader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "weights/coverage.h"
#include "weights/load_all.h"

namespace isotope::models {
namespace {

using tensor::HostTensor;
using weights::Checkpoint;
using weights::TensorEntry;

/// Where a container keeps the model's tensors.
struct Names {
  bool gguf = false;
  std::string body, layer, head;  ///< prefixes: globals, layers, and of "lm_head.weight"
};

Names names_of(const Checkpoint& c) {
  if (c.container() == "gguf") return {true, "", "blk.", ""};
  static constexpr std::string_view kBodies[][2] = {
      {"model.", ""}, {"language_model.model.", "language_model."}, {"model.language_model.", ""}, {"", ""}};
  for (const auto& [body, head] : kBodies)
    if (c.find(fmt::format("{}embed_tokens.weight", body))) return {false, std::string(body), fmt::format("{}layers.", body), std::string(head)};
  return {false, "model.", "model.layers.", ""};
}

/// What becomes of one tensor of the file once it is read. A fused tensor has several.
using Use = std::function<Result<void>(const Checkpoint::Data&)>;
struct Job {
  const TensorEntry* entry = nullptr;
  std::vector<Use> uses;
};

/// Rows [first, first + n) of a tensor.
HostTensor rows_of(HostTensor t, int64_t first, int64_t n) {
  if (first == 0 && n == t.rows()) return t;
  const size_t row = tensor::row_bytes(t.dtype, t.cols());
  t.data = static_cast<const std::byte*>(t.data) + size_t(first) * row;
  t.bytes = size_t(n) * row;
  t.shape = {n, t.cols()};
  t.rank = 2;
  return t;
}

class Planner {
 public:
  Planner(const Checkpoint& c, ops::Ops& o, const Arch& a, const ModelConfig& config) : ck_(c), ops_(o), arch_(a), c_(config), names_(names_of(c)) {
    for (const ops::Rope& r : config.ropes) rot_ = std::max<int64_t>(rot_, r.rot);
  }

  /// Adds the row's tensor to the plan; a tensor that must be there and is not goes to the list of missing ones.
  template <class Owner>
  Result<void> add(const TensorRow<Owner>& row, Owner& owner, const std::string& prefix) {
    const Presence when = row.when ? c_.*row.when : Presence::yes;
    if (when == Presence::no) return {};
    const Place place = find(row, prefix);
    if (place.entry) return use(row, owner, place);
    if (when == Presence::yes) missing_.push_back(prefix + std::string(names_.gguf ? row.gguf : row.hf));
    return {};
  }

  Result<void> check(const levers::Loading& levers) const {
    weights::Coverage coverage{missing_, {}};
    for (const TensorEntry& e : ck_.tensors())
      if (!used_.contains(&e) && !ignorable(e.name) && !(c_.tied_head && e.name.ends_with("lm_head.weight"))) coverage.unexpected.push_back(e.name);
    return weights::require(ck_, coverage, levers);
  }

  /// The plan as the loader's jobs.
  std::vector<weights::LoadJob> take_jobs() {
    std::vector<weights::LoadJob> out;
    for (Job& j : jobs_)
      out.push_back({{j.entry}, [uses = std::move(j.uses)](std::span<Checkpoint::Data> data) -> Result<void> {
                       for (const Use& use : uses) ISO_CHECK_OK(use(data[0]));
                       return {};
                     }});
    return out;
  }

  const Names& names() const { return names_; }

 private:
  /// Rows [first, first + n) of a tensor that should have `total`; k columns, or 0 for a vector.
  struct Place {
    const TensorEntry* entry = nullptr;
    int64_t first = 0, n = 0, total = 0, k = 0;
    bool fits() const {
      const auto& s = entry->shape;
      return k ? entry->rank == 2 && s[0] == total && s[1] == k : entry->rank == 1 && s[0] == total;
    }
  };

  /// The tensor of the row's own name; else, or if that one has another shape (Phi 3's ffn_up holds the gate too), the fused one.
  template <class Owner>
  Place find(const TensorRow<Owner>& row, const std::string& prefix) const {
    Place own{.n = size_of(row.rows, c_), .k = row.weight ? size_of(row.cols, c_) : 0};
    own.entry = ck_.find(prefix + std::string(names_.gguf ? row.gguf : row.hf));
    own.total = own.n;
    if ((own.entry && own.fits()) || row.fused.count == 0) return own;
    Place part = own;
    part.entry = ck_.find(prefix + std::string(names_.gguf ? row.fused.gguf : row.fused.hf));
    part.total = 0;
    for (int i = 0; i < row.fused.count; ++i) {
      if (i == row.fused.index) part.first = part.total;
      part.total += size_of(row.fused.parts[size_t(i)], c_);
    }
    return part.entry && (part.fits() || !own.entry) ? part : own;
  }

  template <class Owner>
  Result<void> use(const TensorRow<Owner>& row, Owner& owner, const Place& place) {
    const TensorEntry& e = *place.entry;
    if (!place.fits()) {
      const auto shape = std::span(e.shape).first(size_t(std::clamp(e.rank, 0, 4)));
      const std::string wanted = place.k ? fmt::format("[{}, {}]", place.total, place.k) : fmt::format("[{}]", place.total);
      return fail(Code::data_loss, fmt::format("tensor {} has shape [{}], the configuration asks for {}", e.name, fmt::join(shape, ", "), wanted),
                  ck_.files()[size_t(e.file)], "use an intact checkpoint of that architecture");
    }
    used_.insert(&e);
    auto job = std::find_if(jobs_.rbegin(), jobs_.rend(), [&](const Job& j) { return j.entry == &e; });
    if (job == jobs_.rend()) {
      jobs_.push_back({&e, {}});
      job = jobs_.rbegin();
    }
    const int64_t first = place.first, n = place.n;
    std::vector<int32_t> order;
    if (row.turns && names_.gguf && arch_.gguf_pairs) order = halves_from_pairs(n / c_.head_dim, c_.head_dim, rot_);
    if (row.weight) {
      job->uses.push_back([&o = ops_, &slot = owner.*row.weight, first, n, order = std::move(order)](const Checkpoint::Data& d) -> Result<void> {
        // Reordered rows stay within a head, so that few pages, if any, come in twice.
        const size_t row = tensor::row_bytes(d.view.dtype, d.view.cols());
        const auto done = [&](int64_t from, int64_t rows) { d.release(size_t(first + from) * row, size_t(rows) * row); };
        ISO_TRY(slot.w, o.pack(rows_of(d.view, first, n), order, d.release ? ops::RowsDone(done) : ops::RowsDone()));
        return {};
      });
    } else {
      const bool norm = row.vector != nullptr;
      std::vector<float>& slot = norm ? owner.*row.vector : (owner.*row.bias).bias;
      const float shift = norm && !names_.gguf ? arch_.hf_norm_shift : 0.0f;
      job->uses.push_back([&slot, first, n, shift, order = std::move(order)](const Checkpoint::Data& d) -> Result<void> {
        const HostTensor& t = d.view;
        std::vector<float> v(size_t(t.elements()));
        ISO_CHECK_OK(tensor::dequantize(t.dtype, t.data, v));
        slot.resize(size_t(n));
        for (size_t i = 0; i < slot.size(); ++i) slot[i] = v[size_t(first) + (order.empty() ? i : size_t(order[i]))] + shift;
        return {};
      });
    }
    return {};
  }

  const Checkpoint& ck_;
  ops::Ops& ops_;
  const Arch& arch_;
  const ModelConfig& c_;
  Names names_;
  int64_t rot_ = 0;
  std::vector<Job> jobs_;
  std::set<const TensorEntry*> used_;
  std::vector<std::string> missing_;
};

}  // namespace

std::vector<int32_t> halves_from_pairs(int64_t heads, int64_t head_dim, int64_t rot) {
  std::vector<int32_t> order(size_t(heads * head_dim));
  std::iota(order.begin(), order.end(), 0);
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t r = 0; r < rot; ++r) order[size_t(h * head_dim + r)] = int32_t(h * head_dim + 2 * (r % (rot / 2)) + r / (rot / 2));
  return order;
}

Result<void> load_weights(const Checkpoint& ck, ops::Ops& o, const levers::Loading& levers, const Arch& arch, Transformer& out,
                          const std::function<void(const LoadProgress&)>& progress) {
  const ModelConfig& c = out.config();
  Planner plan(ck, o, arch, c);
  for (const GlobalRow& row : global_rows()) {
    const bool head = row.weight == &Globals::head;
    if (head && c.tied_head) continue;
    ISO_CHECK_OK(plan.add(row, out.globals, head ? plan.names().head : plan.names().body));
  }
  out.layers.resize(size_t(c.layers));
  for (size_t l = 0; l < out.layers.size(); ++l)
    for (const LayerRow& row : arch.rows()) ISO_CHECK_OK(plan.add(row, out.layers[l], fmt::format("{}{}.", plan.names().layer, l)));
  ISO_CHECK_OK(plan.check(levers));
  ISO_TRY([[maybe_unused]] const weights::LoadReport report, weights::load_all(ck, plan.take_jobs(), levers, progress));
  if (c.tied_head) out.globals.head.w = std::move(out.globals.embed.w);
  return {};
}

}  // namespace isotope::models
