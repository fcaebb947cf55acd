// Attention over a paged KV cache, one chunk of tokens at a time. Numbers only: who computes which chunk is the op's business.
//
// The arithmetic, which decides every bit (contract 1):
//   - A segment is kSegment tokens aligned to absolute position 0, a chunk kChunk tokens of it. A row (one query head of one token) sees the tokens [lo, hi) of
//     a chunk.
//   - score(t) = scale * sum over j = 0, 1 … d-1 of q[j] * K[j][t], one fused multiply-add each (times the token's K scale for int8 and fp8); then the soft cap.
//     bfloat16: q is rounded to bfloat16 and j runs 1, 0, 3, 2 …, the order of vdpbf16ps; denormals count as zero.
//   - m = the largest score the row sees in this chunk and in those of the segment before it; f = exp(m before - m), 1 if m stays; p(t) = exp(score(t) - m);
//     l = l * f + the sum of p, lane t % 16 first, then the tree over the lanes.
//   - o[j] = o[j] * f, then for t = lo, lo+1 … hi-1 plus p(t) * V[t][j], one fused multiply-add each (p times the token's V scale for int8 and fp8).
//     bfloat16: p is rounded to bfloat16 (l sums it unrounded) and t runs 1, 0, 3, 2 …; of a pair that is half seen the other half counts as zero.
//   - merge() joins the segments, in ascending order, onto an empty result. What a row does not see is skipped, so that a chunk or a segment it sees nothing
//     of is none at all.
// It depends neither on how many rows a call has nor on which other rows they are. Online softmax: Milakov, Gimelshein 2018; chunked: Dao et al. 2023.
#pragma once

#include <cstdint>

namespace isotope::kernels::cpu {

inline constexpr int kChunk = 256;        ///< tokens; a build constant: it decides bits
inline constexpr int kSegment = 512;      ///< tokens, whole chunks; the same
inline constexpr int kTile = 16;         ///< tokens side by side in the lanes
inline constexpr int kMaxRows = 12;      ///< rows of one call
inline constexpr int kMaxHeadDim = 576;
inline constexpr int kMaxGroups = 8;     ///< groups of up to kMaxRows rows of one call of latent()
inline constexpr int kLatentBytes = 4 * kMaxGroups * kMaxRows * kChunk + 4 * 32 * kChunk;  ///< that latent() works in
inline constexpr int kQueryBytes = 4 * kMaxRows * (kMaxHeadDim + 32);  ///< of the rows of one call as pack_q() makes them

/// How keys and values are stored. int8 and fp8 (E4M3) have one float32 scale for each token and head, for K and for V.
enum class KvFormat : uint8_t { f32, f16, bf16, int8, fp8, count_ };
inline constexpr int kKvBytes[] = {4, 2, 2, 1, 1};
inline constexpr bool kKvScaled[] = {false, false, false, true, true};

/// Elements between two tokens of V: whole vectors, the padding is written as zero.
constexpr int padded_dim(int d) { return (d + 15) / 16 * 16; }

/// Sixteen tokens of one kv head.
struct KvTile {
  void* k = nullptr;         ///< [d][16]; bf16: [d / 2][16][2], two elements of a token side by side
  void* v = nullptr;         ///< [16][padded_dim(d)]; bf16: [8][padded_dim(d)][2], two tokens side by side. Null: values are a part of the keys
  float* k_scale = nullptr;  ///< [16], scaled formats only; without v the scales of values are the same
  float* v_scale = nullptr;
};

/// Rows against one chunk. Tiles that no row sees are not read.
struct ChunkArgs {
  const void* q = nullptr;        ///< made by pack_q of the same format
  int rows = 0, d = 0;            ///< d is even
  const KvTile* tiles = nullptr;  ///< [kChunk / kTile]
  const KvTile* next = nullptr;   ///< [kChunk / kTile] of the chunk that comes next, to be fetched ahead; null tiles are none
  const int* lo = nullptr;        ///< [rows] first token of the chunk that the row sees
  const int* hi = nullptr;        ///< [rows] one past the last; hi <= lo: none
  float scale = 1.0f, softcap = 0.0f;
};

/// Softmax over a part of the context, not yet divided by l.
struct Partial {
  float m[16], l[16];   ///< [rows]; a row that has seen nothing has l = 0
  float* o = nullptr;   ///< [rows][padded_dim(d)]
};

struct AttentionKernels {
  /// Queries as chunk() wants them: at most kQueryBytes.
  void (*pack_q[int(KvFormat::count_)])(void* out, const float* const* rows, int n, int d) noexcept;
  /// A segment's result goes on with its next chunk; clear() starts it.
  void (*chunk[int(KvFormat::count_)])(const ChunkArgs&, Partial& segment) noexcept;
  /// The same for groups of rows with the same tiles and d, whose values are the last `value_dim` numbers of the keys (an even distance from the first);
  /// a group's segment has results of value_dim. The bits are those of chunk() with the keys as values. `scratch` [kLatentBytes] is aligned to 64.
  void (*latent[int(KvFormat::count_)])(const ChunkArgs* groups, int n, int value_dim, void* scratch, Partial* segments) noexcept;
  /// chunk(), latent(), merge() and finish() of a format are called between enter() and leave(enter's value) on the same thread: the arithmetic of bf16
  /// knows no denormals.
  unsigned (*enter[int(KvFormat::count_)])() noexcept;
  void (*leave[int(KvFormat::count_)])(unsigned) noexcept;
  /// Starts a result: of a segment, or the running one.
  void (*clear)(Partial& run, int rows, int d) noexcept;
  /// run = run joined with the segment that follows it.
  void (*merge)(Partial& run, const Partial& part, int rows, int d) noexcept;
  /// out[i] = o / l; sinks [rows] or null: a logit that takes weight and gives no value.
  void (*finish)(Partial& run, const float* sinks, float* const* out, int rows, int d) noexcept;
  /// Fetches what write() will change; a hint.
  void (*fetch[int(KvFormat::count_)])(const KvTile& tile, int t, int d) noexcept;
  /// Stores one token's k [d] and v [d] as number `t` of a tile.
  void (*write[int(KvFormat::count_)])(const KvTile& tile, int t, const float* k, const float* v, int d) noexcept;
};

}  // namespace isotope::kernels::cpu
