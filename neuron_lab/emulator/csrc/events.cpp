#include "events.h"

#include <algorithm>
#include <thread>

namespace neuron {

std::atomic<int> g_sessions{0};

namespace {

// Never destructed: a session that is open at exit holds Python objects, and static objects outlive the interpreter. GIL held.
auto& g_open = *new std::vector<std::shared_ptr<Session>>;

} // namespace

void each_session(const std::function<void(Session&)>& visit) {
  for (size_t i = 0; i < g_open.size(); ++i) {
    const auto session = g_open[i]; // a visit may run Python, and another thread then open or close one
    visit(*session);
  }
}

Session::~Session() {
  for (PyCodeObject* code : codes)
    Py_DECREF(code);
  for (auto& entry : modules)
    Py_DECREF(entry.second.reference);
}

std::shared_ptr<Session> open_session(size_t capacity) {
  auto session = std::make_shared<Session>();
  session->capacity = capacity;
  session->owner = PyThreadState_Get();
  g_open.push_back(session);
  g_sessions++;
  return session;
}

void close_session(const std::shared_ptr<Session>& session) {
  auto found = std::find(g_open.begin(), g_open.end(), session);
  if (found == g_open.end())
    return;
  g_open.erase(found);
  g_sessions--;
}

void push_into(Session& session, OpEvent event) {
  event.frame = user_frame(session, Look::all);
  append(session, session.ops, event, session.dropped);
  const Frame& from = event.frame;
  OpTotal& total = session.op_totals[{event.op, event.kind, event.plan, event.reason, event.core, from.code, from.line, from.module, from.phase}];
  total.calls++;
  total.cold += event.cold;
  total.total_ns += event.end_ns - event.start_ns;
  total.device_ns += event.device_ns;
  total.bytes += event.bytes;
  total.beyond_32_bits += event.beyond_32_bits;
  session.check_ns += event.check_ns;
}

void push(const OpEvent& event) {
  profile(event);
  each_session([&](Session& session) { push_into(session, event); });
}

void push(const CopyEvent& event) {
  profile(event);
  PyGILState_STATE gil = PyGILState_Ensure();
  each_session([&](Session& session) {
    CopyEvent mine = event;
    mine.frame = user_frame(session, Look::all);
    append(session, session.copies, mine, session.dropped);
    CopyTotal& total = session.copy_totals[{mine.direction, mine.frame.code, mine.frame.line, mine.frame.module, mine.frame.phase}];
    total.calls++;
    total.total_ns += event.end_ns - event.start_ns;
    total.bytes += event.bytes;
  });
  PyGILState_Release(gil);
}

void count_sync() {
  if (!recording())
    return;
  PyGILState_STATE gil = PyGILState_Ensure();
  each_session([](Session& session) { session.syncs++; });
  PyGILState_Release(gil);
}

} // namespace neuron
