// The plan of a load: which tensor of the file fills which slot of the model, and the checks of names and shapes both ways. Internal to the loader.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "models/arch.h"
#include "weights/checkpoint.h"
#include "weights/coverage.h"
#include "weights/load_all.h"

namespace isotope::models {

using weights::Checkpoint;
using weights::TensorEntry;

/// Where a container keeps the model's tensors.
struct Names {
  bool gguf = false;
  std::string body, layer, head;  ///< prefixes: globals, layers, and of "lm_head.weight"
};
Names names_of(const Checkpoint&);

/// Prefixes of a multi-token-prediction head's tensors: of those of its layer, and of its own.
struct DraftPlace {
  std::string layer, own;
};
/// Whether any tensor's name begins so.
bool holds_any(const Checkpoint&, std::string_view prefix);
/// REQUIRES: the family's heads are known.
DraftPlace draft_place(const Checkpoint&, const Arch&, int64_t layers, int64_t head);

/// Rows [first, first + n) of a tensor, counting the rows of all its matrices.
tensor::HostTensor rows_of(tensor::HostTensor, int64_t first, int64_t n);

/// Whole numbers of a tensor of 32 or 64 bits; empty if it is of another type.
std::vector<int64_t> whole_numbers(const tensor::HostTensor&);

/// n columns of a matrix [k, columns], the first one and every `step`-th from it on, as the rows of a weight [n, k]. For formats without blocks.
Result<std::unique_ptr<ops::Weight>> pack_columns(ops::Ops&, const tensor::HostTensor&, int64_t first, int64_t n, int64_t step = 1);

/// What becomes of one tensor of the file once it is read. A fused tensor has several.
using Use = std::function<Result<void>(const Checkpoint::Data&)>;

class Planner {
 public:
  Planner(const Checkpoint&, ops::Ops&, const Arch&, const ModelConfig&);

  const Checkpoint& checkpoint() const { return ck_; }
  const Names& names() const { return names_; }
  const Arch& arch() const { return arch_; }
  const ModelConfig& config() const { return c_; }
  /// The layer whose rows come next; heads and widths are its own. Null: the model's.
  void at(const LayerConfig* layer, int sublayer = 0) { layer_ = layer, sublayer_ = sublayer; }

  /// Adds the row's tensor to the plan; a tensor that must be there and is not goes to the list of missing ones.
  template <class Owner>
  Result<void> add(const TensorRow<Owner>& row, Owner& owner, const std::string& prefix);
  /// A tensor that the file may hold and nothing reads.
  void ignore(const LayerRow&, const std::string& prefix);
  void ignore(const std::string& name);
  /// Adds what makes residual streams of the embeddings and one of them in the end (Gemma 3n).
  Result<void> add_streams(Globals&);
  /// Adds attention's query and gate, which share a tensor: of each head first the query's rows, then the gate's.
  Result<void> add_gated_query(const LayerRow&, Layer&, const std::string& prefix);
  /// Adds the tensors of a layer's recurrent mixer; does nothing for attention.
  Result<void> add_mixer(Layer&, Mixer, const std::string& prefix);
  /// Adds a layer's mixture of experts; `by_token`: with the table that says which experts a token goes to, not with what a choice needs.
  Result<void> add_moe(ops::Moe&, const std::string& prefix, bool by_token = false);

  /// Adds a layer's latent attention.
  Result<void> add_latent(Layer&, const std::string& prefix);

  /// Adds a layer's indexer.
  Result<void> add_indexer(Layer&, const std::string& prefix);
  /// Says of a layer's indexer that nothing reads it.
  void ignore_indexer(const std::string& prefix);
  /// Adds a layer's embeddings of n-grams; `place`: see LayerConfig::ngrams.
  Result<void> add_ngrams(Layer&, int place, const std::string& prefix);
  /// Adds the residual streams around a layer's blocks.
  Result<void> add_layer_streams(Layer&, const std::string& prefix);
  /// Adds DeepSeek V4's attention; the layer's configuration says whether keys are compressed and chosen.
  Result<void> add_compressed(Layer&, const LayerConfig&, const std::string& prefix);
  /// The same for DeepSeek V4.1, where layers share compressed keys.
  Result<void> add_shared(Layer&, const LayerConfig&, const std::string& prefix);
  /// Adds what a layer does with rows of its n-gram table, and the table, which is not among the jobs: it stays where it is.
  Result<void> add_engram(Layer&, int table, const std::string& prefix);
  struct Table {
    int number = 0;
    const TensorEntry *values = nullptr, *scales = nullptr;  ///< scales: or null
  };
  const std::vector<Table>& tables() const { return tables_; }
  /// Adds what brings the streams together.
  Result<void> add_final_streams(Globals&, const std::string& prefix);

  /// Adds what a multi-token-prediction head has beyond its layer; `own`: prefix of its names.
  Result<void> add_draft(DraftHead&, const std::string& own);
  /// What is added from now on, or no longer, is a head's. `names`: null ends it.
  void drafts(const DraftNames* names) { draft_names_ = names; }
  const DraftNames* draft_names() const { return draft_names_; }
  /// Bytes of the packed heads, once they are loaded: of matrices that turned out to be the model's there are none.
  uint64_t draft_bytes() const;

  Result<void> check(const levers::Loading&);
  /// Before anything is allocated: whether the packed weights fit the memory that is free. If they do not, experts go to files where there is a folder for them
  /// (ISOTOPE_EXPERT_FOLDER); else it fails, with the numbers. `free` 0 = nobody knows.
  Result<void> forecast(const levers::Loading&, uint64_t free);
  /// A tensor that was asked for and that the checkpoint does not have, with the shape it should have; empty where nobody said.
  struct Missing {
    std::string name;
    std::vector<int64_t> shape;
  };
  /// The missing tensors; experts that are missing count among them from now on.
  std::vector<Missing> take_missing();
  /// The plan as the loader's jobs.
  std::vector<weights::LoadJob> take_jobs();

 private:
  struct Job {
    const TensorEntry* entry = nullptr;
    std::vector<Use> uses;
  };
  /// Rows [first, first + n) of a tensor that should have `total`; k columns, or 0 for a vector.
  struct Place {
    const TensorEntry* entry = nullptr;
    int64_t first = 0, n = 0, total = 0, k = 0;
    bool fits() const;
  };
  struct Stack;

  template <class Owner>
  Place find(const TensorRow<Owner>& row, const std::string& prefix) const;
  template <class Owner>
  Result<void> use(const TensorRow<Owner>& row, Owner& owner, const Place& place);

  /// The entry of that name and shape. One that is not there goes to the list of missing ones and is null; another shape is an error.
  Result<const TensorEntry*> required(const std::string& name, std::span<const int64_t> shape);
  /// Fails unless the entry's shape is `want`.
  Result<void> expect_shape(const TensorEntry&, std::span<const int64_t> want) const;
  void add_use(const TensorEntry&, Use);
  Use pack_into(ops::Linear& slot, int64_t first, int64_t n, std::vector<int32_t> order = {});
  Use read_into(std::vector<float>& slot, int64_t first, int64_t n, float shift = 0, std::vector<int32_t> order = {});
  void need(const std::string& name, std::span<const int64_t> shape = {}) { missing_.push_back({spelled_out(name), {shape.begin(), shape.end()}}); }
  /// Packs a matrix of an expert: into memory, or into a file.
  Result<std::unique_ptr<ops::Weight>> pack_expert(const tensor::HostTensor& t, std::span<const int32_t> rows = {}, const ops::RowsDone& done = {}) {
    return spill_ ? ops_.pack_spilled(t, rows, done) : ops_.pack(t, rows, done);
  }
  /// The name with the layer's place among those of its index, where the family has such.
  std::string spelled_out(std::string name) const;
  const TensorEntry* entry(const std::string& name) const { return ck_.find(spelled_out(name)); }

  /// One tensor as several matrices, each with the rows that its list names.
  struct Part {
    ops::Linear* to;
    std::vector<int32_t> rows;
  };
  Result<void> add_parts(const std::string& name, int64_t rows, int64_t cols, std::vector<Part>);
  /// A small tensor as numbers, through `change` if there is one. Dimensions of 1 count for nothing.
  Result<void> add_numbers(std::vector<float>& to, const std::string& name, std::span<const int64_t> shape, std::function<void(std::vector<float>&)> change = {});
  struct ConvNames {
    std::string weight, bias;
  };
  /// The weights [channels, 1, width] of a convolution that knows its width.
  Result<void> add_conv_weight(ops::ShortConv&, const std::string& name, int64_t channels, std::vector<float> scales);
  /// `want` must live until the tensors are read.
  Result<void> expect_numbers(const std::string& name, const std::vector<int64_t>& want);
  /// `scales`: one for each channel, multiplied into the weights; or empty.
  Result<void> add_conv(ops::ShortConv&, const ConvNames&, int64_t channels, bool silu, std::vector<float> scales = {});
  /// Matrices that stand one above the other in a tensor, each with its number of rows.
  Result<void> add_stacked(const std::string& name, int64_t cols, std::initializer_list<std::pair<ops::Linear*, int64_t>>);
  /// A recurrent mixer's tensor in the file's words.
  struct MixerTensor {
    std::string_view hf, gguf;
  };
  std::string named(const std::string& layer, const MixerTensor& t) const;
  Result<void> add_mamba2(Layer&, const std::string& layer);
  Result<void> add_mamba1(Layer&, const std::string& layer);
  Result<void> add_gated_conv(Layer&, const std::string& layer);
  Result<void> add_delta(Layer&, const std::string& layer);
  Result<void> add_delta_projections(DeltaNet&, const std::string& layer);
  Result<void> add_channel_delta(Layer&, const std::string& layer);
  Result<void> add_lightning(Layer&, const std::string& layer);
  struct ConvolvedSizes {
    int64_t keys = 0, values = 0;
  };
  Result<void> add_convolved(ConvolvedQkv&, const std::string& layer, ConvolvedSizes);
  /// Numbers of one value for each head, as one for each channel.
  Result<void> add_by_head(std::vector<float>& to, const std::string& name, int64_t heads, int64_t each, void (*change)(std::vector<float>&));
  /// Hugging Face files hold the logarithm of what decays, GGUF files its negative.
  std::function<void(std::vector<float>&)> decay() const;
  ops::Linear& mixer_out(Layer& l) const { return arch_.beside ? l.mixer_o : l.o; }

  Result<void> add_router(ops::Moe&, const std::string& prefix, bool by_token);
  Result<void> add_expert_table(ops::Moe&, const std::string& name);
  Result<void> add_float_matrix(ops::Linear&, const std::string& name, int64_t n, int64_t k);
  void set_streams(ops::Streams&) const;
  std::string streams_at(const std::string& prefix, std::string_view name) const;
  Result<void> add_streams(ops::Streams&, const std::string& prefix, int64_t numbers, int64_t scales);
  Result<void> add_low_rank_streams(ops::Streams&, const std::string& prefix, bool injects);
  Result<void> add_compressor(Compressor&, const std::string& prefix, int ratio, int64_t dim);
  Result<void> add_compressed_base(Layer&, const std::string& prefix);
  Result<void> add_experts(ops::Moe&, const std::string& prefix);
  Result<void> add_separate_experts(ops::Moe&, const std::string& prefix);
  Result<bool> add_stack(ops::Moe&, const std::string& name, const Stack&);
  Result<void> add_mxfp4(ops::Moe&, const std::string& name, const Stack&);
  Result<void> add_biases(ops::Moe&, const std::string& name, const Stack&);
  Result<void> add_shared(ops::Moe&, const std::string& prefix);
  /// `order`: rows of the tensor that make up the slot, in this order; empty = all.
  Result<void> add_matrix(ops::Linear& slot, const std::string& name, int64_t n, int64_t k, std::vector<int32_t> order = {});
  /// A matrix [V, D] of a head. `same` is the model's; where both hold the same bytes the slot stays empty.
  Result<void> add_draft_table(ops::Linear& slot, const std::string& name, const TensorEntry* same);
  /// Whether a tensor that nobody has asked for is one of a multi-token-prediction head that is not kept.
  bool is_draft(const std::string& name, std::span<const DraftPlace> kept) const;
  void log_left_out(const std::vector<std::string>& names) const;
  /// What a tensor takes packed, as a forecast knows it.
  uint64_t packed_bytes(const TensorEntry&) const;
  Result<void> add_latent_ups(LatentWeights&, const std::string& prefix);
  Result<void> fill_missing_experts(const levers::Loading&);

  struct Slot {
    ops::Linear* to;
    int64_t n, k;
    std::string name;
  };

  const Checkpoint& ck_;
  ops::Ops& ops_;
  const Arch& arch_;
  const ModelConfig& c_;
  Names names_;
  const LayerConfig* layer_ = nullptr;
  int sublayer_ = 0;
  int64_t rot_ = 0;
  std::vector<Job> jobs_;
  std::unordered_map<const TensorEntry*, size_t> job_of_;  ///< which tensors are used
  std::vector<weights::LoadJob> pairs_;  ///< parameters that two tensors make up
  std::vector<Missing> missing_;
  std::vector<int64_t> primes_;  ///< see ngram_primes()
  std::vector<Slot> missing_experts_;
  std::vector<Table> tables_;
  bool in_experts_ = false;  ///< what is planned now are matrices of experts
  bool spill_ = false;
  const DraftNames* draft_names_ = nullptr;  ///< what is planned now is a head's
  std::unordered_map<const TensorEntry*, uint64_t> draft_entries_;  ///< tensors of heads, and what they take packed
  std::vector<std::pair<const ops::Linear*, uint64_t>> draft_tables_;  ///< matrices that may turn out to be the model's
};

}  // namespace isotope::models
