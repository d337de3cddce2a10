// Cores, streams, events, generators and the hooks PyTorch asks a device for.
#include "device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstring>
#include <mutex>
#include <set>

namespace neuron {
namespace {

c10::DeviceIndex g_count = 4;
thread_local c10::DeviceIndex t_core = 0;
constexpr int kStreamsPerCore = 8; // facts: 3-bit pool index
thread_local c10::StreamId t_stream[kMaxCores] = {};
std::atomic<uint32_t> g_next_stream{0};

void check_core(c10::DeviceIndex core) {
  TORCH_CHECK(
      core >= 0 && core < g_count, "Device index ", int(core), " is out of range. Valid range is 0 to ", int(g_count) - 1, " for this process");
}

struct RecordedEvent {
  int64_t at_ns;
};

// Execution is synchronous, so a stream is always idle and an event is complete once recorded.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override {
    return kDevice;
  }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device previous = getDevice();
    setDevice(device);
    return previous;
  }
  c10::Device getDevice() const override {
    return c10::Device(kDevice, t_core);
  }
  void setDevice(c10::Device device) const override {
    if (device.has_index())
      set_current_core(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index())
      t_core = device.index();
  }
  c10::Stream getStream(c10::Device device) const override {
    const c10::DeviceIndex core = device.has_index() ? device.index() : t_core;
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDevice, core), t_stream[core]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, c10::Device(kDevice, device.has_index() ? device.index() : t_core));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device, 0);
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    const c10::DeviceIndex core = device.has_index() ? device.index() : t_core;
    const c10::StreamId id = 1 + g_next_stream++ % kStreamsPerCore;
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDevice, core), id);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream previous = getStream(stream.device());
    t_stream[stream.device_index()] = stream.id();
    return previous;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return reinterpret_cast<void*>(stream.id());
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<RecordedEvent*>(event);
  }
  void record(void** event, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (!*event)
      *event = new RecordedEvent;
    static_cast<RecordedEvent*>(*event)->at_ns = now_ns();
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override {
    return true;
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return g_count;
  }
  bool queryStream(const c10::Stream&) const override {
    return true;
  }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start && end, "Event has not been recorded");
    return double(static_cast<RecordedEvent*>(end)->at_ns - static_cast<RecordedEvent*>(start)->at_ns) / 1e6;
  }
};

// Random numbers are drawn on the host. A device generator is a face of a CPU generator: the default one of the CPU's
// default (torch.manual_seed then gives the CPU's numbers, whatever order host and device draw in), a new one of its own.
struct NeuronGenerator final : c10::GeneratorImpl {
  NeuronGenerator(c10::DeviceIndex core, at::Generator host)
      : GeneratorImpl(c10::Device(kDevice, core), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)), host_(std::move(host)) {}
  void set_current_seed(uint64_t seed) override {
    host_.set_current_seed(seed);
  }
  void set_offset(uint64_t offset) override {
    host_.set_offset(offset);
  }
  uint64_t get_offset() const override {
    return host_.get_offset();
  }
  uint64_t current_seed() const override {
    return host_.current_seed();
  }
  uint64_t seed() override {
    return host_.seed();
  }
  void set_state(const c10::TensorImpl& state) override {
    host_.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return host_.unsafeGetGeneratorImpl()->get_state();
  }
  NeuronGenerator* clone_impl() const override {
    return new NeuronGenerator(device_.index(), host_.clone());
  }
  at::Generator host_;
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override {
    return g_count > 0;
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override {
    return true;
  }
  c10::DeviceIndex deviceCount() const override {
    return g_count;
  }
  void setCurrentDevice(c10::DeviceIndex core) const override {
    set_current_core(core);
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return t_core;
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex core) const override {
    const c10::DeviceIndex previous = t_core;
    set_current_core(core);
    return previous;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex core) const override {
    return core < 0 ? t_core : exchangeDevice(core);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex core) const override {
    if (core < 0)
      core = t_core;
    check_core(core);
    static std::vector<at::Generator> defaults = [] {
      std::vector<at::Generator> made;
      for (c10::DeviceIndex i = 0; i < kMaxCores - 1; ++i)
        made.push_back(at::make_generator<NeuronGenerator>(i, at::detail::getDefaultCPUGenerator()));
      return made;
    }();
    return defaults[core];
  }
  at::Generator getNewGenerator(c10::DeviceIndex core) const override {
    if (core < 0)
      core = t_core;
    check_core(core);
    return at::make_generator<NeuronGenerator>(core, at::detail::createCPUGenerator());
  }
  // Device memory is host memory here, so a pointer tells its core only through the tensor that holds it.
  c10::Device getDeviceFromPtr(void*) const override {
    return c10::Device(kDevice, t_core);
  }
  bool isPinnedPtr(const void* data) const override;
  c10::Allocator* getPinnedMemoryAllocator() const override;
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t nbytes) const override {
    const c10::Device device = storage.device();
    Guard guard;
    const c10::Device previous = guard.exchangeDevice(device);
    at::DataPtr fresh = allocator()->allocate(nbytes);
    guard.uncheckedSetDevice(previous);
    if (const size_t kept = std::min(nbytes, storage.nbytes()))
      std::memcpy(fresh.get(), storage.data(), kept);
    storage.set_data_ptr_noswap(std::move(fresh));
    storage.set_nbytes(nbytes);
  }
};

// Pinned memory is ordinary host memory that remembers it was asked for as pinned. Nothing is kept of what was freed.
struct PinnedAllocator final : at::HostAllocator {
  static std::set<const void*>& live() {
    static auto* pointers = new std::set<const void*>; // outlives every tensor
    return *pointers;
  }
  static std::mutex& lock() {
    static auto* mutex = new std::mutex;
    return *mutex;
  }
  static void free_pinned(void* data) {
    std::lock_guard<std::mutex> guard(lock());
    live().erase(data);
    std::free(data);
  }
  at::DataPtr allocate(size_t nbytes) override {
    void* data = std::aligned_alloc(kAlignment, (std::max<size_t>(nbytes, 1) + kAlignment - 1) / kAlignment * kAlignment);
    TORCH_CHECK(data, "the host has no memory left for ", nbytes, " pinned bytes");
    std::lock_guard<std::mutex> guard(lock());
    live().insert(data);
    return {data, data, &free_pinned, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &free_pinned;
  }
  void copy_data(void* dest, const void* src, std::size_t count) const override {
    default_copy_data(dest, src, count);
  }
  bool record_event(void*, void*, c10::Stream) override {
    return true; // no copy is under way when a call has returned
  }
  void empty_cache() override {}
  at::HostStats get_stats() override {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "the emulator keeps no statistics of pinned memory");
  }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

PinnedAllocator g_pinned;

bool Hooks::isPinnedPtr(const void* data) const {
  std::lock_guard<std::mutex> guard(PinnedAllocator::lock());
  return PinnedAllocator::live().count(data) > 0;
}

c10::Allocator* Hooks::getPinnedMemoryAllocator() const {
  return &g_pinned;
}

} // namespace

c10::DeviceIndex core_count() {
  return g_count;
}

void set_core_count(c10::DeviceIndex count) {
  TORCH_CHECK(count > 0 && count < kMaxCores, "the core count must be 1 to ", kMaxCores - 1, ", got ", int(count));
  g_count = count;
}

c10::DeviceIndex current_core() {
  return t_core;
}

void set_current_core(c10::DeviceIndex core) {
  check_core(core);
  t_core = core;
}

at::Generator host_generator(const at::Generator& generator) {
  auto* ours = dynamic_cast<NeuronGenerator*>(generator.unsafeGetGeneratorImpl());
  return ours ? ours->host_ : generator;
}

// Registered once, when the shim is loaded; PyTorch keeps the pointers for the life of the process.
void register_device() {
  c10::SetAllocator(kDevice, allocator());
  static c10::impl::DeviceGuardImplRegistrar guard(kDevice, new Guard);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  at::setHostAllocator(kDevice, &g_pinned);
}

} // namespace neuron
