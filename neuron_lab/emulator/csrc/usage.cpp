// HBM over the time of a session: what was taken and given back, by which line, and what the highest use was made of.
#include "events.h"

namespace neuron {
namespace {

struct Gil {
  PyGILState_STATE state = PyGILState_Ensure();
  ~Gil() {
    PyGILState_Release(state);
  }
};

CoreUse& use_of(Session& session, c10::DeviceIndex core, int64_t used_before) {
  auto [entry, added] = session.cores.try_emplace(core);
  if (added)
    entry->second.peak = used_before;
  return entry->second;
}

void log(Session& session, MemoryEvent event) {
  append(session, session.memory, event, session.dropped_changes);
}

void take(Session& session, const Block& block, int64_t used, int64_t at) {
  CoreUse& use = use_of(session, block.core, used - int64_t(block.nbytes));
  const Frame frame = user_frame(session, Look::line);
  const Line line{frame.code, frame.line};
  session.blocks[&block] = line;
  Held& held = use.live[line];
  held.bytes += int64_t(block.nbytes);
  held.blocks++;
  int64_t& highest = session.line_peaks[{block.core, line}];
  highest = std::max(highest, used);
  if (used > use.peak) {
    use.peak = used;
    use.peak_ns = at;
    use.at_peak.reset(); // what lives now
  }
  log(session, {block.core, at, int64_t(block.nbytes), used, frame});
}

void give_back(Session& session, const Block& block, int64_t used, int64_t at) {
  CoreUse& use = use_of(session, block.core, used + int64_t(block.nbytes));
  if (!use.at_peak)
    use.at_peak = use.live; // the first to go after the peak
  Frame taker;
  auto found = session.blocks.find(&block);
  if (found != session.blocks.end()) {
    std::tie(taker.code, taker.line) = found->second;
    auto held = use.live.find(found->second);
    held->second.bytes -= int64_t(block.nbytes);
    if (--held->second.blocks == 0)
      use.live.erase(held);
    session.blocks.erase(found);
  }
  log(session, {block.core, at, -int64_t(block.nbytes), used, taker});
}

} // namespace

void record_taken(const Block& block) {
  if (!recording() || !Py_IsInitialized())
    return;
  Gil gil;
  const int64_t used = core_stats(block.core).current, at = now_ns();
  each_session([&](Session& session) { take(session, block, used, at); });
}

void record_given_back(const Block& block) {
  if (!recording() || !Py_IsInitialized())
    return;
  Gil gil;
  const int64_t used = core_stats(block.core).current, at = now_ns();
  each_session([&](Session& session) { give_back(session, block, used, at); });
}

void record_oom(c10::DeviceIndex core, int64_t asked) {
  constexpr size_t kKept = 16;
  if (!recording() || !Py_IsInitialized())
    return;
  Gil gil;
  const int64_t used = core_stats(core).current, at = now_ns();
  each_session([&](Session& session) {
    if (session.ooms.size() == kKept)
      return;
    const Frame frame = user_frame(session, Look::line);
    session.ooms.push_back({core, at, asked, used, hbm_limit(), frame, use_of(session, core, used).live});
  });
}

} // namespace neuron
