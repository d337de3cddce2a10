// Who holds HBM now, and while it is asked for, where it was taken and given back: PyTorch's memory history.
#pragma once

#include "device.h"

namespace neuron {

// Called by the allocator when a block begins and ends to live, and when one does not fit.
void remember(Block& block);
void forget(Block& block);
void remember_oom(c10::DeviceIndex core, int64_t nbytes);

} // namespace neuron
