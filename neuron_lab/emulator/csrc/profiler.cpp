// torch.profiler's device rows: what ran on the cores while a profiler was open, as a Kineto plugin.
#define USE_KINETO
#define FMT_HEADER_ONLY // Kineto's activities format their metadata with it, and libtorch exports none
#include "dispatch.h"

#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <mutex>

namespace neuron {
namespace {

using libkineto::ActivityType;

struct Ran {
  std::string name, neff;
  ActivityType type;
  int8_t core;
  uint64_t thread, correlation;
  int64_t start_ns, end_ns, bytes;
};

constexpr size_t kCapacity = 1 << 20; // about 200 MB

struct Sink {
  std::mutex mutex;
  std::deque<Ran> ran;
  size_t dropped = 0;
};

std::mutex g_mutex;
std::shared_ptr<Sink> g_sink; // guarded by g_mutex; one profiler is open at a time
std::atomic<bool> g_profiling{false};

// The ops that are running in this thread, as Kineto numbers them.
thread_local std::vector<uint64_t> t_running;

void add(Ran ran) {
  std::shared_ptr<Sink> sink;
  {
    std::lock_guard<std::mutex> guard(g_mutex);
    sink = g_sink;
  }
  if (!sink)
    return;
  ran.correlation = t_running.empty() ? 0 : t_running.back();
  std::lock_guard<std::mutex> guard(sink->mutex);
  if (sink->ran.size() >= kCapacity) {
    sink->ran.pop_front();
    sink->dropped++;
  }
  sink->ran.push_back(std::move(ran));
}

// Nanoseconds from this process's monotonic clock to Kineto's, which counts from 1970.
int64_t to_unix_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count() - now_ns();
}

struct TraceSession final : libkineto::IActivityProfilerSession {
  void start() override {
    std::lock_guard<std::mutex> guard(g_mutex);
    sink_ = std::make_shared<Sink>();
    g_sink = sink_;
    g_profiling = true;
    g_sessions++;
    status_ = libkineto::TraceStatus::RECORDING;
  }
  void stop() override {
    std::lock_guard<std::mutex> guard(g_mutex);
    if (!sink_ || g_sink != sink_)
      return;
    g_sink.reset();
    g_profiling = false;
    g_sessions--;
    status_ = libkineto::TraceStatus::PROCESSING;
  }
  ~TraceSession() override {
    stop();
  }
  std::vector<std::string> errors() override {
    if (!sink_ || !sink_->dropped)
      return {};
    return {"the oldest " + std::to_string(sink_->dropped) + " device events were dropped"};
  }
  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, 0, std::numeric_limits<int64_t>::max());
  }
  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t from, int64_t to) override {
    if (!sink_)
      return;
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(from, to, "neuron");
    const int64_t shift = to_unix_ns();
    std::lock_guard<std::mutex> guard(sink_->mutex);
    for (const Ran& ran : sink_->ran) {
      const int64_t start = ran.start_ns + shift, end = ran.end_ns + shift;
      if (start < from || end > to)
        continue;
      cores_.insert(ran.core);
      buffer_->emplace_activity(buffer_->span, ran.type, ran.name);
      libkineto::GenericTraceActivity& activity = *buffer_->activities.back();
      activity.startTime = start;
      activity.endTime = end;
      activity.device = ran.core;
      activity.threadId = int32_t(ran.thread);
      activity.id = int32_t(ran.correlation);
      activity.flow.id = uint32_t(ran.correlation);
      activity.flow.type = libkineto::kLinkAsyncCpuGpu;
      activity.flow.start = false;
      if (ran.correlation)
        activity.linked = linked(int32_t(ran.correlation));
      activity.addMetadata("device", int(ran.core));
      activity.addMetadata("bytes", ran.bytes);
      activity.addMetadata("emulated", "true");
      if (!ran.neff.empty())
        activity.addMetadataQuoted("neff", ran.neff);
      activity.log(logger);
    }
    buffer_->gpuOpCount = int(buffer_->activities.size());
    for (int core : cores_) {
      const std::string name = "neuron:" + std::to_string(core);
      logger.handleDeviceInfo({core, libkineto::kExceedMaxPid + core, name, "emulated " + name}, from);
      logger.handleResourceInfo({0, 0, core, "default stream"}, from);
    }
  }
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return nullptr; // one for each core, above
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    return {};
  }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override {
    return std::move(buffer_);
  }
  void pushCorrelationId(uint64_t id) override {
    t_running.push_back(id);
  }
  void popCorrelationId() override {
    if (!t_running.empty())
      t_running.pop_back();
  }

 private:
  std::shared_ptr<Sink> sink_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
  std::set<int> cores_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    return name_;
  }
  const std::set<ActivityType>& availableActivities() const override {
    return types_;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& wanted, const libkineto::Config&) override {
    for (ActivityType type : types_)
      if (wanted.count(type))
        return std::make_unique<TraceSession>();
    return nullptr;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t, int64_t, const std::set<ActivityType>& wanted, const libkineto::Config& config) override {
    return configure(wanted, config);
  }

 private:
  std::string name_{"neuron"};
  std::set<ActivityType> types_{ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY};
};

// What torch.autograd.profiler.profile(use_device="neuron") measures with: execution is synchronous, so host time is device time.
struct Stubs final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* core, torch::profiler::impl::ProfilerVoidEventStub* event, int64_t* host_ns) const override {
    const int64_t at = now_ns();
    if (core)
      *core = current_core();
    *event = std::make_shared<int64_t>(at);
    if (host_ns)
      *host_ns = at;
  }
  float elapsed(const torch::profiler::impl::ProfilerVoidEventStub* from, const torch::profiler::impl::ProfilerVoidEventStub* to) const override {
    return float(*static_cast<int64_t*>(to->get()) - *static_cast<int64_t*>(from->get())) / 1e3f; // microseconds
  }
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
  bool enabled() const override {
    return true;
  }
  void onEachDevice(std::function<void(int)> visit) const override {
    for (int core = 0; core < core_count(); ++core)
      visit(core);
  }
  void synchronize() const override {}
};

} // namespace

void profile(const OpEvent& event) {
  if (!g_profiling.load(std::memory_order_relaxed) || (event.kind != Kind::compiled && event.kind != Kind::host))
    return;
  const std::string neff = event.plan && event.kind == Kind::compiled ? event.plan->neff : "";
  add({event.op->name, neff, ActivityType::CONCURRENT_KERNEL, event.core, event.thread, 0, event.end_ns - event.device_ns, event.end_ns, event.bytes});
}

void profile(const CopyEvent& event) {
  if (!g_profiling.load(std::memory_order_relaxed))
    return;
  constexpr const char* names[] = {"Memcpy HtoD", "Memcpy DtoH", "Memcpy DtoD"};
  add({names[int(event.direction)], "", ActivityType::GPU_MEMCPY, event.core, 0, 0, event.start_ns, event.end_ns, event.bytes});
}

void register_profiler() {
  static Stubs stubs;
  torch::profiler::impl::registerPrivateUse1Methods(&stubs);
  torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().registerFactory([] { return std::make_unique<Profiler>(); });
}

} // namespace neuron
