// isotope logits: what a model computes for given token ids, as a safetensors file. No tokenizer, no sampler: for comparison with other implementations.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "base/output_file.h"
#include "commands.h"
#include "direct.h"
#include "models/direct.h"
#include "weights/safetensors_writer.h"

namespace isotope::app {
namespace {

struct Options {
  DirectFlags direct;
  std::string out, kv;
  std::vector<int32_t> ids;
  int greedy = 0, chunk = 64;
  bool hidden = false;
};

const std::map<std::string, KvType> kKvTypes = {
    {"f32", KvType::f32}, {"f16", KvType::f16}, {"bf16", KvType::bf16}, {"int8", KvType::int8}, {"fp8", KvType::fp8}};

/// Rows gathered over several steps: a matrix that grows downwards.
struct Rows {
  std::vector<float> data;
  int64_t cols = 0;
  void append(const ops::Tensor& t) {
    cols = t.cols;
    for (int64_t r = 0; r < t.rows; ++r) data.insert(data.end(), t.row(r), t.row(r) + t.cols);
  }
  weights::NamedTensor named(std::string name) const {
    const int64_t rows = cols ? int64_t(data.size()) / cols : 0;
    return {std::move(name), {tensor::DType::f32, data.data(), data.size() * sizeof(float), {rows, cols}, 2}};
  }
};

struct Output {
  Rows logits;
  std::vector<Rows> hidden;
  std::vector<int32_t> greedy;
};

/// The prompt in chunks, then one token at a time; every token that was fed has a row.
Result<Output> compute(models::Direct& direct, const Options& o, int64_t hidden_count) {
  Output out;
  out.hidden.resize(size_t(hidden_count));
  const models::HiddenTap tap = [&](int i, ops::Tensor t) { out.hidden[size_t(i)].append(t); };
  const auto feed = [&](std::span<const int32_t> ids) -> Result<void> {
    const models::Chunk chunk{.tokens = ids, .all_logits = true};
    ISO_TRY(const ops::Tensor logits, direct.step({&chunk, 1}, o.hidden ? &tap : nullptr));
    out.logits.append(logits);
    return {};
  };
  for (size_t at = 0; at < o.ids.size(); at += size_t(o.chunk))
    ISO_CHECK_OK(feed(std::span(o.ids).subspan(at, std::min(size_t(o.chunk), o.ids.size() - at))));
  for (int i = 0; i < o.greedy; ++i) {
    const size_t cols = size_t(out.logits.cols);
    out.greedy.push_back(models::argmax(std::span(out.logits.data).last(cols)));
    ISO_CHECK_OK(feed(std::span(out.greedy).last(1)));
  }
  return out;
}

Result<void> write(const Output& out, const Options& o) {
  std::vector<weights::NamedTensor> tensors{out.logits.named("logits")};
  if (o.greedy) tensors.push_back({"greedy", {tensor::DType::i32, out.greedy.data(), out.greedy.size() * sizeof(int32_t), {int64_t(out.greedy.size())}, 1}});
  if (o.hidden)
    for (size_t i = 0; i < out.hidden.size(); ++i) tensors.push_back(out.hidden[i].named("hidden." + std::to_string(i)));
  ISO_TRY(base::OutputFile file, base::OutputFile::create(o.out, "--output"));
  return weights::write_safetensors(std::move(file), tensors);
}

Result<void> run(const Options& o, const Context& context) {
  ISO_TRY(const levers::Levers levers, resolve_levers(context));
  const int64_t total = int64_t(o.ids.size()) + o.greedy;
  ISO_CHECK_OK(base::OutputFile::check(o.out, "--output"));
  ISO_TRY(DirectFiles files, open_direct(o.direct, levers, context.environment, total));
  ISO_CHECK_OK(files.check_context(total, fmt::format("{} ids and {} more make {} tokens", o.ids.size(), o.greedy, total), "--ids, --greedy"));
  ISO_TRY(const DirectModel m, load_direct(files, o.direct, levers));
  const KvType kv = !o.kv.empty() ? kKvTypes.at(o.kv) : o.direct.exact() ? KvType::f32 : KvType::bf16;
  ISO_TRY(models::Direct direct, models::Direct::create(*m.model, *m.ops, {.max_len = total, .kv = kv}));
  ISO_TRY(const Output out, compute(direct, o, o.hidden ? files.config.layers + 1 : 0));
  return write(out, o);
}

}  // namespace

void add_logits(CLI::App& app, Context& context) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("logits", "logits, greedy continuation and hidden states for token ids, as safetensors");
  o->direct.add(*sub);
  sub->add_option("--ids", o->ids, "token ids: 5,17,3")->required()->delimiter(',');
  sub->add_option("--greedy", o->greedy, "then append the likeliest token N times")->check(CLI::Range(0, 1 << 20));
  sub->add_flag("--hidden", o->hidden, "also hidden.0 (embeddings), hidden.i (output of layer i); the last is after the final norm");
  sub->add_option("--kv", o->kv, "KV cache type")->check(CLI::IsMember(kKvTypes));
  sub->add_option("--chunk", o->chunk, "prompt tokens a step")->check(CLI::Range(1, 1 << 20));
  sub->add_option("-o,--output", o->out, "the file to write")->required();
  sub->callback([o, &context] {
    context.run = [o, &context] {
      const auto done = run(*o, context);
      return done ? 0 : report(done.error());
    };
  });
}

}  // namespace isotope::app
