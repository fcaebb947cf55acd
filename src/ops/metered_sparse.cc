#include "ops/metered_sparse.h"

namespace isotope::ops {
namespace {

enum Kind { kChoose, kAttendChosen, kCompress, kAttendCompressed, kClamped, kSpread, kEnter, kLeave, kJoin, kNgrams, kGate, kPool, kStore, kTakeRows, kMemory };
constexpr const char* kNames[] = {"choice of keys",     "attention to chosen keys", "compressed keys", "attention to compressed keys",
                                  "clamped activation", "spread streams",           "enter streams",   "leave streams",
                                  "join streams",       "embeddings of n-grams",    "gate of streams", "pooled inputs",
                                  "stored entries",     "rows of n-gram tables",    "n-gram memory"};

int64_t bytes_of(Tensor t) { return t.rows * t.cols * int64_t(sizeof(float)); }
int64_t bytes_of(const Linear& l) { return l.w ? int64_t(l.w->bytes) : 0; }

/// Counted by what goes in and out; what attention reads of the cache depends on lengths that only the backend looks at.
MeteredSparse::Call call(Kind kind, int64_t bytes, int64_t operations = 0) { return {kind, kNames[kind], bytes, operations}; }

int64_t mixing(const Streams& s, Tensor streams) { return s.mix.w ? 2 * streams.rows * s.mix.w->n * s.mix.w->k : 0; }

}  // namespace

void MeteredSparse::choose_keys(const IndexArgs& a) {
  timed(call(kChoose, bytes_of(a.q) + bytes_of(a.k) + bytes_of(a.weights)), [&] { return in_.choose_keys(a), 0; });
}
Tensor MeteredSparse::attend_chosen(AttentionArgs a) {
  return timed(call(kAttendChosen, 2 * bytes_of(a.q) + bytes_of(a.k) + bytes_of(a.v)), [&] { return in_.attend_chosen(a); });
}
void MeteredSparse::compress(const CompressArgs& a) {
  timed(call(kCompress, 2 * bytes_of(a.inputs) + 2 * bytes_of(a.gates)), [&] { return in_.compress(a), 0; });
}
Tensor MeteredSparse::attend_compressed(const CompressedArgs& a) {
  return timed(call(kAttendCompressed, 2 * bytes_of(a.q) + bytes_of(a.kv)), [&] { return in_.attend_compressed(a); });
}
Tensor MeteredSparse::clamped_act_mul(Tensor gate, Tensor up, Activation act, float limit, float alpha) {
  return timed(call(kClamped, 3 * bytes_of(gate)), [&] { return in_.clamped_act_mul(gate, up, act, limit, alpha); });
}
Tensor MeteredSparse::spread(Tensor x, int streams) {
  return timed(call(kSpread, (1 + streams) * bytes_of(x)), [&] { return in_.spread(x, streams); });
}
StreamStep MeteredSparse::enter(Tensor streams, const Streams& s) {
  return timed(call(kEnter, 3 * bytes_of(streams) + bytes_of(s.mix), mixing(s, streams)), [&] { return in_.enter(streams, s); });
}
void MeteredSparse::leave(Tensor streams, const StreamStep& step, Tensor y) {
  timed(call(kLeave, 4 * bytes_of(streams) + bytes_of(y)), [&] { return in_.leave(streams, step, y), 0; });
}
Tensor MeteredSparse::join(Tensor streams, const Streams& s) {
  return timed(call(kJoin, 3 * bytes_of(streams) + bytes_of(s.mix), mixing(s, streams)), [&] { return in_.join(streams, s); });
}
Tensor MeteredSparse::embed_ngrams(const NgramArgs& a) {
  return timed(call(kNgrams, 0), [&] { return in_.embed_ngrams(a); });
}
Tensor MeteredSparse::gate_streams(const StreamGateArgs& a) {
  return timed(call(kGate, 2 * bytes_of(a.keys) + bytes_of(a.queries) + bytes_of(a.values), 2 * a.keys.rows * a.keys.cols),
               [&] { return in_.gate_streams(a); });
}

StreamStep MeteredSparse::enter_late(Tensor streams, const Streams& s, Tensor& read) {
  return timed(call(kEnter, 3 * bytes_of(streams) + bytes_of(s.mix), mixing(s, streams)), [&] { return in_.enter_late(streams, s, read); });
}
Tensor MeteredSparse::blend(Tensor streams, Tensor weights) {
  return timed(call(kJoin, 2 * bytes_of(streams)), [&] { return in_.blend(streams, weights); });
}
Tensor MeteredSparse::pool(const CompressArgs& a) {
  return timed(call(kPool, 2 * bytes_of(a.inputs) + 2 * bytes_of(a.gates)), [&] { return in_.pool(a); });
}
void MeteredSparse::store_entries(const EntryArgs& a) {
  timed(call(kStore, 2 * bytes_of(a.x)), [&] { return in_.store_entries(a), 0; });
}
Tensor MeteredSparse::take_rows(const RowsArgs& a) {
  return timed(call(kTakeRows, int64_t(a.rows.size()) * int64_t(a.table->row_bytes() + a.table->scale_bytes())), [&] { return in_.take_rows(a); });
}
void MeteredSparse::add_memory(Tensor streams, const MemoryArgs& a) {
  timed(call(kMemory, 2 * bytes_of(streams) + bytes_of(a.kv)), [&] { return in_.add_memory(streams, a), 0; });
}

}  // namespace isotope::ops
