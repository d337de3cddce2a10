#include "events.h"

#include <algorithm>
#include <thread>

namespace neuron {

std::atomic<int> g_sessions{0};

namespace {

std::vector<std::shared_ptr<Session>> g_open; // GIL held

template <class Event>
void append(Session& session, std::deque<Event>& ring, const Event& event) {
  if (ring.size() == session.capacity) {
    ring.pop_front();
    session.dropped++;
  }
  ring.push_back(event);
}

} // namespace

std::shared_ptr<Session> open_session(size_t capacity) {
  auto session = std::make_shared<Session>();
  session->capacity = capacity;
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

void push_into(Session& session, const OpEvent& event) {
  append(session, session.ops, event);
  OpTotal& total = session.op_totals[{event.op, event.kind, event.plan, event.core}];
  total.calls++;
  total.cold += event.cold;
  total.total_ns += event.end_ns - event.start_ns;
  total.device_ns += event.device_ns;
  total.bytes += event.bytes;
}

void push(const OpEvent& event) {
  for (auto& session : g_open)
    push_into(*session, event);
}

void push(const CopyEvent& event) {
  PyGILState_STATE gil = PyGILState_Ensure();
  for (auto& session : g_open) {
    append(*session, session->copies, event);
    CopyTotal& total = session->copy_totals[int(event.direction)];
    total.calls++;
    total.total_ns += event.end_ns - event.start_ns;
    total.bytes += event.bytes;
  }
  PyGILState_Release(gil);
}

void count_sync() {
  if (!recording())
    return;
  PyGILState_STATE gil = PyGILState_Ensure();
  for (auto& session : g_open)
    session->syncs++;
  PyGILState_Release(gil);
}

} // namespace neuron
