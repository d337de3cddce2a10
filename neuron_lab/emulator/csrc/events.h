// What the device did, for the recorders: op calls and copies, kept per session as a ring of raw events plus exact totals.
#pragma once

#include "device.h"

#include <deque>
#include <set>
#include <unordered_map>
#include <map>
#include <memory>
#include <tuple>

namespace neuron {

struct OpInfo;
struct Plan;

// compiled: an executable ran. fallback: the CPU kernel ran. host: a native op whose host part is known (its result's size
// depends on the data). empty: no elements, nothing to compile. decomposed: PyTorch's composite kernel ran, its parts are ops.
enum class Kind : int8_t { compiled, fallback, host, empty, decomposed };

struct Frame {
  PyCodeObject* code = nullptr; // a new reference when it comes from user_frame; borrowed inside events
  int line = 0;
};
extern PyObject* g_is_user_file;
Frame user_frame(PyThreadState* owner);

struct OpEvent {
  const OpInfo* op;
  const Plan* plan; // nullptr when nothing was compiled
  Kind kind;
  int8_t core;
  bool cold;
  uint64_t thread;
  int64_t start_ns, end_ns, device_ns, bytes;
  Frame frame = {};
};

struct CopyEvent {
  Direction direction;
  int8_t core;
  int64_t start_ns, end_ns, bytes;
  Frame frame = {};
};

struct OpTotal {
  int64_t calls = 0, cold = 0, total_ns = 0, device_ns = 0, bytes = 0;
};

struct CopyTotal {
  int64_t calls = 0, total_ns = 0, bytes = 0;
};

struct Session {
  ~Session(); // GIL held
  size_t capacity;
  std::deque<OpEvent> ops;
  std::deque<CopyEvent> copies;
  std::map<std::tuple<const OpInfo*, Kind, const Plan*, int8_t, PyCodeObject*, int>, OpTotal> op_totals;
  std::map<std::tuple<Direction, PyCodeObject*, int>, CopyTotal> copy_totals;
  std::set<PyCodeObject*> codes; // strong references to every code object named above
  PyThreadState* owner = nullptr; // of the thread that opened the session
  int64_t syncs = 0, dropped = 0;
};

// Off the hot path when no session runs: one relaxed load. Sessions are added and removed, and events pushed, with the
// GIL held, which every op takes anyway; copies take it only while a session runs.
extern std::atomic<int> g_sessions;
inline bool recording() {
  return g_sessions.load(std::memory_order_relaxed) > 0;
}
std::shared_ptr<Session> open_session(size_t capacity);
void close_session(const std::shared_ptr<Session>& session);
void push(const OpEvent& event);
void push_into(Session& session, OpEvent event);
void push(const CopyEvent& event);
// For torch.profiler: returns at once while none is open. Called with what is pushed, in the thread that did it.
void profile(const OpEvent& event);
void profile(const CopyEvent& event);
void count_sync(); // a device -> host read that the program waited for; always counted

} // namespace neuron
