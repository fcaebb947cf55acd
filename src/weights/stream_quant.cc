#include "weights/stream_quant.h"

#include <pthread.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

namespace isotope::weights {

StreamQuant::StreamQuant(const OnlineCheckpoint& c, bool staging, int workers) : c_(c), staging_(staging) {
  try {
    for (int i = 0; i < workers; ++i)
      threads_.emplace_back([this] {
        ::pthread_setname_np(::pthread_self(), "stream-quant");
        work();
      });
  } catch (const std::system_error&) {
    // No more threads to be had: those that run do the work, or take() if there are none.
  }
  limit_ = 2 * int(threads_.size());
}

StreamQuant::~StreamQuant() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
    queue_.clear();
  }
  changed_.notify_all();
}

Result<void> StreamQuant::take(const LoadJob& j) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return error_ || threads_.empty() || in_flight_ < limit_; });
    if (error_) return tl::unexpected(*error_);
    ++in_flight_;
    most_ = std::max(most_.load(), in_flight_);
  }
  Item item{&j, {}};
  if (staging_)
    for (const TensorEntry* t : j.tensors) {
      auto d = c_.stage(*t);
      if (!d) {
        const std::lock_guard lock(mutex_);
        --in_flight_;
        changed_.notify_all();
        return tl::unexpected(std::move(d).error());
      }
      item.staged.push_back(*std::move(d));
    }
  if (threads_.empty()) {
    auto r = finish(item);
    const std::lock_guard lock(mutex_);
    --in_flight_, ++done_;
    changed_.notify_all();
    return r;
  }
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(item));
  changed_.notify_all();
  return {};
}

Result<void> StreamQuant::finish(Item& item) const {
  try {
    if (!staging_) return load_one(c_, *item.job);
    std::vector<Checkpoint::Data> data;
    for (size_t i = 0; i < item.staged.size(); ++i) {
      if (!c_.converts(*item.job->tensors[i])) {
        data.push_back(std::move(item.staged[i]));
        continue;
      }
      ISO_TRY(Checkpoint::Data d, c_.convert(*item.job->tensors[i], item.staged[i].view));
      item.staged[i] = {};  // the source is not needed any more
      data.push_back(std::move(d));
    }
    return item.job->consume(data);
  } catch (const std::bad_alloc&) {
    return fail(Code::resource_exhausted, "no memory left while quantizing", "tensor " + item.job->tensors[0]->name,
                "free memory, or lower ATOM_ONLINE_QUANT_STREAMING_THREADS");
  }
}

void StreamQuant::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return end_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    const bool failed = error_.has_value();
    lock.unlock();
    auto r = failed ? Result<void>() : finish(item);
    item = {};
    lock.lock();
    if (!r && !error_) error_ = std::move(r).error();
    --in_flight_, ++done_;
    changed_.notify_all();
  }
}

Result<void> StreamQuant::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return in_flight_ == 0; });
  if (error_) return tl::unexpected(*error_);
  return {};
}

}  // namespace isotope::weights
