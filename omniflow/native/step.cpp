// One step of a dense decoder over a flat batch of rows (decode rows and prefill chunks of any sequences) as one call.
//
// Per layer: norm | qkv product | rotate, cache, attend | output product + residual | norm | gate-up product with SiLU |
// down product + residual; a bar is a barrier between all threads. The residual stream is float32 whatever the weights
// are. The caller (omniflow/native/binding.py) checks every size, index and pointer; nothing is checked here.
#include <mutex>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "attention.h"
#include "barrier.h"
#include "product.h"

namespace omniflow {

struct Shape { // mirrored in binding.py
  int64_t hidden, inner, heads, kv_heads, head_dim, vocab;
  float epsilon;
  int32_t kind;
};

struct LayerSource { // float32, mirrored in binding.py; null where the architecture has none
  const float *attention_norm, *qkv, *qkv_bias, *query_norm, *key_norm, *output, *output_bias;
  const float *mlp_norm, *gate_up, *gate_up_bias, *down, *down_bias;
};

struct Span { // rows `row ..` attend to `past` cached tokens from slot `start` and causally to themselves
  int64_t row, count, past, start;
};

struct Step { // mirrored in binding.py
  int64_t rows, num_spans, num_wanted, num_taps, num_additions, arena_tokens;
  int32_t cache_is_bf16, embeds_are_bf16, threads;
  const void *embeds;
  const float *cosines, *sines;
  const int64_t *embed_rows, *rotation_rows; // which of `embeds`, and of `cosines` and `sines`, a row takes
  const Span *spans;
  const int64_t *wanted;
  float *logits, *hidden;
  int64_t *best; // of each wanted row the id of its largest logit, the first of equal ones; -1 unless all are finite
  const int64_t *tap_layers;
  float *const *taps;
  const float *const *additions;
  void *keys, *values;
};

struct Layer {
  std::vector<float> attention_norm, query_norm, key_norm, mlp_norm;
  Matrix qkv, output, gate_up, down;
};

// A piece of attention for one thread: rows of one span, kv heads `from .. to`.
struct Item {
  int64_t row, rows, from, to;
};

// The largest logits of one row that a thread has seen so far, lane by lane, and their ids. `check` is zero, or not a
// number as soon as a logit was not finite.
struct Largest {
  f32x16 value = splat(-3.4e38f), check = splat(0.0f);
  i32x16 id = {};

  void see(f32x16 logits, int64_t first, int64_t count) {
    static constexpr i32x16 lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const i32x16 ids = lanes + (i32x16)splat((uint32_t)first);
    const i32x16 exists = lanes < (i32x16)splat((uint32_t)std::min<int64_t>(count, kLanes));
    const i32x16 is_more = exists & (logits > value | (logits == value & ids < id)); // shares come in any order
    value = is_more ? logits : value;
    id = is_more ? ids : id;
    check += logits * splat(0.0f);
  }
};

enum Work { kQkv, kAttention, kOutput, kGateUp, kDown, kWorks }; // of a layer, in order

struct Workspace {
  std::vector<float> residual, qkv, mixed;
  Activations input, inner;
  std::vector<int64_t> span_of_row;
  std::vector<Item> items;
  int64_t longest = 0, scores_per_thread = 0; // longest attended length, in whole vectors
  std::vector<float> scores;
  std::vector<Largest> largest; // [thread][wanted row]
  std::vector<Deal> deals;      // [layer][work], and the head's
};

struct Model {
  Shape shape;
  Pages pages; // of all matrices
  std::vector<Layer> layers;
  std::vector<float> norm;
  Matrix head;
  Workspace space;
  std::mutex busy; // the workspace is one
};

static std::vector<float> copied(const float *from, int64_t count) {
  return from == nullptr ? std::vector<float>() : std::vector<float>(from, from + count);
}

template <class T> static void grow(std::vector<T> &v, int64_t size) {
  if ((int64_t)v.size() < size) v.resize(size);
}

class Run {
public:
  Run(Model &model, const Step &step, Barrier &everyone)
      : m(model), s(step), w(model.space), meeting(everyone), kind(activation_kind((Kind)model.shape.kind)), hidden(model.shape.hidden),
        inner(model.shape.inner), head_dim(model.shape.head_dim), kv_heads(model.shape.kv_heads),
        group(model.shape.heads / model.shape.kv_heads), width((model.shape.heads + 2 * kv_heads) * head_dim),
        qkv_stride((width + kPairRows - 1) / kPairRows * kPairRows), attended(model.shape.heads * head_dim) {}

  void prepare(int threads) {
    grow(w.residual, s.rows * hidden);
    grow(w.qkv, s.rows * qkv_stride);
    grow(w.mixed, s.rows * std::max(attended, inner));
    w.input.reserve(kind, s.rows, std::max(hidden, attended));
    w.inner.reserve(kind, s.rows, inner);
    grow(w.span_of_row, s.rows);
    w.longest = 0;
    for (int64_t i = 0; i < s.num_spans; i++) {
      w.longest = std::max(w.longest, s.spans[i].past + s.spans[i].count);
      for (int64_t j = 0; j < s.spans[i].count; j++) w.span_of_row[s.spans[i].row + j] = i;
      has_chunks |= s.spans[i].count > 1;
    }
    w.longest = (w.longest + kLanes - 1) / kLanes * kLanes;
    w.scores_per_thread = std::max(kItemRows * group, m.shape.heads) * w.longest;
    grow(w.scores, w.scores_per_thread * threads);
    w.largest.assign(threads * s.num_wanted, Largest());
    share_attention(threads);
    deal_out(threads);
  }

  template <class Cache> void on_thread(int thread, int threads) {
    me = thread, all = threads;
    for (int64_t i = me; i < s.rows; i += all) read_embedding(i);
    mine = product(0, kQkv).take(me, s.rows);
    for (int64_t l = 0; l < (int64_t)m.layers.size(); l++) run_layer<Cache>(m.layers[l], l);
    read_out();
  }

private:
  Model &m;
  const Step &s;
  Workspace &w;
  Barrier &meeting;
  const Kind kind; // of the activations
  const int64_t hidden, inner, head_dim, kv_heads, group, width, qkv_stride, attended;
  bool has_chunks = false;
  int me = 0, all = 1;
  Chunk mine; // of the product that comes next

  void barrier() { meeting.wait(all); }

  void read_embedding(int64_t row) {
    const int64_t at = s.embed_rows[row] * hidden;
    if (!s.embeds_are_bf16) {
      std::memcpy(residual(row), (const float *)s.embeds + at, hidden * 4);
      return;
    }
    for (int64_t e = 0; e < hidden; e++) residual(row)[e] = from_bf16(((const uint16_t *)s.embeds)[at + e]);
  }

  float *residual(int64_t row) { return w.residual.data() + row * hidden; }

  // A decode row takes all kv heads together, whose keys and values then stream by in order. Single kv heads for chunks,
  // which read the same ones again and again from the cache, and while there are too few rows for all threads.
  void share_attention(int threads) {
    w.items.clear();
    for (int64_t i = 0; i < s.num_spans; i++) {
      const int64_t share = s.spans[i].count > 1 || s.rows < 2 * threads ? 1 : kv_heads;
      for (int64_t row = 0; row < s.spans[i].count; row += kItemRows)
        for (int64_t kv = 0; kv < kv_heads; kv += share)
          w.items.push_back({s.spans[i].row + row, std::min(kItemRows, s.spans[i].count - row), kv, kv + share});
    }
  }

  void deal_out(int threads) {
    const size_t count = m.layers.size() * kWorks + 1;
    if (w.deals.size() != count || w.deals[0].threads() != threads) {
      w.deals.clear();
      for (size_t i = 0; i < count; i++) w.deals.emplace_back(threads);
    }
    for (Deal &deal : w.deals) deal.renew();
  }

  Deal &deal(int64_t layer, Work work) { return w.deals[layer * kWorks + work]; }

  // The one after the last layer's is the head.
  Product product(int64_t layer, Work work) {
    if (layer == (int64_t)m.layers.size()) return {&m.head, &deal(layer, kQkv)};
    const Layer &l = m.layers[layer];
    const Matrix &weights = work == kQkv ? l.qkv : work == kOutput ? l.output : work == kGateUp ? l.gate_up : l.down;
    return {&weights, &deal(layer, work)};
  }

  // Multiplies all rows, and takes of the `next` product what this thread begins with.
  template <class Out> void multiply_rows(const Product &product, const Product &next, const Activations &x, Out out) {
    const bool is_last = next.weights == &m.head;
    mine = multiply(product, next, x, s.rows, is_last ? s.num_wanted : s.rows, me, mine, out);
  }

  template <class Cache> void run_layer(const Layer &layer, int64_t index) {
    // Each thread owns rows me, me + all, ...: what it read or added here it normalises itself, with no barrier between.
    for (int64_t t = 0; t < s.num_taps; t++)
      for (int64_t i = me; s.tap_layers[t] == index && i < s.rows; i += all)
        std::memcpy(s.taps[t] + i * hidden, residual(i), hidden * 4);
    norm_rows(layer.attention_norm, w.input);
    barrier();
    const Product qkv = product(index, kQkv), output = product(index, kOutput);
    const Product gate_up = product(index, kGateUp), down = product(index, kDown);
    multiply_rows(qkv, output, w.input, [&](auto pair, auto row, auto first, auto second) {
      float *to = w.qkv.data() + row * qkv_stride + pair * kPairRows;
      store(to, first);
      store(to + kLanes, second);
    });
    barrier();
    attention<Cache>(layer, index);
    barrier();
    if (kind == kInt8) {
      for (int64_t i = me; i < s.rows; i += all) write_row(w.input, i, w.mixed.data() + i * attended, attended);
      barrier();
    }
    add_product(output, gate_up, w.input);
    barrier();
    norm_rows(layer.mlp_norm, w.input);
    barrier();
    gated_product(gate_up, down);
    barrier();
    if (kind == kInt8) {
      for (int64_t i = me; i < s.rows; i += all) write_row(w.inner, i, w.mixed.data() + i * inner, inner);
      barrier();
    }
    add_product(down, product(index + 1, kQkv), w.inner);
    barrier();
    for (int64_t i = me; index < s.num_additions && i < s.rows; i += all)
      for (int64_t e = 0; e < hidden; e++) residual(i)[e] += s.additions[index][i * hidden + e];
  }

  void norm_rows(const std::vector<float> &weight, Activations &to) {
    for (int64_t i = me; i < s.rows; i += all) norm_row(weight, residual(i), to, i);
  }

  void norm_row(const std::vector<float> &weight, const float *from, Activations &to, int64_t row) {
    float out[kMaxRow];
    normalise(from, weight.data(), m.shape.epsilon, hidden, out);
    write_row(to, row, out, hidden);
  }

  void add_product(const Product &product, const Product &next, const Activations &x) {
    multiply_rows(product, next, x, [&](auto pair, auto row, auto first, auto second) {
      const int64_t column = pair * kPairRows;
      float *to = residual(row) + column;
      if (column + kPairRows <= hidden) {
        store(to, load<f32x16>(to) + first);
        store(to + kLanes, load<f32x16>(to + kLanes) + second);
        return;
      }
      float y[kPairRows];
      store(y, first), store(y + kLanes, second);
      for (int64_t i = 0; column + i < hidden; i++) to[i] += y[i];
    });
  }

  void gated_product(const Product &gate_up, const Product &next) {
    multiply_rows(gate_up, next, w.input, [&](auto pair, auto row, auto gate, auto up) {
      float y[kLanes];
      store(y, silu(gate) * up);
      const int64_t column = pair * kLanes, count = std::min(kLanes, inner - column);
      if (kind == kInt8) std::memcpy(w.mixed.data() + row * inner + column, y, count * 4);
      else write_columns(w.inner, row, column, y, count);
    });
  }

  template <class Cache> void attention(const Layer &layer, int64_t index) {
    typedef typename Cache::Element Element;
    const int64_t plane = s.arena_tokens * kv_heads * head_dim;
    Element *keys = (Element *)s.keys + index * plane, *values = (Element *)s.values + index * plane;
    const int64_t count = w.items.size();
    for (int64_t i = me; has_chunks && i < count; i += all) place_item<Cache>(layer, w.items[i], keys, values);
    if (has_chunks) barrier(); // a chunk's rows attend to keys that other threads place
    for (Chunk items; (items = deal(index, kAttention).take(me, count, 1)).exists();)
      for (int64_t i = items.from; i < items.to; i++) {
        if (!has_chunks) place_item<Cache>(layer, w.items[i], keys, values);
        attend<Cache>(w.items[i], keys, values);
      }
  }

  template <class Cache, class Element>
  void place_item(const Layer &layer, const Item &item, Element *keys, Element *values) {
    for (int64_t row = item.row; row < item.row + item.rows; row++)
      for (int64_t kv = item.from; kv < item.to; kv++) place<Cache>(layer, row, kv, keys, values);
  }

  // Norms and rotates one kv head and its query heads of one row; writes key and value to the row's slot.
  template <class Cache>
  void place(const Layer &layer, int64_t row, int64_t kv, typename Cache::Element *keys, typename Cache::Element *values) {
    float *heads = w.qkv.data() + row * qkv_stride;
    float *key = heads + (m.shape.heads + kv) * head_dim, *value = key + kv_heads * head_dim;
    const int64_t rotation = s.rotation_rows[row] * (head_dim / 2);
    const float *cosines = s.cosines + rotation, *sines = s.sines + rotation;
    for (int64_t h = 0; h < group; h++) {
      float *query = heads + (kv * group + h) * head_dim;
      if (!layer.query_norm.empty())
        normalise(query, layer.query_norm.data(), m.shape.epsilon, head_dim, query);
      rotate(query, cosines, sines, head_dim / 2);
    }
    if (!layer.key_norm.empty()) normalise(key, layer.key_norm.data(), m.shape.epsilon, head_dim, key);
    rotate(key, cosines, sines, head_dim / 2);
    const Span &span = s.spans[w.span_of_row[row]];
    const int64_t at = ((span.start + span.past + row - span.row) * kv_heads + kv) * head_dim;
    write_cache<Cache>(key, keys + at, head_dim);
    write_cache<Cache>(value, values + at, head_dim);
  }

  template <class Cache>
  void attend(const Item &item, const typename Cache::Element *keys, const typename Cache::Element *values) {
    const Span &span = s.spans[w.span_of_row[item.row]];
    const int64_t at = span.start * kv_heads * head_dim, column = item.from * group * head_dim;
    AttentionTask<Cache> task;
    task.keys = keys + at, task.values = values + at;
    task.rows = item.rows, task.count = span.past + item.row - span.row + 1;
    task.kv_heads = kv_heads, task.group = group, task.head_dim = head_dim, task.from = item.from, task.to = item.to;
    task.queries = w.qkv.data() + item.row * qkv_stride + column, task.query_stride = qkv_stride;
    task.out = w.mixed.data() + item.row * attended + column, task.out_stride = attended;
    task.scores = w.scores.data() + me * w.scores_per_thread, task.room = w.longest;
    Attention<Cache>(task).run();
    for (int64_t row = item.row; kind != kInt8 && row < item.row + item.rows; row++)
      write_columns(w.input, row, column, w.mixed.data() + row * attended + column,
                    (item.to - item.from) * group * head_dim);
  }

  void read_out() {
    barrier();
    for (int64_t i = me; s.hidden != nullptr && i < s.rows; i += all)
      normalise(residual(i), m.norm.data(), m.shape.epsilon, hidden, s.hidden + i * hidden);
    if (s.num_wanted == 0) return;
    for (int64_t i = me; i < s.num_wanted; i += all) norm_row(m.norm, residual(s.wanted[i]), w.input, i);
    barrier();
    Largest *largest = w.largest.data() + me * s.num_wanted;
    const Product head = product(m.layers.size(), kQkv);
    const int64_t rows = s.num_wanted;
    multiply(head, head, w.input, rows, rows, me, mine, [&](auto pair, auto row, auto first, auto second) { // the last
      const int64_t column = pair * kPairRows;
      largest[row].see(first, column, m.shape.vocab - column);
      largest[row].see(second, column + kLanes, m.shape.vocab - column - kLanes);
      float *to = s.logits + row * m.shape.vocab + column;
      if (column + kPairRows <= m.shape.vocab) {
        store(to, first), store(to + kLanes, second);
        return;
      }
      float y[kPairRows];
      store(y, first), store(y + kLanes, second);
      std::memcpy(to, y, (m.shape.vocab - column) * 4);
    });
    barrier();
    for (int64_t i = me; i < s.num_wanted; i += all) s.best[i] = best_of(i);
  }

  int64_t best_of(int64_t row) const {
    float most = 0;
    int64_t best = -1;
    for (int t = 0; t < all; t++) {
      const Largest &seen = w.largest[t * s.num_wanted + row];
      for (int i = 0; i < kLanes; i++) {
        if (seen.check[i] != 0) return -1;
        const bool is_first_of_equals = seen.value[i] == most && seen.id[i] < best;
        if (best < 0 || seen.value[i] > most || is_first_of_equals) most = seen.value[i], best = seen.id[i];
      }
    }
    return best;
  }

  static constexpr int64_t kItemRows = 8;

public:
  static constexpr int64_t kMaxRow = 32768; // mirrored in binding.py
};

} // namespace omniflow

using namespace omniflow;

extern "C" {

Model *omniflow_new(const Shape *shape) {
  Model *m = new Model;
  m->shape = *shape;
  return m;
}

void omniflow_free(Model *m) { delete m; }

void omniflow_add_layer(Model *m, const LayerSource *from) {
  const Shape &s = m->shape;
  const Kind kind = (Kind)s.kind;
  const int64_t query = s.heads * s.head_dim, key = s.kv_heads * s.head_dim;
  Layer layer;
  layer.attention_norm = copied(from->attention_norm, s.hidden);
  layer.query_norm = copied(from->query_norm, s.head_dim);
  layer.key_norm = copied(from->key_norm, s.head_dim);
  layer.mlp_norm = copied(from->mlp_norm, s.hidden);
  layer.qkv = pack(m->pages, kind, from->qkv, from->qkv_bias, query + 2 * key, s.hidden, false);
  layer.output = pack(m->pages, kind, from->output, from->output_bias, s.hidden, query, false);
  layer.gate_up = pack(m->pages, kind, from->gate_up, from->gate_up_bias, 2 * s.inner, s.hidden, true);
  layer.down = pack(m->pages, kind, from->down, from->down_bias, s.hidden, s.inner, false);
  m->layers.push_back(std::move(layer));
}

void omniflow_finish(Model *m, const float *norm, const float *head) {
  // The head is read once per token but decides it: at int4 it keeps eight bits.
  const Kind kind = activation_kind((Kind)m->shape.kind);
  m->norm = copied(norm, m->shape.hidden);
  if (head != nullptr) m->head = pack(m->pages, kind, head, nullptr, m->shape.vocab, m->shape.hidden, false);
}

void omniflow_step(Model *m, const Step *step) {
  std::lock_guard<std::mutex> guard(m->busy);
  Barrier meeting;
  Run run(*m, *step, meeting);
#if defined(_OPENMP)
  const int threads = std::max(1, step->threads);
#else
  const int threads = 1;
#endif
  run.prepare(threads);
#pragma omp parallel num_threads(threads) firstprivate(run)
  {
#if defined(_OPENMP)
    const int me = omp_get_thread_num(), all = omp_get_num_threads();
#else
    const int me = 0, all = 1;
#endif
    if (step->cache_is_bf16) run.on_thread<BFloat16>(me, all);
    else run.on_thread<Float32>(me, all);
  }
}
}
